package checker

import (
	"math"

	"github.com/cespare/xxhash/v2"

	"github.com/ranker-worker/ranker-worker/stream/event"
)

// past is what is remembered of an id after its life is forgotten: until when it was known, and whether its impression was
// paid by the first payoff, so that nothing that came later can have been taken in.
type past int64

func pastOf(until event.Millis, settled bool) past {
	if settled {
		return past(until<<1 | 1)
	}
	return past(until << 1)
}

func (p past) until() event.Millis { return event.Millis(p >> 1) }
func (p past) settled() bool       { return p&1 != 0 }

// firstSweep is from how many lives on those that have ended are looked for.
const firstSweep = 64

// sweep resolves and forgets the lives that have ended: nothing is stored under their ids any more, and the log shows that
// event time had passed deadline and parking time, by more than Options.Lag. It is done whenever there are twice as many
// lives as it left, so that it takes a constant time per record.
func (f *fold) sweep() {
	if len(f.lives) < f.sweepAt {
		return
	}
	f.held = max(f.held, int64(len(f.lives)))
	if w := min(f.state.watermark, f.horizon()-f.lag); w > 0 {
		for id, l := range f.lives {
			if f.over(l) < w && f.state.entries[id] == nil {
				f.forget(id, l)
			}
		}
	}
	f.sweepAt = max(firstSweep, 2*len(f.lives))
}

// horizon is what effective times all topics have passed, those apart that are read to the end.
func (f *fold) horizon() event.Millis {
	h := int64(math.MaxInt64 / 2)
	for t := range f.topics {
		if tf := &f.topics[t]; tf.on && !tf.ended {
			h = min(h, max(tf.newest, math.MinInt64/2))
		}
	}
	return h
}

// over is when a life is over: an impression's tombstone may go, or what waits for one is given up, which counts from the
// watermark where that is later than the record.
func (f *fold) over(l *life) event.Millis {
	end := int64(math.MinInt64 / 2)
	if l.offset >= 0 {
		end = min(l.payDeadline, event.MaxTime)
	}
	for i := range l.records {
		end = max(end, l.records[i].hi, l.records[i].watermark)
	}
	return end + f.parking
}

func (f *fold) forget(id string, l *life) {
	settled := f.resolve(id, l)
	delete(f.lives, id)
	f.forgotten++
	key := xxhash.Sum64String(id)
	switch {
	case l.offset >= 0:
		f.gone[key] = pastOf(min(l.payDeadline, event.MaxTime)+f.parking, settled)
	case l.known:
		f.gone[key] = l.past
	default:
		n := l.strays
		for i := range l.records {
			n[l.records[i].topic]++
		}
		f.strays[key] = n
	}
}

// recall gives a new life what is remembered of its id. What had waited for an impression that comes only now has been
// given up, unless a worker's topics were far out of step: then it is not known what became of it.
func (f *fold) recall(id []byte, l *life) {
	key := xxhash.Sum64(id)
	l.past, l.known = f.gone[key]
	if n, ok := f.strays[key]; ok {
		l.strays = n
		delete(f.strays, key)
	}
}

// astray widens the account for records that were counted as given up, when their impression has come after all.
func (f *fold) astray(l *life) {
	for t, n := range l.strays {
		for bit := range outcomeNames[t] {
			b := &f.bounds[t][bit]
			b.lo -= int64(n)
			b.hi += int64(n)
		}
		f.late += int64(n)
	}
}

// afterwards is about records of an id that was forgotten here already: most were late, duplicates, refused or given up.
// If the impression was never paid, one whose own time was in time may have been taken in nevertheless, where the
// worker's topics were out of step. That is counted, and all that depends on it is compared with as much slack.
func (r *resolution) afterwards() {
	for i := range r.l.records {
		rec := &r.l.records[i]
		rec.fate |= isDuplicate | isLate | isOrphan | isRejected | isParked
		if r.l.past.settled() || rec.lo > r.l.past.until()-r.f.parking {
			continue
		}
		rec.fate |= isTaken
		r.f.mayHaveBeenTaken(rec.topic)
	}
}

// mayHaveBeenTaken widens the account for a record that was taken in, perhaps, for an impression that has been counted as
// ended otherwise, with what had waited for it.
func (f *fold) mayHaveBeenTaken(t event.Topic) {
	f.late++
	ends := &f.bounds[event.Impressions]
	ends[0].hi++ // paid
	for _, other := range []int{1, 2, 3} {
		ends[other].lo--
		ends[other].hi++
	}
	if t != event.Selections {
		return
	}
	f.late += maxParkedPerID
	for bit := range outcomeNames[event.Payoffs] {
		b := &f.bounds[event.Payoffs][bit]
		b.lo -= maxParkedPerID
		b.hi += maxParkedPerID
	}
}

// slack widens a bound by what may have been taken in against appearances.
func (f *fold) slack(b bound) bound { return bound{b.lo - f.late, b.hi + f.late} }
