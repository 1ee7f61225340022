package delay

import (
	"slices"

	"github.com/ranker-worker/ranker-worker/policy"
)

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
// is on hold. Numbers are decimal.
type QPMD struct {
	base  policy.Policy
	table *policy.Table
	in    policy.Input
	ws    policy.Workspace

	hold     hold
	queues   []fifo  // by item
	inFlight []int64 // by item
	queued   int64   // total
	flights  int64   // total
	holds    int64
	// restored is true during a hold that was loaded: what BASE knew from other sources when it began is gone.
	restored bool

	changes changes
	loading map[policy.Item]*loadingQueue
}

// hold is what BASE waits for.
type hold struct {
	on   bool
	item policy.Item
	ref  int64 // the impression whose selection began it
}

var _ Learner = (*QPMD)(nil)

// NewQPMD makes a learner that knows no items yet.
func NewQPMD(base policy.Policy) *QPMD {
	return &QPMD{base: base, table: policy.NewTable(0)}
}

// Grow implements Learner. The number of known items is no part of what a hold freezes: a new item can be ranked at once.
func (q *QPMD) Grow(items int) {
	q.table.Grow(items)
	if more := items - len(q.queues); more > 0 {
		q.queues = extend(q.queues, more)
		q.inFlight = extend(q.inFlight, more)
		q.changes.grow(more)
	}
}

// extend appends more zero elements.
func extend[T any](s []T, more int) []T {
	n := len(s)
	s = slices.Grow(s, more)[:n+more]
	clear(s[n:])
	return s
}

// Decide implements Learner.
func (q *QPMD) Decide(candidates []policy.Item, key policy.Key, d *Decision) {
	n := len(candidates)
	d.Order = slices.Grow(d.Order[:0], n)[:n]
	d.Propensities = d.Propensities[:0]
	d.Instance = -1
	d.Explored = false
	q.in = policy.Input{Items: candidates, Table: q.table, InFlight: q.inFlight, Key: key}
	q.base.Rank(&q.in, &q.ws, d.Order)
	q.in.Items = nil // they are the caller's
}

// Adopt implements Learner. A decision alone changes nothing.
func (q *QPMD) Adopt(int64, *Decision) {}

// Selected implements Learner: a step of BASE begins, unless it is on hold.
func (q *QPMD) Selected(o Outcome) {
	q.fly(o.Item, 1)
	if q.hold.on {
		return
	}
	if queue := &q.queues[o.Item]; queue.len() > 0 {
		q.queued--
		q.changes.note(o.Item, queueChanged)
		q.feed(o.Item, queue.pop())
		return
	}
	q.hold = hold{on: true, item: o.Item, ref: o.Ref}
	q.holds++
}

// Paid implements Learner: the payoff ends a hold for its item, or waits.
func (q *QPMD) Paid(o Outcome) {
	q.fly(o.Item, -1)
	if q.hold.on && q.hold.item == o.Item {
		q.feed(o.Item, o.Payoff)
		q.release()
		return
	}
	q.queues[o.Item].push(o.Payoff)
	q.queued++
	q.changes.note(o.Item, queueChanged)
}

// Expired implements Learner: a hold that this selection began is over, without a payoff.
func (q *QPMD) Expired(o Outcome) {
	q.fly(o.Item, -1)
	if q.hold.on && q.hold.ref == o.Ref {
		q.release()
	}
}

// Unselected implements Learner. An impression without a selection was no step of BASE.
func (q *QPMD) Unselected(Outcome) {}

// fly counts selections in flight. The count only breaks ties, so that one that a payoff without a selection would take
// below 0 stays there.
func (q *QPMD) fly(i policy.Item, by int64) {
	if q.inFlight[i]+by < 0 {
		return
	}
	q.inFlight[i] += by
	q.flights += by
	q.changes.note(i, flightsChanged)
}

// feed is the end of a step of BASE.
func (q *QPMD) feed(i policy.Item, payoff float64) {
	q.table.Add(i, payoff)
	q.changes.note(i, sumsChanged)
}

// release ends the hold, and lets in what came from other sources meanwhile.
func (q *QPMD) release() {
	q.hold = hold{}
	q.restored = false
	q.table.TakeStaged()
}

// Sums implements Learner.
func (q *QPMD) Sums(i policy.Item) policy.Sums { return q.table.Own(i) }

// Import implements Learner. During a hold the newest sums of each source wait for its end. A hold that was loaded is
// the exception: the sums of other sources that BASE is frozen with were not stored, so the first that come of a source
// and item stand in for them.
func (q *QPMD) Import(source int32, i policy.Item, s policy.Sums) {
	if q.hold.on && (!q.restored || q.table.Has(source, i)) {
		q.table.Stage(source, i, s)
		return
	}
	q.table.Import(source, i, s)
}

// Status implements Learner.
func (q *QPMD) Status() Status {
	return Status{
		Fed: q.table.Fed(), Queued: q.queued, OnHold: q.hold.on, Item: q.hold.item, Holds: q.holds, Flights: q.flights,
	}
}

// Pooled implements Learner: only sums are pooled.
func (q *QPMD) Pooled() []string { return nil }

// ImportField implements Learner.
func (q *QPMD) ImportField(int32, string, []byte, []byte, Translate) {}

// Advance implements Learner: QPM-D does nothing on a schedule.
func (q *QPMD) Advance(int64) {}
