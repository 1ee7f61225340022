package task

import "github.com/ranker-worker/ranker-worker/state"

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
