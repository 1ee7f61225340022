// Package proxy is a TCP proxy that misbehaves on request: it cuts connections, delays data, leaves
// connections half-open, loses replies, and redirects clients. Package faults uses it on loopback.
package proxy

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"sync"
	"time"
)

// Proxy forwards connections to a target.
//
// Goroutines: one accepts; each connection has two for each direction, a reader
// and a writer that waits for the delay. All end with Close, which waits for them.
type Proxy struct {
	listener net.Listener
	wg       sync.WaitGroup

	mu      sync.Mutex
	target  string
	refuse  bool
	delay   time.Duration // of each chunk from the target
	silent  chan struct{} // while not nil, nothing passes, until it is closed
	deaf    bool          // the target's data is lost, and then the connection
	conns   map[*link]struct{}
	closed  bool
	changed chan struct{} // closed at each change of the fields above
}

// link is a client's connection and its other half.
type link struct {
	client, target net.Conn
	once           sync.Once
}

func (l *link) cut() {
	l.once.Do(func() {
		// A reset instead of an orderly end, as from a machine that died.
		for _, c := range []net.Conn{l.client, l.target} {
			if tcp, ok := c.(*net.TCPConn); ok {
				_ = tcp.SetLinger(0)
			}
			_ = c.Close()
		}
	})
}

// New listens on a free port of loopback. Without a target, connections are refused until SetTarget.
func New(target string) (*Proxy, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("proxy to %s: %w", target, err)
	}
	p := &Proxy{listener: listener, target: target, conns: map[*link]struct{}{}, changed: make(chan struct{})}
	p.wg.Go(p.accept)
	return p, nil
}

func (p *Proxy) Addr() string { return p.listener.Addr().String() }

// change alters the proxy's behaviour, and wakes waiting goroutines.
func (p *Proxy) change(f func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	f()
	close(p.changed)
	p.changed = make(chan struct{})
}

// SetTarget sends new connections elsewhere, and cuts existing ones.
func (p *Proxy) SetTarget(target string) {
	p.change(func() { p.target = target })
	p.Cut(1, nil)
}

// Refuse refuses new connections and cuts existing ones, until it is called with false.
func (p *Proxy) Refuse(on bool) {
	p.change(func() { p.refuse = on })
	if on {
		p.Cut(1, nil)
	}
}

// SetDelay delays all data from the target, in order. Many requests may overlap: it adds latency, and keeps the bandwidth.
func (p *Proxy) SetDelay(d time.Duration) { p.change(func() { p.delay = d }) }

// Silence keeps connections, also new ones, open without passing data, until it is called with false: as when a cable is pulled.
func (p *Proxy) Silence(on bool) {
	p.change(func() {
		if on && p.silent == nil {
			p.silent = make(chan struct{})
		} else if !on && p.silent != nil {
			close(p.silent)
			p.silent = nil
		}
	})
}

// Deafen loses replies, until it is called with false: requests reach the target, and its next data cuts the connection.
func (p *Proxy) Deafen(on bool) { p.change(func() { p.deaf = on }) }

// Cut cuts each open connection with a probability, and returns how many; rng may be nil for 1.
func (p *Proxy) Cut(probability float64, rng *rand.Rand) (n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for l := range p.conns {
		if probability >= 1 || rng.Float64() < probability {
			l.cut()
			n++
		}
	}
	return n
}

func (p *Proxy) Heal() {
	p.Silence(false)
	p.change(func() { p.refuse, p.deaf, p.delay = false, false, 0 })
}

// Close cuts everything and waits for the proxy's goroutines.
func (p *Proxy) Close() {
	p.Silence(false)
	p.change(func() { p.closed = true })
	_ = p.listener.Close()
	p.Cut(1, nil)
	p.wg.Wait()
}

func (p *Proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			time.Sleep(10 * time.Millisecond) // too many open files, which passes
			continue
		}
		p.wg.Go(func() { p.serve(client) })
	}
}

// dialTimeout is for the way to the target on this machine.
const dialTimeout = 5 * time.Second

func (p *Proxy) serve(client net.Conn) {
	p.mu.Lock()
	target, refuse := p.target, p.refuse || p.closed || p.target == ""
	p.mu.Unlock()
	if refuse {
		_ = client.Close()
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), dialTimeout)
	defer cancel()
	server, err := (&net.Dialer{}).DialContext(ctx, "tcp", target)
	if err != nil {
		_ = client.Close()
		return
	}
	l := &link{client: client, target: server}
	p.mu.Lock()
	// A client that came during the dial is subject to changes since.
	stale := p.target != target || p.refuse || p.closed
	p.conns[l] = struct{}{}
	p.mu.Unlock()
	if stale {
		l.cut()
	}
	var both sync.WaitGroup
	both.Go(func() { p.pipe(l, client, server, false) })
	both.Go(func() { p.pipe(l, server, client, true) })
	both.Wait()
	l.cut()
	p.mu.Lock()
	delete(p.conns, l)
	p.mu.Unlock()
}

// chunk is data read at once, and the time at which it may pass.
type chunk struct {
	data []byte
	at   time.Time
}

// pipe carries one direction until either side ends. The reader runs ahead of the writer by the delay, so that requests may overlap.
func (p *Proxy) pipe(l *link, from, to net.Conn, replies bool) {
	defer l.cut()
	chunks := make(chan chunk, 256)
	var reader sync.WaitGroup
	reader.Go(func() {
		defer close(chunks)
		for {
			buf := make([]byte, 32<<10)
			n, err := from.Read(buf)
			if n > 0 {
				chunks <- chunk{buf[:n], time.Now()}
			}
			if err != nil {
				if !errors.Is(err, io.EOF) {
					l.cut()
				}
				return
			}
		}
	})
	defer reader.Wait()
	broken := false
	for c := range chunks {
		if broken { // let the reader come to its end
			continue
		}
		if !p.pass(c, replies) {
			broken = true
		} else if _, err := to.Write(c.data); err != nil {
			broken = true
		}
		if broken {
			l.cut()
		}
	}
}

// pass waits until a chunk may pass; false: never.
func (p *Proxy) pass(c chunk, reply bool) bool {
	for {
		p.mu.Lock()
		silent, deaf, closed, delay, changed := p.silent, p.deaf, p.closed, p.delay, p.changed
		p.mu.Unlock()
		switch {
		case closed, reply && deaf:
			return false
		case silent != nil:
			<-silent
			continue
		}
		wait := time.Until(c.at.Add(delay))
		if !reply || wait <= 0 {
			return true
		}
		select {
		case <-time.After(wait):
		case <-changed:
		}
	}
}
