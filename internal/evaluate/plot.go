package evaluate

import (
	"io"
	"strings"

	"github.com/ranker-worker/ranker-worker/internal/plotting"
)

// Plot draws the values of targets with their 95% intervals and sequences; of refused ones the bounds that hold.
func (r *Report) Plot(w io.Writer, format string) error {
	var all []plotting.Interval
	for i := range r.Targets {
		t := &r.Targets[i]
		policy, _, _ := strings.Cut(t.Target, ",")
		x := plotting.Interval{Name: t.Target, Colour: plotting.ColourOf(policy)}
		if v := t.Value(); t.Verdict == OK {
			x.Value = &v.Value
			if v.Lower != nil {
				x.Narrow = &[2]float64{*v.Lower, *v.Upper}
			}
		}
		if t.Bounded || t.Verdict == OK && t.PerImpression == nil {
			x.Wide = &[2]float64{t.Sequence.Lower, t.Sequence.Upper}
		}
		all = append(all, x)
	}
	var logged *plotting.Line
	if r.Log.Logged != nil {
		logged = &plotting.Line{Name: "was paid", At: *r.Log.Logged}
	}
	axis := "payoff, in the mean: 95 %, and at any look"
	if r.Per == perImpression {
		axis = "payoff an impression, in the mean: 95 %"
	}
	return plotting.Intervals(w, format, "Estimated payoff of targets", axis, all, logged)
}
