package partition

import (
	"math"
	"slices"

	"github.com/ranker-worker/ranker-worker/stream/event"
)

// expireDue does all that the watermark has made due for the current entry. The walk, and each step that touches the entry, call it first: a
// record meets the same entry whether or not the walk was there. A deadline is past when the watermark is greater.
func (j *joiner) expireDue() {
	e, w := &j.cur.entry, j.time.watermark
	if e.kind == parkedOnly {
		j.orphan(w)
		if len(e.parked) == 0 {
			e.reset()
		}
		return
	}
	if e.kind == pending && w > e.nextDeadline() {
		j.stepping.due, j.stepping.dueAt = true, e.offset
		j.expire()
	}
	if e.kind == tombstone && w > e.forgetAt {
		e.reset()
		j.cur.changed = true
	}
}

// expire ends a pending impression whose deadline is past. Records parked for its selection become orphans.
func (j *joiner) expire() {
	e := &j.cur.entry
	l := j.learners[e.learner]
	switch {
	case l.gone, e.selected < 0, e.count == 0 && l.cfg.ExpiryDefault == nil:
		j.giveUp()
		return
	case e.count > 0:
		r, clamped := l.normalise(e.sum)
		j.countClamped(clamped)
		j.endPaid(l, paid, r, e.payoffDeadline)
	default:
		r, _ := l.normalise(*l.cfg.ExpiryDefault)
		j.endPaid(l, defaulted, r, e.payoffDeadline)
	}
	j.orphanAll()
}

func (j *joiner) giveUp() {
	e := &j.cur.entry
	l := j.learners[e.learner]
	how := expired
	if e.selected < 0 && e.hasSelectionDeadline {
		how = unselected
	}
	switch {
	case l.gone:
		j.unconfigured.miss(l.name, j.cur.id[:], e)
	case e.selected < 0:
		// Without a selections topic no selection is known, so no default can be fed.
		fb := j.feedback(l)
		if len(fb.Order) > 0 && !l.items.has(e.items[0]) {
			fb.Order = nil // the item on top has ended
		}
		l.delay.Unselected(fb)
	default:
		fb := j.feedback(l)
		if l.keepsSelected(e) {
			l.delay.Expired(fb)
			l.observer.drops.expired(fb.Item)
		}
	}
	j.end(how, j.trials.worthUnpaid(e, l), e.nextDeadline())
	j.orphanAll()
}

// makeRoom ends an impression that stands under the id of an adopted decision. Such a one may exist if it was forgotten when the decision
// was made but is not yet in this replay. Then join.remember was raised, or the watermark is not as far again. The decision's maker had
// seen it end. If it is pending here, its deadline is past, or its payoff came out of this replay's sight: then the learner receives none.
func (j *joiner) makeRoom(r *event.Ranking) {
	e, d := &j.cur.entry, &r.Decision
	if e.kind <= parkedOnly {
		j.expireDue()
		return
	}
	switch {
	case e.kind == pending && e.nextDeadline() < d.Began:
		j.expire()
	case e.kind == pending:
		j.giveUp()
	default:
		j.orphanAll()
	}
	e.reset()
	j.cur.changed = true
}

// orphanAll makes orphans of the records parked for a selection of an ended impression.
func (j *joiner) orphanAll() {
	j.segments.loose += eventWeight
	j.orphan(math.MaxInt64)
}

// orphan makes orphans of records whose deadlines are past at a watermark.
func (j *joiner) orphan(watermark event.Millis) {
	e := &j.cur.entry
	e.parked = slices.DeleteFunc(e.parked, func(p parkedRecord) bool {
		if watermark <= p.deadline {
			return false
		}
		j.unpark(&p)
		j.outcome(p.topic, orphan, 1)
		return true
	})
}
