package delay

import (
	"fmt"

	"github.com/ranker-worker/ranker-worker/policy"
	"github.com/ranker-worker/ranker-worker/policy/admissible"
)

// windows is the distribution of windows that BOLD decides for: given, or learned from selections, by an estimate that is
// made anew on a schedule of event time and holds until the next one.
type windows struct {
	now    *admissible.Windows
	fresh  bool              // now has changed
	counts *policy.Intervals // nil: windows are given
	every  int64
	period int64     // of the last estimate
	from   int64     // selections in the last estimate
	q      []float64 // the last estimate
	// unwritten is true where the estimate has not been harvested.
	unwritten bool
	outdated  bool // the stored estimate is for another number of windows
	// beyond are stored intervals of windows that are not told apart any more: their fields go, for what they count was
	// added to others.
	beyond [][2]int
}

func (w *windows) configure(c BOLDConfig) (err error) {
	if c.Windows != nil {
		w.now, w.fresh = c.Windows, true
		return nil
	}
	longest := c.MaxWindow
	if longest == 0 {
		longest = DefaultMaxWindow
	}
	if w.every = c.EstimateEvery; w.every == 0 {
		w.every = DefaultEstimateEvery
	}
	if w.every < 0 {
		return fmt.Errorf("%w: windows estimated every %d ms", ErrBOLD, w.every)
	}
	if w.counts, err = policy.NewIntervals(longest); err != nil {
		return fmt.Errorf("%w: %w", ErrBOLD, err)
	}
	w.q = make([]float64, longest)
	policy.PriorWindows(w.q)
	return w.take()
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

func (w *windows) selected(order []int32, at int) {
	if w.counts != nil {
		w.counts.Selected(order, at)
	}
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
	w.counts.Estimate(w.q)
	if w.take() == nil { // an estimate is always a distribution
		w.unwritten = true
	}
}
