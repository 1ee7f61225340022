package delay

import (
	"errors"
	"fmt"
	"slices"

	"github.com/ranker-worker/ranker-worker/policy"
	"github.com/ranker-worker/ranker-worker/policy/admissible"
)

// ErrWindows is wrapped by errors about the settings of windows.
var ErrWindows = errors.New("delay: settings of the windows are faulty")

// DefaultMaxWindow is the longest distinguished window where windows are learned, unless configured.
const DefaultMaxWindow = 100

// DefaultEstimateEvery is the time between estimates of learned windows, in milliseconds of event time, unless configured.
const DefaultEstimateEvery = 60_000

// WindowsConfig configures the distribution of attention windows. The zero value learns it.
type WindowsConfig struct {
	// Given is the distribution; nil learns it from selections.
	Given *admissible.Windows
	// Max is the longest distinguished window, in 1..policy.MaxWindows, where they are learned; 0 is DefaultMaxWindow.
	Max int
	// EstimateEvery is the time between estimates, in milliseconds of event time; 0 is DefaultEstimateEvery.
	EstimateEvery int64
}

// windows is the distribution of attention windows in use: given, or learned from selections and estimated on a schedule of event
// time. The zero value, for learners without windows, reads and drops stored fields.
type windows struct {
	now    *admissible.Windows
	fresh  bool              // now has changed since the last fold
	folded []float64         // for lists of its length
	counts *policy.Intervals // nil if windows are given
	every  int64
	period int64     // period of the last estimate
	from   int64     // number of selections in the last estimate
	q      []float64 // the last estimate
	noise  float64   // share of users who select any item within their window, by the last estimate; 0 if windows are given
	// unwritten says that the estimate has not been harvested.
	unwritten bool
	made      int      // number of estimates made or taken, in a global learner; in a partition's, of the one in use
	global    *windows // the global learner's, which then makes the estimates; nil where there is none
	resyncs   policy.Resyncs[policy.Interval]
	outdated  bool // the stored estimate has another number of windows
	// beyond are stored intervals of windows not distinguished any more, whose fields are to be deleted.
	beyond []policy.Interval
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
	w.resyncs = policy.Resyncs[policy.Interval]{}
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

// fold returns the distribution for lists of n candidates, valid until the next call, and whether it may have changed since the last.
func (w *windows) fold(n int) (q []float64, changed bool) {
	if len(w.folded) == n && !w.fresh {
		return w.folded, false
	}
	w.fresh = false
	w.folded = slices.Grow(w.folded[:0], n)[:n]
	return w.now.Fold(w.folded), true
}

// mix turns propensities of users without noise into those of all users, by position shown: noise selects each item within a window
// with equal probability (policy/propensity). q is folded to their number. Their sum does not change.
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

// append appends the whole distribution, and returns the number of selections behind it.
func (w *windows) append(dst []float64) (q []float64, selections int64) {
	if w.now == nil {
		return dst, 0
	}
	start := len(dst)
	dst = slices.Grow(dst, w.now.Max())[:start+w.now.Max()]
	w.now.Fold(dst[start:])
	return dst, w.total()
}

// take puts the estimate to use.
func (w *windows) take() error {
	now, err := admissible.NewWindows(w.q)
	if err != nil {
		return fmt.Errorf("delay: the estimate of the windows: %w", err)
	}
	w.now, w.fresh = now, true
	return nil
}

// shown returns the distribution for a Status; nil for learners without windows.
func (w *windows) shown() (q []float64, selections int64) {
	if w.now == nil {
		return nil, 0
	}
	return w.now.Fold(make([]float64, ShownWindows+1)), w.total()
}

func (w *windows) selected(fb *Feedback) {
	if w.counts == nil {
		return
	}
	if at, ok := fb.shownAt(); ok {
		w.counts.Selected(fb.Order, at)
	}
}

func (w *windows) advance(watermark int64) {
	if w.counts == nil || watermark < 0 {
		return
	}
	period := watermark / w.every
	switch {
	case period <= w.period:
	case w.global != nil: // the estimate in use is stored as often
		w.period, w.unwritten = period, true
	case w.counts.Total() != w.from:
		w.period = period
		w.estimate()
	}
}

// total returns the number of selections, over all sources; 0 if windows are given.
func (w *windows) total() int64 {
	switch {
	case w.counts == nil:
		return 0
	case w.global != nil:
		return w.global.counts.Total()
	}
	return w.counts.Total()
}

// due returns whether a global learner should make an estimate: once selections have grown by a sixteenth, or fewer are left. So
// estimates depend on no partition's event time, and their number grows with the logarithm of selections.
func (w *windows) due() bool {
	if w.counts == nil {
		return false
	}
	n := w.counts.Total()
	return n < w.from || n > w.from+w.from/16
}

// mostRounds bounds the rounds of an estimate from scratch.
const mostRounds = 4

// estimateAll makes a global learner's estimate, which depends on the present counts alone.
func (w *windows) estimateAll() {
	policy.PriorWindows(w.q)
	w.noise, w.from = 0, w.counts.Total()
	for range mostRounds {
		var passes int
		if w.noise, passes = w.counts.Estimate(w.q, w.noise); passes < policy.EstimatePasses {
			break
		}
	}
	if w.take() == nil {
		w.made++
	}
}

// refresh takes the global learner's estimate, if it has made one.
func (w *windows) refresh() {
	if w.counts == nil || w.made == w.global.made {
		return
	}
	w.made, w.noise, w.from = w.global.made, w.global.noise, w.global.from
	copy(w.q, w.global.q)
	w.now, w.fresh = w.global.now, true
}

func (w *windows) estimate() {
	w.from = w.counts.Total()
	w.noise, _ = w.counts.Estimate(w.q, w.noise)
	if w.take() == nil { // an estimate is always a distribution
		w.unwritten = true
	}
}
