package task

import (
	"errors"
	"time"
)

// longestNotReady bounds the pause after ErrNotReady, which passes within seconds.
const longestNotReady = 200 * time.Millisecond

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
