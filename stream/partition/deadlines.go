package partition

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"

	"github.com/ranker-worker/ranker-worker/policy"
	"github.com/ranker-worker/ranker-worker/state"
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
	if !l.gone && e.selected >= 0 {
		if how, r, clamped := l.unpaid(e); how != expired {
			j.countClamped(clamped)
			j.endPaid(l, how, r, e.payoffDeadline)
			j.orphanAll()
			return
		}
	}
	j.giveUp()
}

// unpaid returns how a selection ends that no payoff ends before its deadline, and the payoff that the learner is fed, unless it expires. After
// a refused payoff a default would be invented, and a sum is not complete.
func (l *learner) unpaid(e *entry) (how outcome, r float64, clamped bool) {
	switch {
	case e.refused:
		return expired, 0, false
	case e.count > 0:
		r, clamped = l.normalise(e.sum)
		return paid, r, clamped
	case l.cfg.ExpiryDefault != nil:
		r, _ = l.normalise(*l.cfg.ExpiryDefault)
		return defaulted, r, false
	}
	return expired, 0, false
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
		if e.refused { // a selection came
			fb.Order = nil
		}
		l.delay.Unselected(fb)
	default:
		fb := j.feedback(l)
		if l.keepsSelected(e) {
			l.delay.Expired(fb)
			if !e.refused {
				l.observer.drops.expired(fb.Item)
			}
		}
	}
	j.end(how, j.trials.worthUnpaid(e, l), e.nextDeadline())
	j.orphanAll()
}

// deliver feeds a newly loaded learner the impressions it has missed, in their order, as they would have ended. Else payoffs from before it
// was left out would count, and selections that were never paid would not.
func (j *joiner) deliver(l *learner, fields []state.Field) error {
	type missed struct {
		entry
		ref int64
	}
	all := make([]missed, len(fields))
	for k, f := range fields {
		x := &all[k]
		var err error
		if x.ref, err = strconv.ParseInt(string(f.Field), 10, 64); err == nil {
			err = decodeEntry(f.Value, 0, &x.entry)
		}
		if err == nil && (x.ref < 0 || x.kind != pending || slices.ContainsFunc(x.items, func(i policy.Item) bool { return i >= l.items.next })) {
			err = errEntry
		}
		if err != nil {
			return fmt.Errorf("partition: field %.64q of the missed outcomes: %w", f.Field, err)
		}
	}
	slices.SortFunc(all, func(a, b missed) int { return cmp.Compare(a.ref, b.ref) })
	for k := range all {
		x := &all[k]
		j.unconfigured.writes = append(j.unconfigured.writes, state.Write{Hash: l.name + ":" + missedHash, Field: strconv.AppendInt(nil, x.ref, 10)})
		if !l.keepsSelected(&x.entry) { // it has ended
			continue
		}
		fb := j.feedbackOf(l, &x.entry)
		fb.Ref = x.ref
		how, r, _ := l.unpaid(&x.entry)
		switch {
		case x.selected < 0:
			l.delay.Unselected(fb)
		case how == expired:
			l.delay.Expired(fb)
		default:
			fb.Payoff, fb.Age, fb.Defaulted = r, max(0, x.payoffDeadline-x.began), how == defaulted
			l.delay.Paid(fb)
		}
	}
	return nil
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
