package partition

import "github.com/ranker-worker/ranker-worker/stream/event"

// settle does what the watermark has made due about the current entry. Both the expiry walk and every step that
// touches the entry do this first: so a record meets the same entry whether or not the walk has been there.
func (m *Machine) settle() { m.settleAt(m.time.watermark) }

// settleAt settles as of watermark w. A deadline is past when w is greater than it.
func (m *Machine) settleAt(w event.Millis) {
	e := &m.cur.entry
	if e.kind == waiting {
		m.orphan(w)
		if len(e.parked) == 0 {
			e.reset()
		}
		return
	}
	if e.kind == pending && w > e.nextDeadline() {
		m.expire(w)
	}
	if e.kind == closed && w > e.forgetAt {
		e.reset()
		m.cur.changed = true
	}
}

// expire ends a pending impression whose deadline is past. What waited for its selection are orphans: the selection
// will not come.
func (m *Machine) expire(w event.Millis) {
	e := &m.cur.entry
	l := m.learners[e.learner]
	switch {
	case e.selected < 0 && e.hasSelectionDeadline:
		if l.gone {
			m.absences.miss(l.name, e)
		} else {
			l.delay.Unselected(m.feedback(l))
		}
		m.end(unselected, false)
	case l.gone:
		m.absences.miss(l.name, e)
		m.end(expired, false)
	case e.selected < 0:
		// Without a selections topic nobody is known to have selected, so that no default can be given either.
		l.delay.Unselected(m.feedback(l))
		m.end(expired, false)
	case e.count > 0:
		r, clamped := l.normalise(e.sum)
		m.countClamped(clamped)
		m.endPaid(l, paid, r, e.payoffDeadline)
	case l.cfg.ExpiryDefault != nil:
		r, _ := l.normalise(*l.cfg.ExpiryDefault)
		m.endPaid(l, defaulted, r, e.payoffDeadline)
	default:
		fb := m.feedback(l)
		l.delay.Expired(fb)
		l.drops.expired(fb.Item)
		m.end(expired, false)
	}
	m.segments.loose += eventWeight
	for i := range e.parked {
		m.unpark(&e.parked[i])
		m.account(e.parked[i].topic, orphan, 1)
	}
	clear(e.parked)
	e.parked = e.parked[:0]
}

// orphan gives up what has waited too long for its impression.
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
