package task

import (
	"fmt"
	"time"

	"github.com/ranker-worker/ranker-worker/stream/event"
)

// fetch keeps one request under way for each topic that has room. Topics are asked for one by one, so that a quiet
// one never keeps a busy one waiting.
func (t *Task) fetch() {
	r := t.run
	if r.checking || r.full(t.now.Mono) {
		return
	}
	for i := range r.queues {
		q := &r.queues[i]
		if q.disabled || q.fetching || q.bytes >= t.cfg.FetchBytes {
			continue
		}
		q.fetching = true
		asked := t.now.Mono
		send(t, callTimeout+t.cfg.FetchWait, t.fetchFrom(q.topic, q.next), func(f Fetched, err error) {
			q.fetching = false
			if err != nil {
				t.fetchFailed(q, err)
				return
			}
			t.fetched(q, &f, asked)
		})
	}
}

// fetchFrom asks for a topic from an offset on.
func (t *Task) fetchFrom(topic event.Topic, offset int64) Fetch {
	return Fetch{Topic: topic, Offset: offset, MaxBytes: t.cfg.FetchBytes, MaxWait: t.cfg.FetchWait}
}

func (t *Task) fetched(q *queue, f *Fetched, asked time.Duration) {
	t.failures.clear(t.reading[q.topic])
	if q.take(f, asked, t.now.Mono) {
		t.run.checkpoints.moved = true
	}
}

// fetchFailed makes sure, before it goes on, that the log is still the one we have been reading: an error can mean
// that the leader has changed, or the topic.
func (t *Task) fetchFailed(q *queue, err error) {
	q.atEnd = false
	t.readFailed(t.reading[q.topic], fmt.Errorf("from offset %d: %w", q.next, err))
}

// readFailed starts the checks after a failed fetch, of which there may be several at once.
func (t *Task) readFailed(doing string, err error) {
	r := t.run
	t.failed(doing, err, func() {})
	if t.run != r || r.checking {
		return
	}
	r.checking = true
	t.after(t.failures[doing].backoff.d, func() {
		t.check(r.cut(), func() { r.checking = false })
	})
}
