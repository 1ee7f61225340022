package task

import (
	"errors"
	"time"

	"github.com/ranker-worker/ranker-worker/state"
)

// stops is when a stopped task tries again.
type stops struct {
	count uint64        // how often it has stopped
	pause time.Duration // between the last stop and its next try; 0 when a checkpoint has been saved since
	again time.Duration // when it tries again; 0: it does not
}

// longestPause is the longest pause between two tries of a stopped task, in units of the first: 30 s become 5 min.
const longestPause = 10

// stop ends this partition's work loudly; the others go on. Where the cause can be mended from outside, in settings of
// topics or store, in rights, by putting data back, it tries again, at longer and longer intervals. Where state, log or
// configuration contradict each other, a try would come to the same end, or, worse, to another: it stays.
func (t *Task) stop(reason StopReason, err error) {
	t.reset()
	t.phase, t.reason, t.err = Stopped, reason, err
	s := &t.stops
	s.count++
	s.again = 0
	if !mendable(reason, err) {
		return
	}
	s.pause = min(max(2*s.pause, t.cfg.StopRetry), longestPause*t.cfg.StopRetry)
	s.again = t.now.Mono + s.pause
	t.after(s.pause, func() {
		if !t.draining {
			t.acquire()
		}
	})
}

// mendable tells whether something outside may change such that the partition can go on.
func mendable(reason StopReason, err error) bool {
	switch reason {
	case StopTopic, StopStore, StopCluster, StopPartitions, StopNoState, StopTorn, StopUnsupported, StopFence:
		return !errors.Is(err, errContradiction) && !errors.Is(err, state.ErrLost)
	}
	return false
}
