package partition

import "github.com/ranker-worker/ranker-worker/stream/event"

// expiry holds the progress of the expiry walk over buckets, and the changes that it waits for.
//
// Buckets are lazy. An entry's bucket is no later than that of its next deadline, except in buckets that are being walked already. A
// selection or a partial payoff leaves the entry in place. The walk acts on a due entry or moves it to the bucket of its next deadline:
// from the selection deadline to the payoff deadline. So an impression is moved twice in its life, for at most one needless visit by the
// walk.
//
// An impression that ends moves at once to the bucket at whose end its tombstone is dropped: only the bucket stores that time.
type expiry struct {
	floor      int64            // first bucket that the walk has not closed
	fixed      int64            // no entry is put into buckets up to this one any more
	dueSegment uint64           // last segment whose changes the walk up to fixed has to see
	touched    map[int64]uint64 // by bucket above fixed: last segment that changed it
	pages      pages
}

func newExpiry() expiry {
	return expiry{fixed: -1, touched: make(map[int64]uint64), pages: newPages()}
}

// from continues after a walk that closed all buckets below floor.
func (x *expiry) from(floor int64) { x.floor, x.fixed = floor, floor-1 }

// place puts an entry into a page of the bucket of its next deadline, as seen from watermark w, unless its bucket is earlier. Only the walk
// moves entries out of buckets that it has begun to close: it waits until those moves are stored, and inputs could keep it waiting for
// ever. Entries that are dropped leave at once; see met for a walk that still sees them.
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
	if e.kind == tombstone {
		to = bucketOf(e.forgetAt, e.forgetAt) // rounded when it ended
	}
	to = max(to, x.fixed+1)
	switch {
	case e.kind == tombstone && to != at:
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

func (x *expiry) move(s *slot, bucket int64) {
	if s.page != noPage {
		x.pages.leave(s.page)
	}
	if s.page = noPage; bucket != noBucket {
		s.page = x.pages.enter(bucket)
	}
}

func (x *expiry) touch(bucket int64, segment uint64) {
	switch {
	case bucket == noBucket:
	case bucket <= x.fixed:
		x.dueSegment = max(x.dueSegment, segment)
	default:
		x.touched[bucket] = segment
	}
}

// met notes that the walk saw an entry which a step has removed: that segment must be stored before the walk continues.
func (x *expiry) met(segment uint64) { x.dueSegment = max(x.dueSegment, segment) }

// due returns the last bucket whose deadlines are all past at w, if the walk has not closed it. Nothing is put into buckets up to it from
// now on.
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

func (x *expiry) walked(bucket int64) { x.floor = max(x.floor, min(bucket, x.fixed)+1) }

// lag returns the event time, up to w, that the walk has not covered.
func (x *expiry) lag(w event.Millis) event.Millis {
	if x.floor == 0 {
		return 0
	}
	return max(0, w-x.floor*tick)
}

func (x *expiry) forget(segment uint64) {
	for b, last := range x.touched {
		if last <= segment {
			delete(x.touched, b)
		}
	}
}
