package evaluate

import (
	"io"
	"strings"

	"github.com/ranker-worker/ranker-worker/internal/plotting"
)

// Plot draws the values of the targets that are judged, each within its interval of 95 % and the one that holds at every look.
func (r *Report) Plot(w io.Writer, format string) error {
	var all []plotting.Interval
	for i := range r.Targets {
		t := &r.Targets[i]
		if t.Verdict != OK {
			continue
		}
		policy, _, _ := strings.Cut(t.Target, ",")
		x := plotting.Interval{Name: t.Target, Value: t.DR.Value, Narrow: [2]float64{t.DR.Value, t.DR.Value},
			Wide: [2]float64{t.Sequence.Lower, t.Sequence.Upper}, Colour: plotting.ColourOf(policy)}
		if t.DR.Lower != nil {
			x.Narrow = [2]float64{*t.DR.Lower, *t.DR.Upper}
		}
		all = append(all, x)
	}
	var logged *plotting.Line
	if r.Log.Logged != nil {
		logged = &plotting.Line{Name: "was paid", At: *r.Log.Logged}
	}
	return plotting.Intervals(w, format, "What targets would have been worth", "payoff, in the mean: 95 %, and at any look", all, logged)
}
