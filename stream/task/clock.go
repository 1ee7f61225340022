package task

import (
	"errors"
	"fmt"
	"time"

	"github.com/ranker-worker/ranker-worker/stream/event"
)

// clock is Kafka's time, as far as it is known: what a broker last stamped a record of ours with, and what has passed since
// by a clock that cannot be set. Event time goes by it: a worker whose own clock is wrong must not let anything expire.
type clock struct {
	known bool
	at    event.Millis
	mono  time.Duration // when it was learnt
}

// maxStampDelay is how long a broker's answer may have been on its way for the time in it to be taken: all that is known is that the
// record was stamped in between.
const maxStampDelay = time.Second

// learn takes a time that a broker has given between a moment and now; -1 is none. One that has been on its way for long,
// to a process that was frozen, say, is better than none, and worse than what we have.
func (c *clock) learn(at event.Millis, asked, now time.Duration) {
	if at >= 0 && (!c.known || now-asked <= maxStampDelay) {
		*c = clock{known: true, at: at, mono: now}
	}
}

// kafka is Kafka's time now. It is the worker's own while that is not known, and where both are one clock.
func (c *clock) kafka(now Now, one bool) event.Millis {
	if !c.known || one {
		return now.Wall
	}
	return c.at + (now.Mono - c.mono).Milliseconds()
}

const comparing = "comparing the worker's clock with Kafka's"

var errNoTime = errors.New("no broker has said what time it is")

// times are the present time, and up to when a record's own time is believed. Where the two clocks are more than bound apart,
// apart says so: nothing may expire then. It is not known which of them is wrong; what one of them bears out is believed.
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

// Now is a moment on both clocks: Mono measures waits, Wall is what event times are compared with.
type Now struct {
	Mono time.Duration
	Wall event.Millis
}
