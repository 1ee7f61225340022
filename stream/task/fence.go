package task

import (
	"errors"
	"fmt"
	"time"

	"github.com/ranker-worker/ranker-worker/stream/event"
)

// fence makes brokers refuse every earlier owner's batches, and leaves an abort marker in rankings[p] and the dead-letter topics.
// InitProducerID raises the epoch, AddPartitionsToTxn and EndTxn(abort) carry it into the partitions, and a second InitProducerID
// returns an epoch that no transaction uses. Brokers then accept plain idempotent batches of that epoch, and none of earlier ones.
//
// The first call of a take-over names no producer. Later ones name ours: if another owner has
// fenced us meanwhile they are refused, while a call without a producer would fence that owner.
//
// Each call may be repeated after a lost reply: the coordinator recognises the epoch
// before the last bump, and adding a partition or aborting twice changes nothing.
func (t *Task) fence(held Producer, done func()) {
	ask(t, raising, callTimeout, InitProducer{held}, func(first Producer) { t.fenceWith(first, done) })
}

const raising = "raising the producer's epoch"

func (t *Task) fenceWith(first Producer, done func()) {
	t.retire(first.ID, func() {
		ask(t, "joining rankings to a transaction", callTimeout, AddPartition{first}, func(nothing) {
			ask(t, "aborting the transaction", callTimeout, AbortTxn{first}, func(nothing) {
				ask(t, "raising the producer's epoch again", callTimeout, InitProducer{first}, func(last Producer) {
					t.fenced(first, last, done)
				})
			})
		})
	})
}

func (t *Task) fenced(first, last Producer, done func()) {
	switch {
	case last.ID != first.ID:
		// The old id's epochs ran out in between. The new id has not fenced anyone: fence with it.
		t.fence(last, done)
	case last.Epoch >= t.cfg.EpochLimit:
		t.renew(last, done)
	default:
		t.acq.mark, t.acq.producer, t.acq.fencedAt = first, last, t.now.Mono
		done()
	}
}

// renew uses up the epochs of a producer id near its last, until the broker returns another id.
// The old id's owners are fenced by its marker already; the new id fences before it produces.
func (t *Task) renew(p Producer, done func()) {
	ask(t, "asking for a new producer id", callTimeout, InitProducer{p}, func(next Producer) {
		if next.ID != p.ID {
			t.fence(next, done)
			return
		}
		t.renew(next, done)
	})
}

const retiring = "retiring an earlier producer id"

// fewEpochs bounds the owners since the last checkpoint.
const fewEpochs = 1000

// retire makes brokers refuse the ids of earlier owners that our marker does not fence: their
// epochs ran out, or the coordinator has forgotten them. Our marker comes last, as the end of
// earlier owners' writes. Each fence retires them again, since brokers forget that too.
func (t *Task) retire(own int64, done func()) {
	ids := t.acq.earlier()
	var next func(i int)
	next = func(i int) {
		switch {
		case i == len(ids):
			done()
		case ids[i].ID == own:
			next(i + 1)
		default:
			t.retireOne(ids[i], own, func() {
				t.retired[ids[i].ID] = true
				next(i + 1)
			})
		}
	}
	next(0)
}

// retireOne retires an id with its last known epoch, or -1.
func (t *Task) retireOne(p Producer, own int64, done func()) {
	t.doing = retiring
	send(t, callTimeout, Retire{p.ID}, func(_ nothing, err error) {
		switch {
		case err == nil:
			t.failures.clear(retiring)
			done()
		case errors.Is(err, ErrUnsupported) && (p.Epoch < 0 || p.Epoch >= t.cfg.EpochLimit-fewEpochs):
			done() // already fenced when it was replaced: its epochs ran out, or an earlier owner retired it
		case errors.Is(err, ErrUnsupported):
			t.stop(StopFence, fmt.Errorf("the transaction coordinator has given producer id %d, and does not know %d any more, which this "+
				"partition had: a worker that still holds that one could not be fenced, and the brokers do not let us retire it. Or another "+
				"group, or a mirror, fences or aborts in %s, which must be ours alone: %w", own, p.ID, t.cfg.TopicNames[event.Rankings], err))
		default:
			t.failed(retiring, err, func() { t.retireOne(p, own, done) })
		}
	})
}

// refenceDue reports whether to repeat the fence: brokers forget transactional
// ids and producers that are silent for long, and the fence with them.
func (t *Task) refenceDue() bool {
	return t.phase != Draining && (t.now.Mono-t.acq.fencedAt >= t.cfg.FenceInterval || t.timeDue())
}

// refence repeats the fence while nothing is in flight, then the checks, which show recreated topics to an idle partition. Only
// the same id with a higher epoch is accepted. Ownership is confirmed before anything is produced: a frozen worker finds out here.
//
// It reports whether nothing may be produced. Rankings go on until the coordinator has raised the epoch: leaders learn that from the abort
// marker only, and the coordinator recognises the epoch before the last bump. But a worker frozen for long must not produce before it.
func (t *Task) refence() (stops bool) {
	r := t.run
	held := t.acq.producer
	if !r.raising {
		r.raising = true
		ask(t, raising, callTimeout, InitProducer{held}, func(first Producer) { r.raised = &first })
	}
	if r.raised == nil {
		return t.now.Mono-t.acq.fencedAt >= 2*t.cfg.FenceInterval
	}
	if !r.lanes.noneInFlight() {
		return true
	}
	first := *r.raised
	r.refencing, r.raising, r.raised = true, false, nil
	t.fenceWith(first, func() {
		p := t.acq.producer
		if p.ID != held.ID || p.Epoch <= held.Epoch {
			t.restart(fmt.Errorf("%w, or forgotten by the broker: producer %v became %v", ErrFenced, held, p))
			return
		}
		r.lanes.fenced()
		t.confirmOwnership(func() {
			t.check(t.run.cut(), func() { t.readMark(func() { r.refencing = false }) })
		})
	})
	return true
}

const readingMark = "looking for our abort marker"

// readMark reads rankings from our last one to the new marker, for its timestamp. We are the only writer, with nothing
// in flight: all decisions below are ours and acked, so the position moves there. In a replay the cursor does this.
func (t *Task) readMark(done func()) {
	r := t.run
	if r.replay.on {
		done()
		return
	}
	o := &r.lanes.rankings
	var from func(offset int64)
	from = func(offset int64) {
		t.read(readingMark, callTimeout+t.cfg.FetchWait, t.fetchFrom(event.Rankings, offset), func(f *Fetched, err error) {
			for _, m := range f.Markers {
				if err == nil && m.Abort && m.Producer == t.acq.mark {
					t.clock.learn(m.Timestamp, t.acq.fencedAt, t.now.Mono)
					o.position = max(o.position, m.Offset+1)
					r.checkpoints.moved = true
					done()
					return
				}
			}
			switch {
			case err != nil:
				t.failed(readingMark, err, func() { from(offset) })
			case f.Next >= f.High && t.now.Mono-t.acq.fencedAt > markerTimeout:
				t.restart(errNoMarker)
			default:
				t.after(time.Millisecond, func() { from(f.Next) })
			}
		})
	}
	from(o.position)
}
