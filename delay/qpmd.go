package delay

import (
	"iter"
	"math"

	"github.com/ranker-worker/ranker-worker/policy"
	"github.com/ranker-worker/ranker-worker/policy/words"
)

// QPMD is QPM-D (paper, appendix C.2; P. Joulani, A. György, C. Szepesvári, "Online learning under delayed feedback", ICML 2013).
// It feeds late payoffs to BASE, a policy for immediate payoffs, as BASE would have seen them without delay had each item's payoffs
// been drawn in their order of arrival.
//
// Payoffs wait in one FIFO queue per item. At a selection BASE is fed its item's oldest waiting payoff. If none waits, BASE goes on
// hold for the item: rankings use its frozen statistics until a payoff of that item arrives. Others join their queues. Selections
// during a hold only count as in flight, which breaks ties.
//
// When the selection that began a hold expires, the hold ends and its step is cancelled. An item that never pays causes a hold at
// its next selection again, unless a default is paid at expiry. Other sources' sums are those of the epoch in which the hold began; a
// loaded hold reads each epoch, since the one before was not stored. New items are ranked at once.
//
// With independent, lazy windows (shorter ones are likelier) the regret is at most BASE's without delay plus n·τ. With other
// windows it may be linear: while BASE waits for one item, users whose window ends above it select wrong items.
//
// Hashes besides the items' sums, all numbers decimal: "queue" maps "<item>:<index>" to a waiting payoff; an item's indices have no
// gaps. "flights" maps "<item>" to its number of selections in flight, and field "hold" of
// "learner" is "<item> <ref>" during a hold. Windows are stored as BOLD stores them.
type QPMD struct {
	base
	hold   hold
	queues []fifo // by item
	queued int64  // total length
	holds  int64
	late   policy.Changes // arrived during the hold, see Refresh

	storedHold   hold                           // at the last harvest
	storedQueues []extent                       // by item
	loading      map[policy.Item][]loadedPayoff // until Loaded
}

type extent struct{ head, tail int64 }

// hold is the payoff that BASE waits for.
type hold struct {
	on   bool
	held bool // the table is at the hold's epoch: false in a loaded hold
	item policy.Item
	ref  int64 // offset of the impression whose selection began it
}

var _ Learner = (*QPMD)(nil)

// NewQPMD returns a learner without items.
func NewQPMD(p policy.Policy) *QPMD { return qpmd(newBase(p)) }

func qpmd(b base) *QPMD {
	q := &QPMD{base: b}
	q.singles[fieldHold] = q.loadHold
	return q
}

// NewExploringQPMD returns a learner with an exploring BASE, for given or learned windows. It fails with ErrWindows.
func NewExploringQPMD(e *policy.EpsilonGreedy, w WindowsConfig) (*QPMD, error) {
	b, err := newExploring(e, w)
	if err != nil {
		return nil, err
	}
	return qpmd(b), nil
}

// Grow implements Learner. New items can be ranked during a hold.
func (q *QPMD) Grow(items int) {
	q.base.Grow(items)
	if more := items - len(q.queues); more > 0 {
		q.queues = policy.Extend(q.queues, more)
		q.storedQueues = policy.Extend(q.storedQueues, more)
	}
}

// Needs implements Learner. A hold ends with the selection that began it, and stays at the epoch.
func (q *QPMD) Needs() Needs { return Needs{Ref: true, Epoch: true} }

// Selected implements Learner. A step of BASE begins, unless it is on hold.
func (q *QPMD) Selected(fb Feedback) {
	q.selected(&fb)
	if q.hold.on {
		return
	}
	if queue := &q.queues[fb.Item]; queue.len() > 0 {
		q.queued--
		q.changes.Note(fb.Item, queueChanged)
		q.table.Add(fb.Item, queue.pop())
		return
	}
	q.hold = hold{on: true, held: true, item: fb.Item, ref: fb.Ref}
	q.holds++
	q.table.Hold()
}

// Partial implements Learner. BASE is fed complete payoffs only.
func (q *QPMD) Partial(Feedback) {}

// Paid implements Learner. The payoff ends a hold for its item, or waits.
func (q *QPMD) Paid(fb Feedback) {
	q.paid(&fb)
	if q.hold.on && q.hold.item == fb.Item {
		q.table.Add(fb.Item, fb.Payoff)
		q.release()
		return
	}
	q.queues[fb.Item].push(fb.Payoff)
	q.queued++
	q.changes.Note(fb.Item, queueChanged)
}

// Expired implements Learner. It ends the hold that this selection began.
func (q *QPMD) Expired(fb Feedback) {
	q.flights.end(&fb, isDropped)
	if q.hold.on && q.hold.ref == fb.Ref {
		q.release()
	}
}

// release ends the hold, and reads the sums that came from other sources meanwhile.
func (q *QPMD) release() {
	held := q.hold.held
	q.hold = hold{}
	if held && q.table.Shares() {
		q.table.Unhold()
		q.base.Refresh(func(yield func(policy.Item) bool) {
			for i := range q.late.All() {
				if !yield(i) {
					return
				}
			}
		})
		q.late.Clear()
	}
}

func (q *QPMD) BeGlobal(mark func(policy.Item) uint64) {
	q.base.BeGlobal(mark)
	q.table.Snapshot()
}

// Commit implements Pooling. Holds of partitions stay at a snapshot.
func (q *QPMD) Commit(items int) (due Estimates) {
	due = q.base.Commit(items)
	q.table.Snapshot()
	return due
}

// Refresh implements Pooling. A hold freezes all but windows.
func (q *QPMD) Refresh(arrived iter.Seq[policy.Item]) {
	if !q.hold.held {
		q.base.Refresh(arrived)
		return
	}
	q.windows.refresh()
	for i := range arrived {
		q.late.Note(i, 1)
	}
}

func (q *QPMD) Status() Status {
	s := q.status()
	s.Queued, s.OnHold, s.Item, s.Holds = q.queued, q.hold.on, q.hold.item, q.holds
	return s
}

type loadedPayoff struct {
	index  int64
	payoff float64
}

const fieldHold = "hold"

func (q *QPMD) loadHold(value []byte) error {
	r := words.Of(value, ' ')
	h := hold{on: true, item: readItem(&r, len(q.queues)), ref: r.Int(0, math.MaxInt64)}
	if err := r.End(errValue); err != nil {
		return err
	}
	q.hold, q.storedHold = h, h
	return nil
}
