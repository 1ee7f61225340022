package task

import (
	"fmt"

	"github.com/ranker-worker/ranker-worker/stream/event"
)

// fence makes the broker refuse every earlier owner's batches, and leaves an abort marker of ours in rankings[p] that
// no consumer sees: InitProducerID raises the epoch, AddPartitionsToTxn and EndTxn(abort) carry the new epoch into the
// partition, and a second InitProducerID, with the id and epoch just got, gives an epoch that no transaction uses.
// From then on plain idempotent batches of that epoch are accepted, and nothing older.
//
// Each call is safe to repeat after a lost reply: the coordinator recognises the epoch before the last bump, and
// adding a partition or aborting twice changes nothing.
func (t *Task) fence(done func()) {
	t.ask("raising the producer's epoch", callTimeout, InitProducer{Producer{-1, -1}}, func(reply any) {
		first := reply.(Producer)
		if t.cfg.sabotage.noFence {
			t.fenced(first, first, done)
			return
		}
		t.ask("joining rankings to a transaction", callTimeout, AddPartition{first}, func(any) {
			t.ask("aborting the transaction", callTimeout, AbortTxn{first}, func(any) {
				t.ask("raising the producer's epoch again", callTimeout, InitProducer{first}, func(reply any) {
					t.fenced(first, reply.(Producer), done)
				})
			})
		})
	})
}

func (t *Task) fenced(first, last Producer, done func()) {
	switch {
	case last.ID != first.ID:
		// The epochs of the old id ran out in between. The new id fences nobody yet: fence with it.
		t.fence(done)
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
	t.ask("asking for a new producer id", callTimeout, InitProducer{p}, func(reply any) {
		next := reply.(Producer)
		if next.ID != p.ID {
			t.fence(done)
			return
		}
		t.renew(next, done)
	})
}

// refenceDue tells whether the fence is to be repeated: the broker forgets transactional ids and producers that were
// silent for long, and with them the fence.
func (t *Task) refenceDue() bool {
	return t.now.Mono-t.acq.fencedAt >= t.cfg.FenceInterval
}

// refence repeats the whole fence while nothing is in flight, and then the checks: an idle partition whose topics were
// recreated would not notice otherwise. Only the same id with a risen epoch is accepted.
func (t *Task) refence() {
	r := t.run
	r.refencing = true
	old := t.acq.producer
	t.fence(func() {
		p := t.acq.producer
		if p.ID != old.ID || p.Epoch <= old.Epoch {
			t.restart(fmt.Errorf("%w, or forgotten by the broker: producer %v became %v", ErrFenced, old, p))
			return
		}
		r.resetSequences()
		t.check(r.cutNow(), func() {
			// We are the only writer and nothing is in flight: all decisions below the end are ours and acked. Not so
			// in a replay: there the cursor says how far we are.
			if !r.replaying {
				r.rankings.position = max(r.rankings.position, t.acq.facts.Topics[event.Rankings].End)
				r.moved = true
			}
			r.refencing = false
		})
	})
}
