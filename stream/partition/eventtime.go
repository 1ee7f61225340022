package partition

import (
	"math"

	"github.com/ranker-worker/ranker-worker/stream/event"
)

type eventTime struct {
	watermark event.Millis
	newest    [event.Inputs]event.Millis // effective times
}

func newEventTime() (t eventTime) {
	for i := range t.newest {
		t.newest[i] = math.MinInt64
	}
	return t
}

func (t *eventTime) read(topic event.Topic, at event.Millis) {
	t.newest[topic] = max(t.newest[topic], at)
}

// least returns the least, over topics not read to their end, of the newest time read; now, if all are read to their end.
func (t *eventTime) least(now event.Millis, atEnd [event.Inputs]bool) event.Millis {
	for topic, newest := range t.newest {
		if !atEnd[topic] {
			now = min(now, newest)
		}
	}
	return now
}

func (t *eventTime) raise(w event.Millis) bool {
	if w <= t.watermark {
		return false
	}
	t.watermark = w
	return true
}

// later returns t plus by, at most the latest time that a record can hold.
func later(t event.Millis, by int64) event.Millis {
	return min(t, event.MaxTime-min(by, event.MaxTime)) + min(by, event.MaxTime)
}
