package session

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/segmentio/kafka-go/sasl"
)

// conn passes requests and answers through unchanged, with logins in between. It has no goroutine. Its reader reads answers to written
// requests only, as kafka-go does: during a read there is no login.
type conn struct {
	net.Conn
	d    *Dialer
	meta *sasl.Metadata
	now  func() time.Time

	ctx    context.Context // ends with Close
	cancel context.CancelFunc

	write    sync.Mutex // held while writing or logging in
	requests frames
	version  int16     // of SaslAuthenticate
	due      time.Time // when to log in again; zero: never
	ends     time.Time // the session, if due is set

	read    sync.Mutex // held while reading or logging in
	answers frames

	// awaited counts outstanding answers. A request without an answer (produce without acks, which nobody sends here) would count for ever:
	// the connection would not log in again, and its broker would close it.
	awaited  atomic.Int64
	answered chan struct{} // holds a token after answers were read

	deadlines struct {
		sync.Mutex
		read, write time.Time // as set by the caller
		login       time.Time // zero: no login is under way
	}
}

func newConn(under net.Conn, d *Dialer, meta *sasl.Metadata) *conn {
	c := &conn{Conn: under, d: d, meta: meta, now: d.now, answered: make(chan struct{}, 1)}
	if c.now == nil {
		c.now = time.Now
	}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	return c
}

func (c *conn) begin(ctx context.Context) error {
	until, _ := ctx.Deadline()
	if err := c.limit(until); err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, func() { _ = c.SetDeadline(time.Unix(1, 0)) })
	err := c.login(ctx, true)
	switch ended := !stop(); {
	case err == nil && !ended:
		return c.limit(time.Time{})
	case err == nil:
		return ctx.Err()
	case ended:
		return fmt.Errorf("%w: %w", ctx.Err(), err)
	}
	return err
}

// Write logs in again before a request if it is time.
func (c *conn) Write(b []byte) (int, error) {
	c.write.Lock()
	defer c.write.Unlock()
	if len(b) > 0 && c.requests.between() && !c.due.IsZero() && !c.now().Before(c.due) {
		if err := c.renew(); err != nil {
			_ = c.Close()
			return 0, fmt.Errorf("logging in to Kafka again, before the session ends: %w", err)
		}
	}
	begun, _ := c.requests.pass(b)
	c.awaited.Add(begun) // before any of it is written, and so before its answer is read
	n, err := c.Conn.Write(b)
	if err != nil {
		c.due = time.Time{} // the broker received another count
	}
	return n, err
}

func (c *conn) Read(b []byte) (int, error) {
	c.read.Lock()
	n, err := c.Conn.Read(b)
	_, ended := c.answers.pass(b[:n])
	c.awaited.Add(-ended)
	c.read.Unlock()
	if ended > 0 {
		select {
		case c.answered <- struct{}{}:
		default:
		}
	}
	return n, err
}

// renew logs in again. With outstanding answers it leaves it to a later request while the session lasts, and after its end waits for them,
// since the broker would close the connection. The caller holds the writers' lock.
func (c *conn) renew() error {
	begun := time.Now() // deadlines are on the real clock
	until := begun.Add(c.d.Timeout)
	c.deadlines.Lock()
	until = earlier(until, c.deadlines.write)
	c.deadlines.Unlock()
	ctx, cancel := context.WithDeadline(c.ctx, begun.Add(until.Sub(begun)/2))
	defer cancel()
	for !c.quiet() {
		if c.now().Before(c.ends) {
			return nil
		}
		select {
		case <-c.answered:
		case <-ctx.Done():
			return fmt.Errorf("waiting for earlier answers: %w", ctx.Err())
		}
	}
	defer c.read.Unlock()
	if err := c.limit(until); err != nil {
		return err
	}
	if err := c.login(ctx, false); err != nil {
		return err
	}
	return c.limit(time.Time{})
}

// quiet reports whether no answer is outstanding. If so it holds the readers' lock.
func (c *conn) quiet() bool {
	if !c.read.TryLock() {
		return false
	}
	if c.awaited.Load() == 0 && c.answers.between() {
		return true
	}
	c.read.Unlock()
	return false
}

// Close closes the connection, even during a login.
func (c *conn) Close() error {
	c.cancel()
	return c.Conn.Close()
}

// SetDeadline implements net.Conn. A login is part of the Write that it precedes, so its reads end with the deadline of writes too.
func (c *conn) SetDeadline(t time.Time) error {
	c.deadlines.Lock()
	defer c.deadlines.Unlock()
	c.deadlines.read, c.deadlines.write = t, t
	return c.applyDeadlines()
}

func (c *conn) SetReadDeadline(t time.Time) error {
	c.deadlines.Lock()
	defer c.deadlines.Unlock()
	c.deadlines.read = t
	return c.applyDeadlines()
}

func (c *conn) SetWriteDeadline(t time.Time) error {
	c.deadlines.Lock()
	defer c.deadlines.Unlock()
	c.deadlines.write = t
	return c.applyDeadlines()
}

// limit sets the deadline of a login; zero ends it.
func (c *conn) limit(until time.Time) error {
	c.deadlines.Lock()
	defer c.deadlines.Unlock()
	c.deadlines.login = until
	return c.applyDeadlines()
}

// applyDeadlines sets the current deadlines. The caller holds the lock.
func (c *conn) applyDeadlines() error {
	read, write := c.deadlines.read, c.deadlines.write
	if !c.deadlines.login.IsZero() {
		write = earlier(write, c.deadlines.login)
		read = write
	}
	return errors.Join(c.Conn.SetReadDeadline(read), c.Conn.SetWriteDeadline(write))
}

// earlier returns the earlier of two deadlines; zero means none.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}
