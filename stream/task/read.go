package task

import (
	"errors"
	"fmt"
	"time"

	"github.com/ranker-worker/ranker-worker/stream/event"
)

// fetch keeps one request under way for each topic with room. Topics are fetched separately, so that a quiet one does not delay a busy one.
func (t *Task) fetch() {
	r := t.run
	if r.checking || r.full(t.now.Mono) {
		return
	}
	for i := range r.queues {
		q := &r.queues[i]
		ahead := t.fetchFrom(q.topic, q.next)
		if q.topic != event.Impressions {
			ahead.MaxBytes /= 2 // small records, which take several times their bytes while they wait
		}
		if q.disabled || q.fetching || q.bytes >= ahead.MaxBytes {
			continue
		}
		q.fetching = true
		asked := t.now.Mono
		send(t, callTimeout+t.cfg.FetchWait, ahead, func(f Fetched, err error) {
			q.fetching = false
			if err != nil {
				t.fetchFailed(q, err)
				return
			}
			t.fetched(q, &f, asked)
		})
	}
}

func (t *Task) fetchFrom(topic event.Topic, offset int64) Fetch {
	return Fetch{Topic: topic, Offset: offset, MaxBytes: t.cfg.FetchBytes, MaxWait: t.cfg.FetchWait}
}

func (t *Task) fetched(q *queue, f *Fetched, asked time.Duration) {
	t.failures.clear(t.reading[q.topic])
	if q.take(f, asked, t.now.Mono) {
		t.run.checkpoints.moved = true
	}
}

// fetchFailed checks that the log is still the same before it goes on: an error may come from a changed leader or topic.
func (t *Task) fetchFailed(q *queue, err error) {
	q.atEnd = false
	t.readFailed(t.reading[q.topic], &q.fetching, fmt.Errorf("from offset %d: %w", q.next, err))
}

// readFailed starts the checks after a failed fetch, once if several fail. A throttled one needs no check, and pauses its topic's fetches.
func (t *Task) readFailed(doing string, fetching *bool, err error) {
	r := t.run
	_, pauses := errors.AsType[Throttled](err)
	*fetching = pauses
	t.failed(doing, err, func() {
		if pauses { // else the next fetch may be under way
			*fetching = false
		}
	})
	if t.run != r || pauses {
		return
	}
	r.unchecked = true
	if !r.checking {
		r.checking = true
		t.after(t.failures[doing].backoff.d, t.checkRead)
	}
}

// checkRead checks the logs, and once more if a fetch that was under way has failed since: its topic may have changed after it was checked.
func (t *Task) checkRead() {
	r := t.run
	r.unchecked = false
	t.check(r.cut(), func() {
		if r.checking = r.unchecked; r.checking {
			t.checkRead()
		}
	})
}
