package proxy

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// greeter answers each line with its name and the line.
func greeter(t *testing.T, name string) string {
	t.Helper()
	return counting(t, name, &atomic.Int64{})
}

// counting is a greeter that counts the lines it has received.
func counting(t *testing.T, name string, lines *atomic.Int64) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				for in := bufio.NewScanner(c); in.Scan(); {
					lines.Add(1)
					if _, err := fmt.Fprintf(c, "%s:%s\n", name, in.Text()); err != nil {
						return
					}
				}
			}()
		}
	}()
	return l.Addr().String()
}

func start(t *testing.T, target string) *Proxy {
	t.Helper()
	p, err := New(target)
	require.NoError(t, err)
	t.Cleanup(p.Close)
	return p
}

type client struct {
	net.Conn
	in *bufio.Reader
}

func dial(t *testing.T, p *Proxy) *client {
	t.Helper()
	c, err := net.Dial("tcp", p.Addr())
	require.NoError(t, err)
	t.Cleanup(func() { c.Close() })
	return &client{c, bufio.NewReader(c)}
}

// ask sends a line and returns the answer.
func (c *client) ask(line string, patience time.Duration) (string, error) {
	if _, err := fmt.Fprintln(c, line); err != nil {
		return "", err
	}
	_ = c.SetReadDeadline(time.Now().Add(patience))
	answer, err := c.in.ReadString('\n')
	return answer, err
}

const long = 10 * time.Second

func TestProxyPassesAndMovesOn(t *testing.T) {
	p := start(t, greeter(t, "a"))
	c := dial(t, p)
	answer, err := c.ask("1", long)
	require.NoError(t, err)
	require.Equal(t, "a:1\n", answer)
	p.SetTarget(greeter(t, "b"))
	_, err = c.ask("2", long)
	require.Error(t, err, "connections to the old target are cut")
	answer, err = dial(t, p).ask("3", long)
	require.NoError(t, err)
	require.Equal(t, "b:3\n", answer)
}

func TestProxyCutsAndRefuses(t *testing.T) {
	p := start(t, greeter(t, "a"))
	c := dial(t, p)
	_, err := c.ask("1", long)
	require.NoError(t, err)
	require.Equal(t, 1, p.Cut(1, nil))
	_, err = c.ask("2", long)
	require.Error(t, err)
	require.False(t, errors.Is(err, os.ErrDeadlineExceeded), "it hears of it")
	p.Refuse(true)
	_, err = dial(t, p).ask("3", long)
	require.Error(t, err)
	p.Heal()
	_, err = dial(t, p).ask("4", long)
	require.NoError(t, err)
}

func TestProxyDelaysRepliesAndLetsThemOverlap(t *testing.T) {
	var lines atomic.Int64
	p := start(t, counting(t, "a", &lines))
	const delay = 200 * time.Millisecond
	p.SetDelay(delay)
	began := time.Now()
	c := dial(t, p)
	for i := range 20 {
		_, err := fmt.Fprintln(c, i)
		require.NoError(t, err)
		if i%2 == 0 {
			// Requests reach the proxy in more than one read.
			require.Eventually(t, func() bool { return lines.Load() > int64(i) }, long, time.Millisecond)
		}
	}
	for i := range 20 {
		answer, err := c.in.ReadString('\n')
		require.NoError(t, err)
		require.Equal(t, fmt.Sprintf("a:%d\n", i), answer)
	}
	require.GreaterOrEqual(t, time.Since(began), delay)
	require.Less(t, time.Since(began), 10*delay, "twenty requests at once take one delay, not twenty")
}

func TestProxySilentConnectionsStandAndGoOn(t *testing.T) {
	p := start(t, greeter(t, "a"))
	c := dial(t, p)
	p.Silence(true)
	_, err := c.ask("1", 50*time.Millisecond)
	require.ErrorIs(t, err, os.ErrDeadlineExceeded)
	p.Silence(false)
	_ = c.SetReadDeadline(time.Now().Add(long))
	answer, err := c.in.ReadString('\n')
	require.NoError(t, err, "what was under way comes through")
	require.Equal(t, "a:1\n", answer)
}

func TestProxyLosesReplies(t *testing.T) {
	p := start(t, greeter(t, "a"))
	c := dial(t, p)
	p.Deafen(true)
	_, err := c.ask("1", long)
	require.Error(t, err)
	require.False(t, errors.Is(err, os.ErrDeadlineExceeded))
	p.Deafen(false)
	_, err = dial(t, p).ask("2", long)
	require.NoError(t, err)
}

func TestProxyPassesMuch(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	go func() {
		c, err := l.Accept()
		if err == nil {
			_, _ = io.Copy(c, c)
			c.Close()
		}
	}()
	p := start(t, l.Addr().String())
	c := dial(t, p)
	const size = 8 << 20
	go func() { _, _ = c.Write(make([]byte, size)) }()
	_ = c.SetReadDeadline(time.Now().Add(long))
	n, err := io.CopyN(io.Discard, c, size)
	require.NoError(t, err)
	require.EqualValues(t, size, n)
}
