package evaluate

import (
	"slices"

	"github.com/ranker-worker/ranker-worker/config"
	"github.com/ranker-worker/ranker-worker/delay"
	"github.com/ranker-worker/ranker-worker/internal/joinedlog"
	"github.com/ranker-worker/ranker-worker/policy"
	"github.com/ranker-worker/ranker-worker/policy/admissible"
	"github.com/ranker-worker/ranker-worker/policy/propensity"
	"github.com/ranker-worker/ranker-worker/stream/event"
)

type windows struct {
	WindowsReport
	q      *admissible.Windows
	folded map[int][]float64 // by length of the list
	p      []float64         // scratch, by position
	out    []float64         // scratch, by utility rank
	left   int64             // early rows, which are left out
}

// Values of WindowsReport's Source and Propensities.
const (
	configured = "configured"
	learned    = "learned"
	fitted     = "fitted" // together with selection probabilities
	recorded   = "recorded"
	shown      = "shown"
)

// littleNoise is the largest noise at which recorded propensities, which ignore it, are used.
const littleNoise = 0.005

const passes = 1000

// newWindows learns windows and noise from all selections of the log. Configured windows take precedence.
func newWindows(log *joinedlog.Log, l *config.Learner) (w windows, err error) {
	given, err := l.Windows.Distribution()
	if err != nil {
		return w, err
	}
	longest := max(1, min(log.Longest, delay.DefaultMaxWindow))
	if l.Windows.Max > 0 {
		longest = min(longest, l.Windows.Max)
	}
	w.folded = map[int][]float64{}
	w.Selections, w.Blocked = log.Selections.Total()
	w.Q, w.Noise = log.Selections.Estimate(longest, passes)
	w.Source, w.Propensities = learned, shown
	if w.Noise <= littleNoise { // with more they are wrong for users who select anything
		w.Propensities = recorded
	}
	if given != nil {
		w.Source, w.q = configured, given
		w.Q = given.Fold(make([]float64, given.Max()))
		return w, nil
	}
	w.q, err = admissible.NewWindows(w.Q)
	return w, err
}

func (w *windows) fold(n int) []float64 {
	q := w.folded[n]
	if q == nil {
		q = w.q.Fold(make([]float64, n))
		w.folded[n] = q
	}
	return q
}

// of fills dst with a ranking's selection probabilities by utility rank.
func (w *windows) of(dst []float64, order []int32, own []float64) []float64 {
	n := len(order)
	dst = slices.Grow(dst[:0], n)[:n]
	p := own
	if w.Propensities != recorded || len(own) != n {
		w.p = propensity.Of(w.p[:0], order, w.fold(n), w.Noise)
		p = w.p
	}
	for k, rank := range order {
		dst[rank] = p[k]
	}
	return dst
}

func (w *windows) logged(d *joinedlog.Decision) []float64 {
	w.out = w.of(w.out, d.Order, d.Propensities)
	return w.out
}

// early returns whether recorded propensities may be of windows that the learner had not learned, and counts such rows. A learner estimates
// windows once a minute, so these are the rows of the log's first minute. Weights by such propensities do not add up.
func (w *windows) early(d *joinedlog.Decision, first event.Millis) bool {
	early := w.Source == learned && w.Propensities == recorded && len(d.Propensities) > 0 && d.Time < first+delay.DefaultEstimateEvery
	if early {
		w.left++
	}
	return early
}

// depth returns the mean window of the users who select a candidate of a ranking, given by its utility rank.
func (w *windows) depth(order []int32, selected int32) float64 {
	at := slices.Index(order, selected)
	end := at + 1 // below a higher utility it is selected by users who take anything
	if propensity.Leads(order, at) {
		end = policy.NextAbove(order, at, len(order))
	}
	users, looked := 0.0, 0.0
	for k, q := range w.fold(len(order))[at:end] {
		users, looked = users+q, looked+q*float64(at+k+1)
	}
	if users == 0 {
		return float64(at + 1)
	}
	return looked / users
}

// set adopts a model's windows and noise. Recorded propensities, based on selections alone, are then unused.
func (w *windows) set(q []float64, noise float64) (err error) {
	w.Q, w.Noise, w.Propensities, w.folded = q, noise, shown, map[int][]float64{}
	if w.Source == configured {
		return nil
	}
	w.Source = fitted
	w.q, err = admissible.NewWindows(q)
	return err
}
