package delay

import (
	"errors"
	"fmt"
	"slices"

	"github.com/ranker-worker/ranker-worker/policy"
	"github.com/ranker-worker/ranker-worker/policy/admissible"
)

// ErrWindows says that the settings of the windows make no sense.
var ErrWindows = errors.New("delay: settings of the windows are faulty")

// DefaultMaxWindow is the longest window that is told apart where windows are learned, unless configured.
const DefaultMaxWindow = 100

// DefaultEstimateEvery is how often learned windows are estimated anew, in milliseconds of event time, unless configured.
const DefaultEstimateEvery = 60_000

// WindowsConfig says where the distribution of windows comes from. The zero value learns it.
type WindowsConfig struct {
	// Given is the distribution of windows; nil where it is learned, from what is selected.
	Given *admissible.Windows
	// Max, within 1 and policy.MaxWindows, is the longest window that is told apart, where they are learned; 0 is
	// DefaultMaxWindow.
	Max int
	// EstimateEvery is how often learned windows are estimated anew, in milliseconds of event time; 0 is
	// DefaultEstimateEvery.
	EstimateEvery int64
}

// windows is the distribution of windows that a learner decides for: given, or learned from selections, by an estimate
// that is made anew on a schedule of event time and holds until the next one. The zero value is for learners that do not
// look at windows: it takes in what was stored and tells nothing of it.
type windows struct {
	now    *admissible.Windows
	fresh  bool              // now has changed since it was folded
	folded []float64         // for lists of its length
	counts *policy.Intervals // nil: windows are given
	every  int64
	period int64     // of the last estimate
	from   int64     // selections in the last estimate
	q      []float64 // the last estimate
	noise  float64   // likewise, of users who select any item within their window; 0 where windows are given
	// unwritten is true where the estimate has not been harvested.
	unwritten bool
	outdated  bool // the stored estimate is for another number of windows
	// beyond are stored intervals of windows that are not told apart any more: their fields go, for what they count was
	// added to others.
	beyond [][2]int
}

func (w *windows) configure(c WindowsConfig) (err error) {
	if c.Given != nil {
		w.now, w.fresh = c.Given, true
		return nil
	}
	longest := c.Max
	if longest == 0 {
		longest = DefaultMaxWindow
	}
	if w.every = c.EstimateEvery; w.every == 0 {
		w.every = DefaultEstimateEvery
	}
	if w.every < 0 {
		return fmt.Errorf("%w: estimated every %d ms", ErrWindows, w.every)
	}
	if w.counts, err = policy.NewIntervals(longest); err != nil {
		return fmt.Errorf("%w: %w", ErrWindows, err)
	}
	w.q = make([]float64, longest)
	policy.PriorWindows(w.q)
	return w.take()
}

// fold is the distribution for lists of n candidates, until the next call, and whether it may differ from what the last
// call returned.
func (w *windows) fold(n int) (q []float64, changed bool) {
	if len(w.folded) == n && !w.fresh {
		return w.folded, false
	}
	w.fresh = false
	w.folded = slices.Grow(w.folded[:0], n)[:n]
	return w.now.Fold(w.folded), true
}

// mix makes propensities of users without noise, by position shown, those of all users: noise selects each item within a window alike
// (policy/propensity). q is folded to their number. They add up to what they did.
func (w *windows) mix(q, propensities []float64) {
	if w.noise == 0 {
		return
	}
	var any float64 // Σ q_v/v from window k+1 on
	for k := len(q) - 1; k >= 0; k-- {
		any += q[k] / float64(k+1)
		propensities[k] += float64(w.noise * (any - propensities[k]))
	}
}

// append appends the whole distribution to dst, and tells how many selections it may be learned from.
func (w *windows) append(dst []float64) (q []float64, selections int64) {
	if w.now == nil {
		return dst, 0
	}
	start := len(dst)
	dst = slices.Grow(dst, w.now.Max())[:start+w.now.Max()]
	w.now.Fold(dst[start:])
	if w.counts != nil {
		selections = w.counts.Total()
	}
	return dst, selections
}

// take makes decisions go by the estimate from now on.
func (w *windows) take() error {
	now, err := admissible.NewWindows(w.q)
	if err != nil {
		return fmt.Errorf("delay: the estimate of the windows: %w", err)
	}
	w.now, w.fresh = now, true
	return nil
}

// shown is the distribution for a Status; nil for learners that do not look at it.
func (w *windows) shown() (q []float64, selections int64) {
	if w.now == nil {
		return nil, 0
	}
	q = w.now.Fold(make([]float64, ShownWindows+1))
	if w.counts != nil {
		selections = w.counts.Total()
	}
	return q, selections
}

// selected learns from a selection, where it is known what was shown.
func (w *windows) selected(fb *Feedback) {
	if w.counts == nil {
		return
	}
	if at, ok := fb.shownAt(); ok {
		w.counts.Selected(fb.Order, at)
	}
}

// shownAt is the position at which the selected item was shown, where that is known.
func (fb *Feedback) shownAt() (at int, ok bool) {
	if len(fb.Order) == 0 || len(fb.Order) != len(fb.Candidates) {
		return 0, false
	}
	at = slices.Index(fb.Order, int32(slices.Index(fb.Candidates, fb.Item)))
	return at, at >= 0
}

func (w *windows) advance(watermark int64) {
	if w.counts == nil || watermark < 0 {
		return
	}
	period := watermark / w.every
	if period <= w.period || w.counts.Total() == w.from {
		return
	}
	w.period = period
	w.estimate()
}

func (w *windows) estimate() {
	w.from = w.counts.Total()
	w.noise, _ = w.counts.Estimate(w.q, w.noise)
	if w.take() == nil { // an estimate is always a distribution
		w.unwritten = true
	}
}
