package partition

import (
	"github.com/ranker-worker/ranker-worker/state"
	"github.com/ranker-worker/ranker-worker/stream/event"
)

// noBucket says that nothing is stored under an id, hence in no bucket, and noPage likewise.
const (
	noBucket int64  = -1
	noPage   uint32 = 0
)

// expiry is what is known of the buckets: how far the walk over them has come, and which changes of theirs it has to wait for.
//
// Buckets are lazy. An entry lies in a bucket none later than that of its next deadline (but for buckets
// that are being walked already), and most of what happens to an impression leaves it where it is: a selection, or a
// payoff of several. When the walk comes by it looks at the entry and either acts on what is due or moves it on to
// the bucket of its next deadline: from the selection deadline to that of the payoff. So an impression is moved twice in its life and
// not at each event, and the walk, which reads the entry anyhow, pays for at most one needless visit.
//
// At its end an impression moves at once, to the bucket at whose end it is forgotten: of a tombstone nothing else says when.
type expiry struct {
	floor      int64            // first bucket that the walk has not closed
	fixed      int64            // nothing is put into buckets up to this one any more
	dueSegment uint64           // last segment whose changes the walk up to fixed has to see
	touched    map[int64]uint64 // by bucket above fixed: last segment that changed it
	pages      pages
}

func newExpiry() expiry {
	return expiry{fixed: -1, touched: make(map[int64]uint64), pages: newPages()}
}

// from goes on where a walk has closed all buckets below floor.
func (x *expiry) from(floor int64) { x.floor, x.fixed = floor, floor-1 }

// place puts an entry into a page of the bucket of its next deadline as seen from watermark w, unless it lies in an earlier one.
// Buckets that the walk has begun to close are left by the walk alone: it must wait until its own changes are stored, and
// inputOrder that kept moving entries out of those buckets too would keep it waiting for ever. But what is not stored any more goes at
// once; where the walk still sees it, see met.
func (x *expiry) place(s *slot, e *entry, w event.Millis, walking bool, segment uint64) {
	at := x.pages.bucket(s.page)
	if e.kind == nothing {
		if at > x.fixed || walking {
			x.touch(at, segment)
		}
		x.move(s, noBucket)
		return
	}
	to := bucketOf(e.nextDeadline(), max(w, e.since()))
	if e.kind == closed {
		to = bucketOf(e.forgetAt, e.forgetAt) // which was rounded when it ended
	}
	to = max(to, x.fixed+1)
	switch {
	case e.kind == closed && to != at:
		if at > x.fixed || walking {
			x.touch(at, segment)
		}
	case at == noBucket || to < at || walking && at <= x.fixed:
		x.touch(at, segment)
	default:
		e.bucket = at
		return
	}
	x.touch(to, segment)
	x.move(s, to)
	e.bucket = to
}

// move puts a slot's entry into a page of the bucket.
func (x *expiry) move(s *slot, bucket int64) {
	if s.page != noPage {
		x.pages.leave(s.page)
	}
	if s.page = noPage; bucket != noBucket {
		s.page = x.pages.enter(bucket)
	}
}

// touch remembers that a segment changes a bucket.
func (x *expiry) touch(bucket int64, segment uint64) {
	switch {
	case bucket == noBucket:
	case bucket <= x.fixed:
		x.dueSegment = max(x.dueSegment, segment)
	default:
		x.touched[bucket] = segment
	}
}

// met notes that the walk saw an entry which a step has taken away since: before it goes on, that segment is to be stored.
func (x *expiry) met(segment uint64) { x.dueSegment = max(x.dueSegment, segment) }

// due is the last bucket whose deadlines are all past at w, if the walk has not closed it yet; nothing is put into buckets up
// to it from now on.
func (x *expiry) due(w event.Millis) (bucket int64, ok bool) {
	upTo := w/tick - 1
	if upTo < x.floor {
		return 0, false
	}
	if upTo > x.fixed {
		x.fixed = upTo
		for b, segment := range x.touched {
			if b <= upTo {
				x.dueSegment = max(x.dueSegment, segment)
				delete(x.touched, b)
			}
		}
	}
	return x.fixed, true
}

// walked closes buckets.
func (x *expiry) walked(bucket int64) { x.floor = max(x.floor, min(bucket, x.fixed)+1) }

// lag is how much event time has passed at w, but has not been walked over.
func (x *expiry) lag(w event.Millis) event.Millis {
	if x.floor == 0 {
		return 0
	}
	return max(0, w-x.floor*tick)
}

// forget drops what is known of changes that are stored.
func (x *expiry) forget(segment uint64) {
	for b, last := range x.touched {
		if last <= segment {
			delete(x.touched, b)
		}
	}
}

// DueUpTo is the last bucket whose deadlines are all past, if the walk has not closed it yet. From now on nothing is
// put into buckets up to it. There is none before KnownComplete.
func (m *Machine) DueUpTo() (bucket int64, ok bool) {
	if !m.known.complete {
		return 0, false
	}
	return m.expiry.due(m.time.watermark)
}

// DueSegment is the last segment that changed the buckets up to the one that DueUpTo last gave in a way that the walk has to see. Until it
// is stored, the store shows entries in them that have been moved on, or does not show all.
func (m *Machine) DueSegment() uint64 { return m.expiry.dueSegment }

// Walked says that the store holds nothing in the buckets up to this one, which DueUpTo gave, and that DueSegment was
// stored before the store was asked.
func (m *Machine) Walked(bucket int64) {
	before := m.expiry.floor
	m.expiry.walked(bucket)
	if len(m.trials.all) > 0 { // else nothing depends on it
		m.follow()
		m.seen.walked(m.expiry.floor - before)
	}
	m.compare()
}

// WalkLag is how much event time has passed for good, but has not been walked over: up to two ticks where the walk
// keeps up. A walk that has never come to an end has no place yet that it could be behind: 0.
func (m *Machine) WalkLag() event.Millis { return m.expiry.lag(m.time.watermark) }

// Expire does what is due for an entry that the walk came by, and moves it on to the bucket of its next deadline.
func (m *Machine) Expire(e state.Entry, _ event.Millis, _ *Output) error {
	m.stepping = stepping{}
	if err := m.open(e.ID, nil, Found{Page: e.Page, Value: e.Value}); err != nil {
		return err
	}
	c := &m.cur
	if s := c.slot; s != nil && (s.page != e.Page || s.deleted) { // it has gone from there since
		m.expiry.met(s.segment)
		return nil
	}
	if c.kind == pending && m.time.watermark > c.nextDeadline() {
		m.noteActed(m.prepare())
	}
	m.settle()
	m.noteDue()
	c.changed = true // if not that, its bucket does
	m.save(true)
	return nil
}
