package evaluate

import (
	"io"
	"strings"

	"github.com/ranker-worker/ranker-worker/internal/plotting"
)

// Plot draws the values of accepted targets with their 95% intervals and sequences.
func (r *Report) Plot(w io.Writer, format string) error {
	var all []plotting.Interval
	for i := range r.Targets {
		t := &r.Targets[i]
		if t.Verdict != OK {
			continue
		}
		policy, _, _ := strings.Cut(t.Target, ",")
		v := t.Value()
		x := plotting.Interval{Name: t.Target, Value: v.Value, Narrow: [2]float64{v.Value, v.Value},
			Wide: [2]float64{t.Sequence.Lower, t.Sequence.Upper}, Colour: plotting.ColourOf(policy)}
		if v.Lower != nil {
			x.Narrow = [2]float64{*v.Lower, *v.Upper}
		}
		if t.PerImpression != nil {
			x.Wide = x.Narrow
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
	return plotting.Intervals(w, format, "What targets would have been worth", axis, all, logged)
}
