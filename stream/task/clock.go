package task

import (
	"errors"
	"fmt"
	"time"

	"github.com/ranker-worker/ranker-worker/stream/event"
)

// clock estimates Kafka's time: the last broker timestamp of a record of ours, plus the time since
// by a monotonic clock. Event time uses it, so that a worker with a wrong clock lets nothing expire.
type clock struct {
	known bool
	at    event.Millis
	mono  time.Duration // when it was read
}

// maxStampDelay bounds how long an answer may take for its timestamp to be used: the record was stamped at an unknown moment in between.
const maxStampDelay = time.Second

// learn takes a broker's timestamp of a request sent at asked; -1 is none. A late one, after a freeze for example, is used only if none is
// known. Then it is of a fence, which a replay may read long after its end.
func (c *clock) learn(at event.Millis, asked, now time.Duration) {
	switch {
	case at < 0:
	case now-asked <= maxStampDelay:
		*c = clock{known: true, at: at, mono: now}
	case !c.known:
		*c = clock{known: true, at: at, mono: asked}
	}
}

// kafka returns Kafka's time now; the worker's own if unknown, or if both are one clock.
func (c *clock) kafka(now Now, one bool) event.Millis {
	if !c.known || one {
		return now.Wall
	}
	return c.at + (now.Mono - c.mono).Milliseconds()
}

const comparing = "comparing the worker's clock with Kafka's"

var errNoTime = errors.New("no broker has shown its time yet")

// times returns the present time, and the time up to which records' own times are believed. apart is an error if the clocks
// differ by more than bound: nothing may expire then, since either may be wrong. A time that one of them supports is believed.
func (c *clock) times(at Now, bound time.Duration, one bool) (now, latest event.Millis, apart error) {
	wall, kafka := at.Wall, c.kafka(at, one)
	far := bound.Milliseconds()
	switch by := wall - kafka; {
	case !c.known && !one:
		return wall, wall + far, errNoTime
	case by > far || by < -far:
		how := "ahead of"
		if by < 0 {
			by, how = -by, "behind"
		}
		now = max(wall, kafka)
		return now, now + far, fmt.Errorf("this machine's clock is %v %s that of Kafka's brokers: event time stands still, and "+
			"nothing expires, until they agree within %v", (time.Duration(by) * time.Millisecond).Round(time.Second), how, bound)
	}
	return kafka, kafka + far, nil
}

// Now is a moment on two clocks: Mono measures waits, Wall is compared with event times.
type Now struct {
	Mono time.Duration
	Wall event.Millis
}

type timers []timer

type timer struct {
	at   time.Duration
	fire func()
}

func (ts *timers) set(at time.Duration, fire func()) { *ts = append(*ts, timer{at, fire}) }

// fire runs due timers until over returns true. They may set further timers, and clear all.
func (ts *timers) fire(now time.Duration, over func() bool) {
	for i := 0; i < len(*ts); {
		due := (*ts)[i]
		if due.at > now {
			i++
			continue
		}
		last := len(*ts) - 1
		(*ts)[i] = (*ts)[last]
		*ts = (*ts)[:last]
		if !over() {
			due.fire()
		}
	}
}

func (ts *timers) clear() {
	clear(*ts)
	*ts = (*ts)[:0]
}

// idleWake bounds a task's sleep: watermark and expiry move without input.
const idleWake = 250 * time.Millisecond

// wake returns the time until the next timer is due, at most idleWake.
func (ts timers) wake(now time.Duration) time.Duration {
	wake := idleWake
	for i := range ts {
		wake = min(wake, max(0, ts[i].at-now))
	}
	return wake
}
