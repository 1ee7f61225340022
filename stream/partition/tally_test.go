package partition

import (
	"fmt"
	"iter"
	"maps"
	"slices"
	"strconv"

	"github.com/ranker-worker/ranker-worker/delay"
	"github.com/ranker-worker/ranker-worker/policy"
	"github.com/ranker-worker/ranker-worker/stream/event"
)

// unpooled is delay.Pooling of a learner without pooled state.
type unpooled struct{}

func (unpooled) Share(delay.Learner, int32, func(policy.Item) policy.Item)     {}
func (unpooled) Refresh(iter.Seq[policy.Item])                                 {}
func (unpooled) Unstored() bool                                                { return false }
func (unpooled) BeGlobal(func(policy.Item) uint64)                             {}
func (unpooled) SetSource(int32, policy.Item, policy.Sums)                     {}
func (unpooled) SetSourceField(int32, string, []byte, []byte, delay.Translate) {}
func (unpooled) Commit(int) delay.Estimates                                    { return 0 }
func (unpooled) Estimate(delay.Estimates) delay.Estimates                      { return 0 }
func (unpooled) Makes() delay.Estimates                                        { return 0 }
func (unpooled) AppendEstimate(dst []byte) []byte                              { return dst }
func (unpooled) TakeEstimate([]byte) (delay.Estimates, error)                  { return 0, nil }
func (unpooled) Ended(int32, policy.Item)                                      {}
func (unpooled) Release(policy.Item)                                           {}
func (unpooled) BeginResync(int32)                                             {}
func (unpooled) EndResync(int32, func(string, policy.Item) bool)               {}

// tally is a simple learner: it ranks by decreasing utility, feeds each payoff on arrival, counts selections in
// flight, and notes its calls. With instances it also gives propensities and an instance, as adversarial learners
// do. With saw it uses contexts, and with expects it returns the expected payoff of an item with these sums.
type tally struct {
	unpooled
	delay.Plain
	instances   bool
	expects     func(policy.Sums) float64
	saw         func(*policy.Context) // called with the context of each decision; nil: none needed
	sums        []policy.Sums
	changed     map[policy.Item]bool
	outstanding int64
	stored      int64
	calls       *[]string
}

func (l *tally) note(format string, args ...any) {
	if l.calls != nil {
		*l.calls = append(*l.calls, fmt.Sprintf(format, args...))
	}
}

func (l *tally) Grow(items int) {
	for len(l.sums) < items {
		l.sums = append(l.sums, policy.Sums{})
	}
}

func (l *tally) Decide(candidates []policy.Item, about *policy.Context, _ policy.Key, d *delay.Decision) {
	if l.saw != nil {
		l.saw(about)
	}
	*d = delay.Decision{Order: d.Order[:0], Propensities: d.Propensities[:0], Expected: d.Expected[:0], Instance: -1}
	for k := len(candidates) - 1; k >= 0; k-- {
		d.Order = append(d.Order, int32(k))
		if l.instances {
			d.Propensities = append(d.Propensities, 1/float64(len(candidates)))
		}
		if l.expects != nil {
			d.Expected = append(d.Expected, event.FromMillionths(event.Millionths(l.expects(l.sums[candidates[k]]))))
		}
	}
	if l.instances {
		d.Instance = int32(len(candidates))
	}
}

func (l *tally) Expects() bool { return l.expects != nil }

func (l *tally) Adopt(ref int64, d *delay.Decision) {
	if l.expects != nil {
		l.note("adopt %d order %v expected %v", ref, d.Order, d.Expected)
		return
	}
	l.note("adopt %d order %v", ref, d.Order)
}

// Needs are those of a learner that may have instances, and hence wants to see all.
func (l *tally) Categorise(i policy.Item, name string) { l.note("category of %d %s", i, name) }

func (l *tally) Needs() delay.Needs {
	return delay.Needs{Ref: true, Candidates: l.instances, Context: l.saw != nil}
}

func (l *tally) Selected(fb delay.Feedback) {
	l.outstanding++
	l.note("selected %d item %d%s", fb.Ref, fb.Item, l.more(fb))
}

func (l *tally) Partial(fb delay.Feedback) {
	before := "nothing"
	if fb.InParts {
		before = fmt.Sprintf("%.4g", fb.Before)
	}
	l.note("part of %d item %d payoff %.4g after %s at age %d%s", fb.Ref, fb.Item, fb.Payoff, before, fb.Age, l.more(fb))
}

func (l *tally) Paid(fb delay.Feedback) {
	l.outstanding--
	s := &l.sums[fb.Item]
	s.N++
	s.R += fb.Payoff
	s.Q += fb.Payoff * fb.Payoff
	l.changed[fb.Item] = true
	l.note("paid %d item %d payoff %.4g%s", fb.Ref, fb.Item, fb.Payoff, l.more(fb))
}

func (l *tally) Expired(fb delay.Feedback) {
	l.outstanding--
	l.note("expired %d item %d%s", fb.Ref, fb.Item, l.more(fb))
}

func (l *tally) Unselected(fb delay.Feedback) { l.note("unselected %d%s", fb.Ref, l.more(fb)) }

func (l *tally) more(fb delay.Feedback) string {
	switch {
	case l.saw != nil:
		if fb.Segment != 0 {
			return fmt.Sprintf(" knowing %v of %d", fb.X, fb.Segment)
		}
		return fmt.Sprintf(" knowing %v", fb.X)
	case l.expects != nil && !fb.HasExpected:
		return " expected nothing"
	case l.expects != nil:
		return fmt.Sprintf(" expected %v", fb.Expected)
	case !l.instances:
		return ""
	}
	return fmt.Sprintf(" of %v propensity %.3g instance %d", fb.Candidates, fb.Propensity, fb.Instance)
}

func (l *tally) Sums(i policy.Item) policy.Sums         { return l.sums[i] }
func (l *tally) Evidence(i policy.Item) policy.Evidence { return l.sums[i].Evidence() }
func (l *tally) Pooled() []delay.Pooled                 { return nil }
func (l *tally) Advance(int64)                          {}
func (l *tally) Hashes() []string                       { return []string{"learner"} }
func (l *tally) LoadSums(i policy.Item, s policy.Sums)  { l.sums[i] = s }
func (l *tally) Loaded() error                          { return nil }
func (l *tally) Status() delay.Status                   { return delay.Status{Flights: l.outstanding} }
func (l *tally) LoadField(_ string, _, value []byte) (err error) {
	l.outstanding, err = strconv.ParseInt(string(value), 10, 64)
	l.stored = l.outstanding
	return err
}

func (l *tally) Harvest(r delay.Recorder) {
	for _, i := range slices.Sorted(maps.Keys(l.changed)) {
		r.Item(i)
	}
	clear(l.changed)
	if l.outstanding != l.stored {
		r.Field("learner", []byte("outstanding"), strconv.AppendInt(nil, l.outstanding, 10))
		l.stored = l.outstanding
	}
}

var (
	_ delay.Learner   = (*tally)(nil)
	_ delay.Mergeable = (*tally)(nil)
)

func (l *tally) Carry(fb delay.Feedback, selected bool) {
	if selected {
		l.outstanding++
	}
	l.note("carry item %d, selected: %t%s", fb.Item, selected, l.more(fb))
}

func (l *tally) NamesItems() bool                                           { return false }
func (l *tally) TakeOver(delay.Learner, []policy.Item, delay.Portion) error { return nil }
