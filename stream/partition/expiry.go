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

// place puts the current entry's id into the bucket of its next deadline, unless it stands in an earlier one. Buckets
// that the walk has begun to close are changed by the walk alone: it must wait until its own changes are stored, and
// steps that kept changing those buckets too would keep it waiting for ever. An id that has nothing stored any more
// is left there for the walk to take out.
func (m *Machine) place(s *slot, walking bool) {
	c := &m.cur
	if c.kind == nothing {
		if s.bucket <= m.fixed && !walking {
			s.bucket, s.storedBucket = noBucket, noBucket
			return
		}
		m.move(s, noBucket)
		return
	}
	to := max(bucketOf(c.nextDeadline()), m.fixed+1)
	if s.bucket == noBucket || to < s.bucket || walking && s.bucket <= m.fixed {
		m.move(s, to)
	}
	c.bucket = s.bucket
}

func (m *Machine) move(s *slot, to int64) {
	m.noteBucket(s.bucket)
	m.noteBucket(to)
	s.bucket = to
}

// noteBucket remembers that the open segment changes a bucket of the expiry index.
func (m *Machine) noteBucket(b int64) {
	switch {
	case b == noBucket:
	case b <= m.fixed:
		m.dueSegment = m.segment
	default:
		m.touched[b] = m.segment
	}
}

// DueUpTo is the last bucket whose deadlines are all past, if the walk has not closed it yet. From now on nothing is
// put into buckets up to it.
func (m *Machine) DueUpTo() (bucket int64, ok bool) {
	upTo := m.watermark/bucketWidth - 1
	if upTo < m.floor {
		return 0, false
	}
	if upTo > m.fixed {
		m.fixed = upTo
		for b, segment := range m.touched {
			if b <= upTo {
				m.dueSegment = max(m.dueSegment, segment)
				delete(m.touched, b)
			}
		}
	}
	return m.fixed, true
}

// DueSegment is the last segment that changed the expiry index up to the bucket that DueUpTo last gave. Until it is
// stored, the store's index shows ids that have been moved on, or does not show all.
func (m *Machine) DueSegment() uint64 { return m.dueSegment }

// Walked says that the store holds nothing in the buckets up to this one, which DueUpTo gave, and that DueSegment was
// stored before the store was asked.
func (m *Machine) Walked(bucket int64) { m.floor = max(m.floor, min(bucket, m.fixed)+1) }

// WalkLag is how much event time has passed for good, but has not been walked over: up to two buckets' widths where the walk
// keeps up. A walk that has never come to an end has no place yet that it could be behind: 0.
func (m *Machine) WalkLag() event.Millis {
	if m.floor == 0 {
		return 0
	}
	return max(0, m.watermark-m.floor*bucketWidth)
}

// Expire does what is due for an id that the walk came by, and moves the id on to the bucket of its next deadline.
func (m *Machine) Expire(e state.DueEntry, _ event.Millis, _ *Output) error {
	if err := m.open(e.ID, e.Value); err != nil {
		return err
	}
	c := &m.cur
	if c.stands != e.Bucket { // the index contradicts the entry, or nothing is stored at all
		m.strays = append(m.strays, state.Due{Bucket: e.Bucket, ID: append([]byte(nil), e.ID...), Remove: true})
		m.noteBucket(e.Bucket)
		m.loose(itemWeight + int64(len(e.ID)))
		return nil
	}
	m.settle()
	c.changed = true // if not that, its bucket does
	m.save(true)
	return nil
}
