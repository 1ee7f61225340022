package serve

import (
	"hash/maphash"
	"sync"
	"time"

	"github.com/ranker-worker/ranker-worker/stream/event"
)

// ranking is a logged ranking.
type ranking struct {
	id    string
	value []byte
	at    event.Millis // time of its append
}

// rankingCost is a ranking's memory in bytes besides its value and its id, which is held twice.
const rankingCost = 200

func (r *ranking) size() int64 { return int64(2*len(r.id)+len(r.value)) + rankingCost }

// call is an impression that is being written, or was, and is not ranked yet. Waiters wait for done.
type call struct {
	id      string
	done    chan struct{} // closed once there is a ranking, or none will come
	ranking *ranking
	err     error // why the impression was not written
	waiters int

	sent   uint64    // fingerprint of the last impression written
	sentAt time.Time // zero: none was
	stands bool      // a written one is in the log
}

// writeAgain is the time after which a repeated impression is written again. The worker may have
// refused the first copy, or a topic may have lost it; a worker counts a second copy as a duplicate.
const writeAgain = time.Minute

var fingerprints = maphash.MakeSeed()

// mostLeft bounds the calls without waiters. They are kept so that a repeated
// impression is not written again, and late rankings are recognised.
const mostLeft = 10_000

// book holds awaited impressions and recent rankings, by impression id. It is safe for concurrent use.
type book struct {
	mu     sync.Mutex
	calls  map[string]*call
	left   queue[*call] // without waiters, oldest first
	recent map[string]*ranking
	order  queue[*ranking] // oldest first
	bytes  int64           // of order
	most   int64
	// since is the time from which on all appended rankings are held, once the tails have read them.
	since event.Millis
}

func newBook(most int64) *book {
	return &book{calls: map[string]*call{}, recent: map[string]*ranking{}, most: most}
}

func (b *book) find(id string) *ranking {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.recent[id]
}

// join returns the ranking of an id, if it is held, else a call to wait for, which must be left. write means that the
// impression must be written: none with this id was, or a different one was, or this one longer than writeAgain ago.
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

func (b *book) leave(c *call) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if c.waiters--; c.waiters > 0 {
		return
	}
	if b.calls[c.id] != c {
		c.ranking = nil // left may keep the call
		return
	}
	b.left.push(c)
	for b.left.len() > mostLeft {
		if old := b.left.pop(); old.waiters == 0 && b.calls[old.id] == old {
			delete(b.calls, old.id)
		}
	}
}

// written notes that a call's impression is in the log, or why it could not be written. If none of the call's
// impressions is in the log, the call ends with that error, and the next impression with its id is written.
func (b *book) written(c *call, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case err == nil:
		c.stands = true
	case c.stands:
		c.sentAt = time.Time{} // the next one is written in any case
	case b.calls[c.id] == c:
		c.err = err
		close(c.done)
		delete(b.calls, c.id)
	}
}

// has reports whether a call's impression is in the log.
func (b *book) has(c *call) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return c.stands
}

// ranked stores a ranking, and passes it to its waiters.
func (b *book) ranked(r *ranking) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if c := b.calls[r.id]; c != nil {
		if c.waiters > 0 { // else left keeps the call, and would keep the ranking beyond most
			c.ranking = r
		}
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

// begins sets the time from which a partition's rankings are read.
func (b *book) begins(at event.Millis) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.since = max(b.since, at)
}

// knows reports whether all rankings appended since a time are held.
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

// pop removes the oldest element; there must be one.
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
