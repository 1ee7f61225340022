package task

import (
	"errors"
	"time"

	"github.com/ranker-worker/ranker-worker/state"
)

// longestNotReady bounds the pause after ErrNotReady, which passes within seconds.
const longestNotReady = 200 * time.Millisecond

// longestThrottle bounds the pause that a broker can ask for.
const longestThrottle = 30 * time.Second

// failure is a kind of call that keeps failing, with its own backoff.
type failure struct {
	err     error
	backoff backoff
	since   time.Duration
}

// failures are indexed by the call's description.
type failures map[string]*failure

// note records a failure, and returns the pause before the retry.
func (ts failures) note(doing string, err error, now time.Duration) time.Duration {
	f := ts[doing]
	if f == nil {
		f = &failure{since: now}
		ts[doing] = f
	}
	f.err = err
	if f.backoff.next(); errors.Is(err, ErrNotReady) {
		f.backoff.d = min(f.backoff.d, longestNotReady)
	}
	if pause, ok := errors.AsType[Throttled](err); ok {
		f.backoff.d = min(time.Duration(pause), longestThrottle)
	}
	return f.backoff.d
}

func (ts failures) clear(doing string) { delete(ts, doing) }

// oldest returns the call that has been failing for the longest time; nil error if there is none.
func (ts failures) oldest() (doing string, err error) {
	var first *failure
	for name, tr := range ts {
		if first == nil || tr.since < first.since || tr.since == first.since && tr.err.Error() < first.err.Error() {
			doing, first = name, tr
		}
	}
	if first == nil {
		return "", nil
	}
	return doing, first.err
}

// backoff doubles from 50 ms to 5 s.
type backoff struct{ d time.Duration }

func (b *backoff) next() time.Duration {
	b.d = min(max(2*b.d, 50*time.Millisecond), 5*time.Second)
	return b.d
}

func (b *backoff) reset() { b.d = 0 }

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
