package partition

import "github.com/ranker-worker/ranker-worker/stream/event"

// settle does all that the watermark has made due for the current entry. The walk, and each step that touches the entry, call it first: a
// record meets the same entry whether or not the walk was there. A deadline is past when the watermark is greater.
func (m *Machine) settle() {
	e, w := &m.cur.entry, m.time.watermark
	if e.kind == waiting {
		m.orphan(w)
		if len(e.parked) == 0 {
			e.reset()
		}
		return
	}
	if e.kind == pending && w > e.nextDeadline() {
		m.stepping.due, m.stepping.dueAt = true, e.offset
		m.expire()
	}
	if e.kind == closed && w > e.forgetAt {
		e.reset()
		m.cur.changed = true
	}
}

// expire ends a pending impression whose deadline is past. Records parked for its selection become orphans.
func (m *Machine) expire() {
	e := &m.cur.entry
	l := m.learners[e.learner]
	switch {
	case l.gone, e.selected < 0, e.count == 0 && l.cfg.ExpiryDefault == nil:
		m.giveUp()
		return
	case e.count > 0:
		r, clamped := l.normalise(e.sum)
		m.countClamped(clamped)
		m.endPaid(l, paid, r, e.payoffDeadline)
	default:
		r, _ := l.normalise(*l.cfg.ExpiryDefault)
		m.endPaid(l, defaulted, r, e.payoffDeadline)
	}
	m.orphanAll()
}

func (m *Machine) giveUp() {
	e := &m.cur.entry
	l := m.learners[e.learner]
	how := expired
	if e.selected < 0 && e.hasSelectionDeadline {
		how = unselected
	}
	switch {
	case l.gone:
		m.absences.miss(l.name, m.cur.id[:], e)
	case e.selected < 0:
		// Without a selections topic no selection is known, so no default can be fed.
		fb := m.feedback(l)
		if len(fb.Order) > 0 && !l.items.has(e.items[0]) {
			fb.Order = nil // the item on top has ended
		}
		l.delay.Unselected(fb)
	default:
		fb := m.feedback(l)
		if m.keepsSelected(l) {
			l.delay.Expired(fb)
			l.drops.expired(fb.Item)
		}
	}
	m.end(how, m.trials.worthUnpaid(e, l))
	m.orphanAll()
}

// orphanAll makes orphans of the records parked for a selection of an ended impression.
func (m *Machine) orphanAll() {
	e := &m.cur.entry
	m.segments.loose += eventWeight
	for i := range e.parked {
		m.unpark(&e.parked[i])
		m.account(e.parked[i].topic, orphan, 1)
	}
	clear(e.parked)
	e.parked = e.parked[:0]
}

// orphan makes orphans of records parked for too long.
func (m *Machine) orphan(w event.Millis) {
	e := &m.cur.entry
	kept := 0
	for i := range e.parked {
		p := e.parked[i]
		if w > p.deadline {
			m.unpark(&p)
			m.account(p.topic, orphan, 1)
			continue
		}
		e.parked[kept] = p
		kept++
	}
	clear(e.parked[kept:])
	e.parked = e.parked[:kept]
}
