package task

import (
	"errors"
	"time"

	"github.com/ranker-worker/ranker-worker/state"
)

// stops schedules the retries of a stopped task.
type stops struct {
	count uint64        // number of stops
	pause time.Duration // between the last stop and its retry; 0 once a checkpoint was saved since
	again time.Duration // time of the retry; 0: none
}

// longestPause is the longest pause before a retry, in units of the first: 30 s become 5 min.
const longestPause = 10

// stop ends this partition's work; others go on. It retries, at growing intervals, if the cause can be mended outside: topics' or
// store's settings, rights, restored data. Contradictions of state, log or configuration are final: a retry would end alike, or worse.
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

// mendable reports whether a change from outside can let the partition go on.
func mendable(reason StopReason, err error) bool {
	switch reason {
	case StopTopic, StopStore, StopCluster, StopPartitions, StopNoState, StopTorn, StopUnsupported, StopFence:
		return !errors.Is(err, errContradiction) && !errors.Is(err, state.ErrLost)
	}
	return false
}
