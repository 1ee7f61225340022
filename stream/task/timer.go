package task

import "time"

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
