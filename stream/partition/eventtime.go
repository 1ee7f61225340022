package partition

import (
	"math"

	"github.com/ranker-worker/ranker-worker/stream/event"
)

// eventTime is how far event time has come.
type eventTime struct {
	watermark event.Millis
	newest    [event.Inputs]event.Millis // effective times read
}

func newEventTime() (t eventTime) {
	for i := range t.newest {
		t.newest[i] = math.MinInt64
	}
	return t
}

// read takes a record's effective time in.
func (t *eventTime) read(topic event.Topic, at event.Millis) {
	t.newest[topic] = max(t.newest[topic], at)
}

// least is the least, over the topics that are not read to their end, of the newest time read; now, where all are.
func (t *eventTime) least(now event.Millis, atEnd [event.Inputs]bool) event.Millis {
	for topic, newest := range t.newest {
		if !atEnd[topic] {
			now = min(now, newest)
		}
	}
	return now
}

// raise moves the watermark on, where w lies ahead; it tells whether it did.
func (t *eventTime) raise(w event.Millis) bool {
	if w <= t.watermark {
		return false
	}
	t.watermark = w
	return true
}
