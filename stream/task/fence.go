package task

import (
	"errors"
	"fmt"
	"time"

	"github.com/ranker-worker/ranker-worker/stream/event"
)

// fence makes the brokers refuse every earlier owner's batches, and leaves an abort marker of ours in rankings[p], and in the
// dead-letter topics, that no consumer sees: InitProducerID raises the epoch, AddPartitionsToTxn and EndTxn(abort) carry the new
// epoch into the partitions, and a second InitProducerID, with the id and epoch just got, gives an epoch that no transaction
// uses. From then on plain idempotent batches of that epoch are accepted, and nothing older.
//
// When a partition is taken over the first call names no producer. Later ones name the producer that we have. Should another
// owner have fenced us in the meantime, they are refused; a call without a producer would fence that owner.
//
// Each call is safe to repeat after a lost reply: the coordinator recognises the epoch before the last bump, and
// adding a partition or aborting twice changes nothing.
func (t *Task) fence(held Producer, done func()) {
	ask(t, "raising the producer's epoch", callTimeout, InitProducer{held}, func(first Producer) {
		t.retire(first.ID, func() {
			ask(t, "joining rankings to a transaction", callTimeout, AddPartition{first}, func(nothing) {
				ask(t, "aborting the transaction", callTimeout, AbortTxn{first}, func(nothing) {
					ask(t, "raising the producer's epoch again", callTimeout, InitProducer{first}, func(last Producer) {
						t.fenced(first, last, done)
					})
				})
			})
		})
	})
}

func (t *Task) fenced(first, last Producer, done func()) {
	switch {
	case last.ID != first.ID:
		// The epochs of the old id ran out in between. The new id has not fenced any owner yet: fence with it.
		t.fence(last, done)
	case last.Epoch >= t.cfg.EpochLimit:
		t.renew(last, done)
	default:
		t.acq.mark, t.acq.producer, t.acq.fencedAt = first, last, t.now.Mono
		done()
	}
}

// renew uses up the epochs of a producer id that is near its last, until the broker hands out another id. Owners
// with the old id have been fenced by its marker already; the new id's own fence follows before anything is produced.
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

// fewEpochs is how many owners there may have been since the last checkpoint.
const fewEpochs = 1000

// retire makes the brokers refuse the ids that earlier owners had, where we have got another: because its epochs have run out, or
// because the coordinator has forgotten it, with its transactions' topic or after days without an owner. Our marker does not fence
// an owner that still holds one of them. Our marker comes last: it is the end of what earlier owners can have written.
//
// Those that have been retired before are so again with every fence, since brokers forget that, too.
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

// retireOne retires an id whose last known epoch, or -1, is given.
func (t *Task) retireOne(p Producer, own int64, done func()) {
	t.doing = retiring
	send(t, callTimeout, Retire{p.ID}, func(_ nothing, err error) {
		switch {
		case err == nil:
			t.failures.clear(retiring)
			done()
		case errors.Is(err, ErrUnsupported) && (p.Epoch < 0 || p.Epoch >= t.cfg.EpochLimit-fewEpochs):
			done() // it was fenced when it was followed by another id: its epochs ran out, or an earlier owner has seen to that
		case errors.Is(err, ErrUnsupported):
			t.stop(StopFence, fmt.Errorf("the transaction coordinator has given producer id %d, and does not know %d any more, which this "+
				"partition had: a worker that still holds that one could not be fenced, and the brokers do not let us retire it: %w",
				own, p.ID, err))
		default:
			t.failed(retiring, err, func() { t.retireOne(p, own, done) })
		}
	})
}

// refenceDue tells whether the fence is to be repeated: the broker forgets transactional ids and producers that were
// silent for long, and with them the fence.
func (t *Task) refenceDue() bool {
	return t.phase != Draining && (t.now.Mono-t.acq.fencedAt >= t.cfg.FenceInterval || t.timeDue())
}

// refence repeats the whole fence while nothing is in flight, and then the checks: an idle partition whose topics were
// recreated would not notice otherwise. Only the same id with a risen epoch is accepted. Before anything is produced under
// it we make sure that we still own the partition: a worker that was frozen just now finds out here.
func (t *Task) refence() {
	r := t.run
	r.refencing = true
	held := t.acq.producer
	t.fence(held, func() {
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
}

const readingMark = "looking for our abort marker"

// readMark reads rankings from our last one on to the marker that we have just left, and learns the time from it. We are the
// only writer and nothing is in flight: all decisions below are ours and acked, so the position may move there. In a replay
// the cursor says how far we are, and meets the marker in its own time.
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
