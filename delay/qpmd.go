package delay

import "github.com/ranker-worker/ranker-worker/policy"

// QPMD is QPM-D (the paper's appendix C.2; P. Joulani, A. György, C. Szepesvári, "Online learning under delayed
// feedback", ICML 2013): it runs a policy made for immediate payoffs, BASE, on payoffs that come late, so that BASE sees
// what it would have seen without delay, had each item's payoffs been drawn in the order in which they arrived.
//
// Payoffs wait in one FIFO queue per item. When a user selects an item that has one waiting, BASE is fed it. When none
// waits, BASE goes on hold for that item: its statistics (N, R and t) are frozen, and rankings go on being made from
// them, until a payoff for that very item arrives, which it is fed at once. All other payoffs join their queues.
// Selections during a hold do nothing but count as in flight, which policies use to break ties.
//
// A payoff that never comes must not hold for ever: when the selection that began a hold expires, the hold ends, and
// the step is cancelled as though it had not been. An item that never pays is then held for again at its next
// selection; where expiry stands for a payoff instead (a default), no such thing happens.
//
// What other sources know is taken in between BASE's steps, never inside a hold. Only new items are noticed at once.
//
// With windows that are drawn independently and lazy (short ones are more likely), the regret is at most BASE's without
// delay plus n·τ. With windows that are not, it may be linear: while BASE waits for one item, users whose window does
// not reach what BASE wants to know teach it nothing, and the items they do select are selected wrongly all the time.
//
// Its state is stored in hashes of its own, besides the items' sums: "queue" maps "<item>:<index>" to a waiting payoff,
// "queues" maps "<item>" to "<head> <tail>", the indices from and up to which payoffs wait, "flights" maps "<item>" to
// the number of its selections in flight, where there are any, and "learner" maps "hold" to "<item> <ref>" while BASE
// is on hold. Numbers are decimal. What is learned of windows, for a BASE that needs them, is stored as BOLD stores it.
type QPMD struct {
	base
	hold   hold
	queues []fifo // by item
	queued int64  // total
	holds  int64
	// restored is true during a hold that was loaded: what BASE knew from other sources when it began is gone.
	restored bool

	storedHold   hold     // as harvested last
	storedQueues []extent // by item
	loading      map[policy.Item]*loadingQueue
}

// extent is the indices from and up to which payoffs wait.
type extent struct{ head, tail int64 }

// hold is what BASE waits for.
type hold struct {
	on   bool
	item policy.Item
	ref  int64 // the impression whose selection began it
}

var _ Learner = (*QPMD)(nil)

// NewQPMD makes a learner that knows no items yet.
func NewQPMD(p policy.Policy) *QPMD { return &QPMD{base: newBase(p)} }

// NewExploringQPMD makes a learner with a BASE that explores, for windows as given or learned. It fails with ErrWindows.
func NewExploringQPMD(e policy.Explorer, w WindowsConfig) (*QPMD, error) {
	b, err := newExploring(e, w)
	if err != nil {
		return nil, err
	}
	return &QPMD{base: b}, nil
}

// Grow implements Learner. The number of known items is no part of what a hold freezes: a new item can be ranked at once.
func (q *QPMD) Grow(items int) {
	q.base.Grow(items)
	if more := items - len(q.queues); more > 0 {
		q.queues = extend(q.queues, more)
		q.storedQueues = extend(q.storedQueues, more)
	}
}

// Needs implements Learner: a hold ends with the selection that began it.
func (q *QPMD) Needs() Needs { return Needs{Ref: true} }

// Selected implements Learner: a step of BASE begins, unless it is on hold.
func (q *QPMD) Selected(fb Feedback) {
	q.selected(&fb)
	if q.hold.on {
		return
	}
	if queue := &q.queues[fb.Item]; queue.len() > 0 {
		q.queued--
		q.changes.Note(fb.Item, queueChanged)
		q.feed(fb.Item, queue.pop())
		return
	}
	q.hold = hold{on: true, item: fb.Item, ref: fb.Ref}
	q.holds++
}

// Partial implements Learner: BASE is told of whole payoffs only.
func (q *QPMD) Partial(Feedback) {}

// Paid implements Learner: the payoff ends a hold for its item, or waits.
func (q *QPMD) Paid(fb Feedback) {
	q.paid(&fb)
	if q.hold.on && q.hold.item == fb.Item {
		q.feed(fb.Item, fb.Payoff)
		q.release()
		return
	}
	q.queues[fb.Item].push(fb.Payoff)
	q.queued++
	q.changes.Note(fb.Item, queueChanged)
}

// Expired implements Learner: a hold that this selection began is over, without a payoff.
func (q *QPMD) Expired(fb Feedback) {
	q.dropped(&fb)
	if q.hold.on && q.hold.ref == fb.Ref {
		q.release()
	}
}

// release ends the hold, and lets in what came from other sources meanwhile.
func (q *QPMD) release() {
	q.hold = hold{}
	q.restored = false
	q.table.TakeStaged()
}

// SetSource implements Learner. During a hold the newest sums of each source wait for its end. A hold that was loaded is
// the exception: the sums of other sources that BASE is frozen with were not stored, so the first that come of a source
// and item stand in for them.
func (q *QPMD) SetSource(source int32, i policy.Item, s policy.Sums) {
	if _, told := q.table.From(source, i); q.hold.on && (!q.restored || told) {
		q.table.Stage(source, i, s)
		return
	}
	q.table.SetSource(source, i, s)
}

// Status implements Learner.
func (q *QPMD) Status() Status {
	s := q.status()
	s.Queued, s.OnHold, s.Item, s.Holds = q.queued, q.hold.on, q.hold.item, q.holds
	return s
}
