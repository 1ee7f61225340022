package task

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/ranker-worker/ranker-worker/state"
)

// ownership holds whether the stored state is ours, and the store fit to keep it.
type ownership struct {
	fence    state.Fence // of the last acked checkpoint
	probing  bool
	probedAt time.Duration
	unfit    bool // the store's settings may delete stored data
}

// probeEvery is the interval of checks that the store holds our state and is fit.
const probeEvery = time.Second

func (o *ownership) probeDue(now time.Duration) bool {
	return !o.probing && now-o.probedAt >= probeEvery
}

// probed ends a probe. After an error other than ErrUnfit the fitness is unchanged.
func (o *ownership) probed(now time.Duration, err error) {
	o.probing, o.probedAt = false, now
	o.unfit = errors.Is(err, state.ErrUnfit) || o.unfit && err != nil
}

// verify compares a fence that the store showed with ours. The token must be equal. The sequence must lie between low, of the last ack when
// the store was asked, and that of a checkpoint in flight. Otherwise there is a later owner, or a rollback.
func (o *ownership) verify(f state.Fence, low int64, saving bool) error {
	high := o.fence.Seq
	if saving {
		high++
	}
	if f.Token != o.fence.Token || f.Seq < low || f.Seq > high {
		return fmt.Errorf("%w: the store shows %v, ours is %v", state.ErrFenced, f, o.fence)
	}
	return nil
}

func (t *Task) probe() {
	r := t.run
	const doing = "making sure of the stored state"
	if !r.owner.probeDue(t.now.Mono) {
		return
	}
	r.owner.probing = true
	low := r.owner.fence.Seq
	send(t, callTimeout, Probe{}, func(f state.Fence, err error) {
		r.owner.probed(t.now.Mono, err)
		if err != nil {
			t.failed(doing, err, func() {})
			return
		}
		t.failures.clear(doing)
		t.verify(f, low)
	})
}

// verify restarts the task, and returns false, if a fence that the store showed is not ours. low is the sequence when the store was asked.
func (t *Task) verify(f state.Fence, low int64) bool {
	if err := t.run.owner.verify(f, low, t.run.checkpoints.inFlight > 0); err != nil {
		t.restart(err)
		return false
	}
	return true
}

// confirmOwnership calls done if we are still a member of the group, and the store has our state.
func (t *Task) confirmOwnership(done func()) {
	ask(t, "asking the coordinator whether our generation lives", callTimeout, Heartbeat{}, func(nothing) {
		low := t.run.owner.fence.Seq
		ask(t, "making sure of the stored state", callTimeout, Probe{}, func(f state.Fence) {
			if t.verify(f, low) {
				done()
			}
		})
	})
}

// Owners are the producer ids from one partition's fences, in order. Only their rankings count, which excludes
// records written by mistake, by a tool or a mirror. It does not protect against malice: any id can be forged.
type Owners []int64

// Wrote reports whether an owner has written a record: non-transactional, with an owner's producer id.
func (o Owners) Wrote(by *Origin) bool {
	return !by.Transactional && slices.Contains(o, by.Producer.ID)
}

// Mark adds the id of an abort marker in the rankings topic. Only fences leave such markers.
func (o *Owners) Mark(m *Marker) {
	if m.Abort && !slices.Contains(*o, m.Producer.ID) {
		*o = append(*o, m.Producer.ID)
	}
}
