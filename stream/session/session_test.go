package session

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/sasl"
	"github.com/segmentio/kafka-go/sasl/plain"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"pgregory.net/rapid"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	apiVersions, saslHandshake, saslAuthenticate = 18, 17, 36
	echo                                         = 3 // any other request is echoed
	lifetime                                     = 100 * time.Second
)

// fakeBroker answers requests one after the other, as brokers do.
type fakeBroker struct {
	listener net.Listener
	lifetime time.Duration
	version  int16              // of SaslAuthenticate
	password string             // empty: no login is taken
	hangs    bool               // from the second login on nothing is answered
	piece    func(most int) int // how much of an answer is written at once; nil: all

	mu     sync.Mutex
	seen   []string // the texts of requests, and "login"
	logins int
	ended  chan struct{}
}

func newFakeBroker(t require.TestingT) *fakeBroker {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	return &fakeBroker{listener: l, lifetime: lifetime, version: 1, password: "user/secret", ended: make(chan struct{})}
}

// serve serves one connection.
func (f *fakeBroker) serve() {
	defer close(f.ended)
	conn, err := f.listener.Accept()
	if err != nil {
		return
	}
	defer conn.Close()
	for {
		var head [4]byte
		if _, err := io.ReadFull(conn, head[:]); err != nil {
			return
		}
		request := make([]byte, binary.BigEndian.Uint32(head[:]))
		if _, err := io.ReadFull(conn, request); err != nil {
			return
		}
		body, answers := f.answer(request)
		if !answers {
			continue
		}
		frame := binary.BigEndian.AppendUint32(nil, uint32(4+len(body)))
		frame = append(append(frame, request[4:8]...), body...)
		for len(frame) > 0 {
			n := len(frame)
			if f.piece != nil {
				n = f.piece(n)
			}
			if _, err := conn.Write(frame[:n]); err != nil {
				return
			}
			frame = frame[n:]
		}
	}
}

func (f *fakeBroker) answer(request []byte) (body []byte, answers bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	be := binary.BigEndian
	key, rest := be.Uint16(request), request[8:]
	if id := int16(be.Uint16(rest)); id >= 0 { // the client's
		rest = rest[id:]
	}
	rest = rest[2:]
	switch key {
	case apiVersions:
		body = []byte{0, 0, 0, 0, 0, 3}
		for _, k := range [][2]int16{{apiVersions, 0}, {saslHandshake, 1}, {saslAuthenticate, f.version}} {
			body = be.AppendUint16(be.AppendUint16(be.AppendUint16(body, uint16(k[0])), 0), uint16(k[1]))
		}
	case saslHandshake:
		f.seen = append(f.seen, "login")
		f.logins++
		if f.hangs && f.logins > 1 {
			return nil, false
		}
		body = []byte{0, 0, 0, 0, 0, 1, 0, 5, 'P', 'L', 'A', 'I', 'N'}
	case saslAuthenticate:
		code, says := 0, "\xff\xff"
		if f.password == "" || string(rest[4:]) != "\x00user\x00secret" {
			code, says = int(kafka.SASLAuthenticationFailed), "\x00\x02no"
		}
		body = append(be.AppendUint16(nil, uint16(code)), says+"\x00\x00\x00\x00"...)
		if be.Uint16(request[2:]) > 0 {
			body = be.AppendUint64(body, uint64(f.lifetime.Milliseconds()))
		}
	default:
		f.seen = append(f.seen, string(rest))
		body = rest
	}
	return body, true
}

func (f *fakeBroker) saw() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]string(nil), f.seen...)
}

// set changes the broker while it serves.
func (f *fakeBroker) set(change func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change()
}

// clock is one that tests move.
type clock struct{ passed atomic.Int64 }

func (c *clock) now() time.Time         { return time.Unix(1e9, c.passed.Load()) }
func (c *clock) pass(d time.Duration)   { c.passed.Add(int64(d)) }
func (f *fakeBroker) end(conn net.Conn) { _ = conn.Close(); _ = f.listener.Close(); <-f.ended }

func (f *fakeBroker) dialer(c *clock) *Dialer {
	return &Dialer{Dial: new(net.Dialer).DialContext, SASL: plain.Mechanism{Username: "user", Password: "secret"},
		Timeout: 30 * time.Second, now: c.now}
}

