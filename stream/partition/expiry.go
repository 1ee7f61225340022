package partition

import (
	"github.com/ranker-worker/ranker-worker/state"
	"github.com/ranker-worker/ranker-worker/stream/event"
)

// bucketWidth is how much event time one bucket of the expiry index spans. Stored entries name buckets: to change it
// is to change the layout.
//
// The index is lazy. An id stands in exactly one bucket, none later than that of its next deadline (but for buckets
// that are being walked already), and most of what happens to an impression leaves it where it is: a selection, a
// payoff, its end. When the walk comes by it looks at the entry and either acts on what is due or moves the id on to
// the bucket of its next deadline: from the selection deadline to that of the payoff, from there to that of the
// tombstone. So an impression costs three index changes in its life and not two per event, and the walk, which reads
// the entry anyhow, pays for at most one needless visit.
const bucketWidth event.Millis = 10_000

func bucketOf(deadline event.Millis) int64 { return max(deadline, 0) / bucketWidth }

// expiry is what is known of the index: how far the walk has come, and which changes of the index it has to wait for.
type expiry struct {
	floor      int64            // first bucket that the walk has not closed
	fixed      int64            // nothing is put into buckets up to this one any more
	dueSegment uint64           // last segment that changed the index up to fixed
	touched    map[int64]uint64 // by bucket above fixed: last segment that changed it
	strays     []state.Due      // in the index, contradict the entry, and are to be taken out
}

func newExpiry() expiry { return expiry{fixed: -1, touched: make(map[int64]uint64)} }

// from goes on where a walk has closed all buckets below floor.
func (x *expiry) from(floor int64) { x.floor, x.fixed = floor, floor-1 }

// place puts an entry's id into the bucket of its next deadline, unless it stands in an earlier one. Buckets
// that the walk has begun to close are changed by the walk alone: it must wait until its own changes are stored, and
// steps that kept changing those buckets too would keep it waiting for ever. An id that has nothing stored any more
// is left there for the walk to take out.
func (x *expiry) place(s *slot, e *entry, walking bool, segment uint64) {
	if e.kind == nothing {
		if s.bucket <= x.fixed && !walking {
			s.bucket, s.storedBucket = noBucket, noBucket
			return
		}
		x.move(s, noBucket, segment)
		return
	}
	to := max(bucketOf(e.nextDeadline()), x.fixed+1)
	if s.bucket == noBucket || to < s.bucket || walking && s.bucket <= x.fixed {
		x.move(s, to, segment)
	}
	e.bucket = s.bucket
}

func (x *expiry) move(s *slot, to int64, segment uint64) {
	x.touch(s.bucket, segment)
	x.touch(to, segment)
	s.bucket = to
}

// touch remembers that a segment changes a bucket.
func (x *expiry) touch(bucket int64, segment uint64) {
	switch {
	case bucket == noBucket:
	case bucket <= x.fixed:
		x.dueSegment = segment
	default:
		x.touched[bucket] = segment
	}
}

// stray takes an id out of a bucket where it should not stand.
func (x *expiry) stray(bucket int64, id []byte, segment uint64) {
	x.strays = append(x.strays, state.Due{Bucket: bucket, ID: append([]byte(nil), id...), Remove: true})
	x.touch(bucket, segment)
}

// seal appends what is to be taken out of the index.
func (x *expiry) seal(dst *state.Changes) {
	dst.Due = append(dst.Due, x.strays...)
	x.strays = x.strays[:0]
}

// due is the last bucket whose deadlines are all past at w, if the walk has not closed it yet; nothing is put into buckets up
// to it from now on.
func (x *expiry) due(w event.Millis) (bucket int64, ok bool) {
	upTo := w/bucketWidth - 1
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
	return max(0, w-x.floor*bucketWidth)
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
// put into buckets up to it.
func (m *Machine) DueUpTo() (bucket int64, ok bool) { return m.expiry.due(m.time.watermark) }

// DueSegment is the last segment that changed the expiry index up to the bucket that DueUpTo last gave. Until it is
// stored, the store's index shows ids that have been moved on, or does not show all.
func (m *Machine) DueSegment() uint64 { return m.expiry.dueSegment }

// Walked says that the store holds nothing in the buckets up to this one, which DueUpTo gave, and that DueSegment was
// stored before the store was asked.
func (m *Machine) Walked(bucket int64) { m.expiry.walked(bucket) }

// WalkLag is how much event time has passed for good, but has not been walked over: up to two buckets' widths where the walk
// keeps up. A walk that has never come to an end has no place yet that it could be behind: 0.
func (m *Machine) WalkLag() event.Millis { return m.expiry.lag(m.time.watermark) }

// Expire does what is due for an id that the walk came by, and moves the id on to the bucket of its next deadline.
func (m *Machine) Expire(e state.DueEntry, _ event.Millis, _ *Output) error {
	if err := m.open(e.ID, e.Value); err != nil {
		return err
	}
	c := &m.cur
	if c.openedBucket != e.Bucket { // the index contradicts the entry, or nothing is stored at all
		m.expiry.stray(e.Bucket, e.ID, m.segments.open)
		m.segments.loose += itemWeight + int64(len(e.ID))
		return nil
	}
	m.settle()
	c.changed = true // if not that, its bucket does
	m.save(true)
	return nil
}
