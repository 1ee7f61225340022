package delay

import (
	"iter"

	"github.com/ranker-worker/ranker-worker/policy"
)

// onlyWindows is the pooling of a learner that pools windows alone, as BOLD does. A loss vector is the result of the rounds of its instance,
// one after the other: those of partitions do not add up.
type onlyWindows struct{ windows windows }

func (o *onlyWindows) pooled() *windows { return &o.windows }

// Pooled implements Learner. Selections of all partitions inform the estimate of windows.
func (o *onlyWindows) Pooled() []Pooled {
	if about := o.windows.about(); about.pooled {
		return []Pooled{about.Pooled}
	}
	return nil
}

func (o *onlyWindows) Share(global Learner, _ int32, _ func(policy.Item) policy.Item) {
	o.windows.global = global.(interface{ pooled() *windows }).pooled()
}

func (o *onlyWindows) Refresh(iter.Seq[policy.Item]) { o.windows.refresh() }

func (o *onlyWindows) Unstored() bool { return o.windows.unwritten }

func (o *onlyWindows) BeGlobal(func(policy.Item) uint64) {}

// SetSource implements Pooling. Items' sums inform no decision.
func (o *onlyWindows) SetSource(int32, policy.Item, policy.Sums) {}

func (o *onlyWindows) SetSourceField(source int32, hash string, field, value []byte, _ Translate) {
	if hash == hashWindows {
		o.windows.setSource(source, field, value, nil)
	}
}

func (o *onlyWindows) Commit(int) (due Estimates) {
	if o.windows.due() {
		due = OfWindows
	}
	return due
}

func (o *onlyWindows) Estimate(which Estimates) (made Estimates) {
	if made = which & o.Makes(); made != 0 {
		o.windows.estimateAll()
	}
	return made
}

func (o *onlyWindows) Makes() (all Estimates) {
	if o.windows.counts != nil {
		all = OfWindows
	}
	return all
}

func (o *onlyWindows) AppendEstimate(dst []byte) []byte { return o.windows.appendMade(dst) }

func (o *onlyWindows) TakeEstimate(text []byte) (taken Estimates, err error) {
	_, taken, err = o.windows.takeMade(text)
	return taken, err
}

func (o *onlyWindows) Ended(int32, policy.Item) {}

func (o *onlyWindows) Release(policy.Item) {}

func (o *onlyWindows) BeginResync(source int32) { o.windows.beginResync(source) }

func (o *onlyWindows) EndResync(source int32, _ func(string, policy.Item) bool) {
	o.windows.endResync(source, nil)
}