// dial connects, and logs in for the first time.
func (f *fakeBroker) dial(t require.TestingT, c *clock) net.Conn {
	go f.serve()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	conn, err := f.dialer(c).DialContext(ctx, "tcp", f.listener.Addr().String())
	require.NoError(t, err)
	return conn
}

func dialed(t *testing.T, change func(*fakeBroker)) (*fakeBroker, net.Conn, *clock) {
	t.Helper()
	f, c := newFakeBroker(t), new(clock)
	if change != nil {
		change(f)
	}
	conn := f.dial(t, c)
	t.Cleanup(func() { f.end(conn) })
	return f, conn, c
}

// request is the frame of one, and the answer to it.
func request(id uint32, text string) (frame, answer []byte) {
	be := binary.BigEndian
	frame = be.AppendUint32(nil, uint32(8+2+2+len(text)))
	frame = be.AppendUint32(append(frame, 0, echo, 0, 0), id)
	frame = append(frame, "\x00\x02me"+text...)
	answer = be.AppendUint32(be.AppendUint32(nil, uint32(4+len(text))), id)
	return frame, append(answer, text...)
}

// ask sends a request and reads its answer.
func ask(t *testing.T, conn net.Conn, text string) {
	t.Helper()
	frame, want := request(7, text)
	_, err := conn.Write(frame)
	require.NoError(t, err)
	got := make([]byte, len(want))
	_, err = io.ReadFull(conn, got)
	require.NoError(t, err)
	require.Equal(t, want, got)
}

// TestAnyBytesPass: requests and answers in any pieces, several in flight, arrive unchanged and in order. Logins come
// between them when one is due and no answer is awaited, and never otherwise.
func TestAnyBytesPass(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f, c := newFakeBroker(t), new(clock)
		pieces := rapid.SliceOfN(rapid.IntRange(1, 40), 1, 20).Draw(t, "pieces")
		next := 0
		f.piece = func(most int) int { next++; return min(most, pieces[next%len(pieces)]) }
		conn := f.dial(t, c)
		defer f.end(conn)
		want := []string{"login"}
		for batch := range rapid.IntRange(1, 6).Draw(t, "batches") {
			if rapid.Bool().Draw(t, "due") {
				c.pass(lifetime)
				want = append(want, "login")
			}
			var written, answers []byte
			for id := range rapid.IntRange(1, 4).Draw(t, "requests") {
				text := fmt.Sprint(batch, id, rapid.StringN(0, 300, -1).Draw(t, "text"))
				frame, answer := request(uint32(id), text)
				written, answers, want = append(written, frame...), append(answers, answer...), append(want, text)
			}
			late := rapid.Bool().Draw(t, "due while answers are awaited")
			for i := 0; len(written) > 0; i++ {
				n := rapid.IntRange(1, len(written)).Draw(t, "bytes")
				_, err := conn.Write(written[:n])
				require.NoError(t, err)
				written = written[n:]
				if late && i == 0 {
					c.pass(lifetime * 96 / 100)
				}
			}
			got := make([]byte, len(answers))
			for read := 0; read < len(got); {
				n, err := conn.Read(got[read:min(len(got), read+rapid.IntRange(1, 100).Draw(t, "room"))])
				require.NoError(t, err)
				read += n
			}
			require.Equal(t, answers, got)
			if late { // the request after it logs in
				text := fmt.Sprint("late", batch)
				frame, answer := request(9, text)
				_, err := conn.Write(frame)
				require.NoError(t, err)
				got := make([]byte, len(answer))
				_, err = io.ReadFull(conn, got)
				require.NoError(t, err)
				require.Equal(t, answer, got)
				want = append(want, "login", text)
			}
		}
		require.Equal(t, want, f.saw())
	})
}

// TestManyAskAtOnce: over kafka-go's connection, which many use at a time.
func TestManyAskAtOnce(t *testing.T) {
	f, under, c := dialed(t, func(f *fakeBroker) { f.piece = func(most int) int { return min(most, 5) } })
	conn := kafka.NewConnWith(under, kafka.ConnConfig{ClientID: "me"})
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 100 {
				c.pass(lifetime / 7)
				got, err := conn.ApiVersions()
				if err != nil || len(got) != 3 {
					t.Errorf("%v, %v", got, err)
					return
				}
			}
		})
	}
	all.Wait()
	c.pass(lifetime)
	before := len(f.saw())
	_, err := conn.ApiVersions()
	require.NoError(t, err)
	require.Len(t, f.saw(), before+1, "once nobody waits it logs in for certain")
}

