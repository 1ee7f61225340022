package serve

import (
	"hash/maphash"
	"sync"
	"time"

	"github.com/ranker-worker/ranker-worker/stream/event"
)

// ranking is one of the log, as it stands there.
type ranking struct {
	id    string
	value []byte
	at    event.Millis // when it was appended
}

// rankingCost is what a ranking takes beside its id, which is held twice, and its value.
const rankingCost = 200

func (r *ranking) size() int64 { return int64(2*len(r.id)+len(r.value)) + rankingCost }

// call is an impression that was written, or is about to be, and not ranked yet. Who waits for it, waits for done.
type call struct {
	id      string
	done    chan struct{} // closed once there is a ranking, or it is known that none will come
	ranking *ranking
	err     error // why the impression was not written
	waiters int

	sent   uint64    // fingerprint of the impression that was written last
	sentAt time.Time // zero: none was
	stands bool      // one that was written stands in the log
}

// writeAgain is after how long an impression that is sent again is written again. What was written may have been refused by the
// worker, and a topic may have lost it; a worker counts a second copy as a duplicate.
const writeAgain = time.Minute

var fingerprints = maphash.MakeSeed()

// mostLeft bounds the calls that nobody waits for any more. They are kept so that an impression that is sent again is not
// written again, and their ranking is told apart from those of others when it comes late.
const mostLeft = 10_000

// book has what is awaited and what was ranked lately, by impression id. It is safe for concurrent use.
type book struct {
	mu     sync.Mutex
	calls  map[string]*call
	left   queue[*call] // that were left by all who waited, the oldest first
	recent map[string]*ranking
	order  queue[*ranking] // the oldest first
	bytes  int64           // of order
	most   int64
	// since is a time: what was appended later is all remembered, once the tails have read it.
	since event.Millis
}

func newBook(most int64) *book {
	return &book{calls: map[string]*call{}, recent: map[string]*ranking{}, most: most}
}

// find is a ranking that is remembered; nil: none is.
func (b *book) find(id string) *ranking {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.recent[id]
}

// join gives the ranking of an id, if it is remembered, or else a call to wait for, which has to be left. Write tells that the
// impression has to be written: none of this id was, or another, or this one longer than writeAgain ago.
func (b *book) join(id string, impression []byte, now time.Time) (r *ranking, c *call, write bool) {
	sent := maphash.Bytes(fingerprints, impression)
	b.mu.Lock()
	defer b.mu.Unlock()
	if r = b.recent[id]; r != nil {
		return r, nil, false
	}
	c = b.calls[id]
	if c == nil {
		c = &call{id: id, done: make(chan struct{})}
		b.calls[id] = c
	}
	c.waiters++
	if write = c.sent != sent || now.Sub(c.sentAt) >= writeAgain; write {
		c.sent, c.sentAt = sent, now
	}
	return nil, c, write
}

// leave ends a wait.
func (b *book) leave(c *call) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if c.waiters--; c.waiters > 0 || b.calls[c.id] != c {
		return
	}
	b.left.push(c)
	for b.left.len() > mostLeft {
		if old := b.left.pop(); old.waiters == 0 && b.calls[old.id] == old {
			delete(b.calls, old.id)
		}
	}
}

// written says that a call's impression stands in the log, or why it could not be written. Where none of the call's impressions
// stands there the call ends with that error, and the next impression with its id is written.
func (b *book) written(c *call, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case err == nil:
		c.stands = true
	case c.stands:
		c.sentAt = time.Time{} // the next one is written, whatever it is
	case b.calls[c.id] == c:
		c.err = err
		close(c.done)
		delete(b.calls, c.id)
	}
}

// ranked takes a ranking in, and gives it to those who wait for it.
func (b *book) ranked(r *ranking) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if c := b.calls[r.id]; c != nil {
		c.ranking = r
		close(c.done)
		delete(b.calls, r.id)
	}
	b.recent[r.id] = r
	b.order.push(r)
	b.bytes += r.size()
	for b.bytes > b.most {
		old := b.order.pop()
		b.bytes -= old.size()
		b.since = max(b.since, old.at)
		if b.recent[old.id] == old {
			delete(b.recent, old.id)
		}
	}
}

// begins says from when on a partition's rankings are read.
func (b *book) begins(at event.Millis) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.since = max(b.since, at)
}

// knows tells whether all rankings that were appended from a time on are remembered.
func (b *book) knows(from event.Millis) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return from > b.since
}

// queue is first in, first out.
type queue[T any] struct {
	all  []T
	head int
}

func (q *queue[T]) len() int { return len(q.all) - q.head }

func (q *queue[T]) push(v T) { q.all = append(q.all, v) }

// pop takes out the oldest; there must be one.
func (q *queue[T]) pop() T {
	v := q.all[q.head]
	clear(q.all[q.head : q.head+1])
	if q.head++; q.head > len(q.all)/2 {
		n := copy(q.all, q.all[q.head:])
		clear(q.all[n:])
		q.all, q.head = q.all[:n], 0
	}
	return v
}