// TestOverWhileAnswersAreAwaited: a session is over, and answers are on their way. The next request waits for them, and logs in.
func TestOverWhileAnswersAreAwaited(t *testing.T) {
	f, conn, c := dialed(t, nil)
	first, answer := request(1, "first")
	_, err := conn.Write(first)
	require.NoError(t, err)
	c.pass(lifetime)
	second, after := request(2, "second")
	written := make(chan error, 1)
	go func() {
		_, err := conn.Write(second)
		written <- err
	}()
	got := make([]byte, len(answer))
	_, err = io.ReadFull(conn, got)
	require.NoError(t, err)
	require.Equal(t, answer, got)
	require.NoError(t, <-written)
	got = make([]byte, len(after))
	_, err = io.ReadFull(conn, got)
	require.NoError(t, err)
	require.Equal(t, after, got)
	require.Equal(t, []string{"login", "first", "login", "second"}, f.saw())

	_, err = conn.Write(first)
	require.NoError(t, err)
	c.pass(lifetime)
	require.NoError(t, conn.SetWriteDeadline(time.Now().Add(50*time.Millisecond)))
	_, err = conn.Write(second)
	require.ErrorIs(t, err, context.DeadlineExceeded, "nobody reads")
}

// TestWhenItLogsIn: between 85 and 95 % of the session; and never where the broker names no end, or cannot.
func TestWhenItLogsIn(t *testing.T) {
	f, conn, c := dialed(t, nil)
	for n := 1; n < 5; n++ {
		c.pass(lifetime * 84 / 100)
		ask(t, conn, "early")
		require.Len(t, f.saw(), 3*n-1)
		c.pass(lifetime * 11 / 100)
		ask(t, conn, "late")
		require.Equal(t, []string{"early", "login", "late"}, f.saw()[3*n-2:])
	}
	for name, change := range map[string]func(*fakeBroker){
		"no end": func(f *fakeBroker) { f.lifetime = 0 }, "not said": func(f *fakeBroker) { f.version = 0 },
		"less than none": func(f *fakeBroker) { f.lifetime = -time.Hour },
	} {
		t.Run(name, func(t *testing.T) {
			f, conn, c := dialed(t, change)
			for range 3 {
				c.pass(1000 * time.Hour)
				ask(t, conn, "x")
			}
			require.Equal(t, []string{"login", "x", "x", "x"}, f.saw())
		})
	}
	t.Run("shorter than brokers take logins", func(t *testing.T) {
		f, conn, c := dialed(t, func(f *fakeBroker) { f.lifetime = 10 * time.Millisecond })
		c.pass(time.Second)
		ask(t, conn, "x")
		c.pass(time.Second)
		ask(t, conn, "y")
		require.Equal(t, []string{"login", "x", "login", "y"}, f.saw())
	})
}

// TestRefused: a login that is not taken is the first request's error, and the connection's end.
func TestRefused(t *testing.T) {
	f, conn, c := dialed(t, nil)
	f.set(func() { f.password = "" })
	c.pass(lifetime)
	frame, _ := request(1, "x")
	_, err := conn.Write(frame)
	require.ErrorIs(t, err, kafka.SASLAuthenticationFailed)
	require.ErrorContains(t, err, "logging in to Kafka again, before the session ends")
	require.ErrorContains(t, err, ": no")
	_, err = conn.Read(make([]byte, 1))
	require.ErrorIs(t, err, net.ErrClosed)

	again := newFakeBroker(t)
	again.password = ""
	go again.serve()
	_, err = again.dialer(c).DialContext(t.Context(), "tcp", again.listener.Addr().String())
	require.ErrorIs(t, err, kafka.SASLAuthenticationFailed)
	require.NoError(t, again.listener.Close())
	<-again.ended
}

// TestDeadlines: a login ends with the deadline of the write that it goes before, or its own; that of reads is kept for reads.
func TestDeadlines(t *testing.T) {
	frame, _ := request(1, "x")
	hangs := func(f *fakeBroker) { f.hangs = true }
	for name, set := range map[string]func(net.Conn) error{
		"of writes": func(conn net.Conn) error { return conn.SetWriteDeadline(time.Now().Add(20 * time.Millisecond)) },
		"of both":   func(conn net.Conn) error { return conn.SetDeadline(time.Now().Add(20 * time.Millisecond)) },
		"passed":    func(conn net.Conn) error { return conn.SetDeadline(time.Now().Add(-time.Second)) },
		"set while it waits": func(conn net.Conn) error {
			time.AfterFunc(20*time.Millisecond, func() { _ = conn.SetWriteDeadline(time.Unix(1, 0)) })
			return nil
		},
		"its own": func(c net.Conn) error { c.(*conn).d.Timeout = 20 * time.Millisecond; return nil },
	} {
		t.Run(name, func(t *testing.T) {
			_, conn, c := dialed(t, hangs)
			c.pass(lifetime)
			require.NoError(t, set(conn))
			_, err := conn.Write(frame)
			require.ErrorIs(t, err, os.ErrDeadlineExceeded)
			var network net.Error
			require.True(t, errors.As(err, &network) && network.Timeout())
		})
	}
	t.Run("of reads", func(t *testing.T) {
		f, conn, c := dialed(t, nil)
		c.pass(lifetime)
		require.NoError(t, conn.SetReadDeadline(time.Now().Add(-time.Second)))
		_, err := conn.Write(frame)
		require.NoError(t, err)
		_, err = conn.Read(make([]byte, 1))
		require.ErrorIs(t, err, os.ErrDeadlineExceeded)
		require.Contains(t, f.saw()[1:], "login")
		require.NoError(t, conn.SetDeadline(time.Time{}))
		_, err = io.ReadFull(conn, make([]byte, 9))
		require.NoError(t, err)
	})
	t.Run("closed while it waits", func(t *testing.T) {
		_, conn, c := dialed(t, hangs)
		c.pass(lifetime)
		time.AfterFunc(20*time.Millisecond, func() { _ = conn.Close() })
		_, err := conn.Write(frame)
		require.ErrorIs(t, err, net.ErrClosed)
	})
}

// TestTheFirstLoginEndsWithItsContext, whether at its deadline or before.
func TestTheFirstLoginEndsWithItsContext(t *testing.T) {
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer silent.Close()
	d := newFakeBroker(t).dialer(new(clock))
	d.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
		return new(net.Dialer).DialContext(context.WithoutCancel(ctx), network, address) // else a busy machine may end here, before the login
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	_, err = d.DialContext(ctx, "tcp", silent.Addr().String())
	require.ErrorIs(t, err, os.ErrDeadlineExceeded)
	ctx, cancel = context.WithCancel(t.Context())
	time.AfterFunc(20*time.Millisecond, cancel)
	_, err = d.DialContext(ctx, "tcp", silent.Addr().String())
	require.ErrorIs(t, err, context.Canceled)
	for _, address := range []string{"nowhere", "nowhere:http"} {
		_, err = d.DialContext(t.Context(), "tcp", address)
		require.ErrorContains(t, err, "the broker's address")
	}
}

// waiting is a mechanism that has no answer.
type waiting struct{ asked chan struct{} }

func (w waiting) Name() string { return "PLAIN" }

func (w waiting) Start(ctx context.Context) (sasl.StateMachine, []byte, error) {
	close(w.asked)
	<-ctx.Done()
	return nil, nil, fmt.Errorf("no token: %w", ctx.Err())
}

// TestClosedWhileATokenIsAwaited: nothing goes on after Close.
func TestClosedWhileATokenIsAwaited(t *testing.T) {
	_, under, c := dialed(t, nil)
	w := waiting{make(chan struct{})}
	under.(*conn).d.SASL = w
	c.pass(lifetime)
	go func() {
		<-w.asked
		_ = under.Close()
	}()
	frame, _ := request(1, "x")
	_, err := under.Write(frame)
	require.ErrorIs(t, err, context.Canceled)
}

// TestFrames: a length that cannot be ends the counting, and is passed on.
func TestFrames(t *testing.T) {
	var f frames
	begun, ended := f.pass([]byte("\x00\x00\x00\x00\x00\x00\x00\x01a\x00"))
	require.Equal(t, [2]int64{3, 2}, [2]int64{begun, ended})
	require.False(t, f.between())
	f.pass([]byte("\x00\x00\x00"))
	require.True(t, f.between(), "a frame without bytes")
	f.pass([]byte("\xff\xff\xff\xffabc"))
	require.False(t, f.between())
	f.pass(make([]byte, 100))
	require.False(t, f.between())
}
