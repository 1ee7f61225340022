package stream

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	kafka "github.com/segmentio/kafka-go"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kfake"
	"go.uber.org/goleak"

	"github.com/ranker-worker/ranker-worker/internal/test/testenv"
)

// patience bounds waits for events that take milliseconds, on a busy machine.
const patience = 45 * time.Second

// groupEnv is a Kafka and the topics and settings of one group.
type groupEnv struct {
	addr    string
	topics  []string
	group   string
	session time.Duration // the shortest that this Kafka takes, or a little more
}

// eachKafka runs f on the embedded broker and on a real Kafka, with three topics of six partitions.
func eachKafka(t *testing.T, f func(t *testing.T, env groupEnv)) {
	t.Run("embedded", func(t *testing.T) { f(t, embeddedGroup(t)) })
	if testenv.Short() {
		t.Logf("left out, because %s=1: the same test on a real Apache Kafka", testenv.ShortEnv)
		return
	}
	t.Run("real", func(t *testing.T) {
		checkLeaks(t)
		f(t, newGroupEnv(t, testenv.Kafka(t).Addr, 6*time.Second))
	})
}

func embeddedGroup(t *testing.T, opts ...kfake.Opt) groupEnv {
	checkLeaks(t)
	opts = append(opts, kfake.GroupMinSessionTimeout(time.Second))
	return newGroupEnv(t, testenv.Embedded(t, opts...).Kafka, 2*time.Second)
}

func newGroupEnv(t *testing.T, addr string, session time.Duration) groupEnv {
	env := groupEnv{addr: addr, group: testenv.Unique(t, "group"), session: session}
	for _, topic := range threeTopics {
		env.topics = append(env.topics, testenv.Unique(t, topic))
	}
	testenv.Topics(t, addr, 6, env.topics...)
	return env
}

// checkLeaks is called before anything else that cleans up after itself.
func checkLeaks(t *testing.T) {
	before := goleak.IgnoreCurrent()
	t.Cleanup(func() { goleak.VerifyNone(t, before, testenv.IgnoreServers()) })
}

func (e groupEnv) config() MembershipConfig {
	return MembershipConfig{
		Brokers: []string{e.addr}, GroupID: e.group, Topics: e.topics, SessionTimeout: e.session,
		RebalanceTimeout: 30 * time.Second, HeartbeatInterval: 100 * time.Millisecond, JoinBackoff: 50 * time.Millisecond,
		CloseTimeout: 3 * time.Second,
	}
}

func (e groupEnv) client(t *testing.T) *kafka.Client {
	transport := &kafka.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	return &kafka.Client{Addr: kafka.TCP(e.addr), Transport: transport, Timeout: patience}
}

// ledger knows who works on which number, and notices when two do.
type ledger struct {
	mu     sync.Mutex
	owner  map[int32]string
	faults []string
	change chan struct{} // closed and replaced at each change
}

func newLedger() *ledger { return &ledger{owner: map[int32]string{}, change: make(chan struct{})} }

func (l *ledger) update(f func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	f()
	close(l.change)
	l.change = make(chan struct{})
}

func (l *ledger) take(name string, numbers []int32) {
	l.update(func() {
		for _, p := range numbers {
			if was, ok := l.owner[p]; ok {
				l.faults = append(l.faults, fmt.Sprintf("%s took %d while %s had it", name, p, was))
			}
			l.owner[p] = name
		}
	})
}

func (l *ledger) drop(name string) {
	l.update(func() { maps.DeleteFunc(l.owner, func(_ int32, owner string) bool { return owner == name }) })
}

// await waits until the owners' loads are as given.
func (l *ledger) await(t *testing.T, want map[string]int) map[int32]string {
	t.Helper()
	timeout := time.After(patience)
	for {
		l.mu.Lock()
		loads := map[string]int{}
		for _, name := range l.owner {
			loads[name]++
		}
		owner, faults, change := maps.Clone(l.owner), slices.Clone(l.faults), l.change
		l.mu.Unlock()
		require.Empty(t, faults)
		if maps.Equal(loads, want) {
			return owner
		}
		select {
		case <-change:
		case <-timeout:
			require.FailNow(t, "not in time", "want %v, have %v", want, loads)
		}
	}
}

// worker is a member that does nothing but own.
type worker struct {
	name string
	m    *Membership
	gens chan *Generation // the last one
	done chan error
	stop context.CancelFunc
}

// start runs a member until it is stopped. drain, if not nil, is called when a generation ends.
func (l *ledger) start(t *testing.T, name string, cfg MembershipConfig, drain func(g *Generation)) *worker {
	m, err := NewMembership(cfg)
	require.NoError(t, err)
	ctx, stop := context.WithCancel(context.Background())
	w := &worker{name: name, m: m, gens: make(chan *Generation, 100), done: make(chan error, 1), stop: stop}
	go func() {
		for {
			g, err := m.Next(ctx)
			if err != nil {
				w.done <- err
				return
			}
			w.gens <- g
			g.Run(func(gen context.Context) {
				l.take(name, g.Partitions())
				defer l.drop(name)
				select {
				case <-gen.Done():
				case <-ctx.Done():
				}
				if drain != nil {
					drain(g)
				}
			})
			if ctx.Err() != nil {
				w.done <- ctx.Err()
				return
			}
		}
	}()
	t.Cleanup(func() { _ = w.leave() })
	return w
}

// leave ends the member as a worker ends: drain, then leave the group.
func (w *worker) leave() error {
	w.stop()
	select {
	case err := <-w.done:
		w.done <- err
	case <-time.After(patience):
		return errors.New("the member did not drain")
	}
	return w.m.Close(context.Background())
}

// last returns the newest generation there is, waiting for one.
func (w *worker) last(t *testing.T) *Generation {
	t.Helper()
	var g *Generation
	select {
	case g = <-w.gens:
	case <-time.After(patience):
		require.FailNow(t, "no generation")
	}
	for {
		select {
		case g = <-w.gens:
		default:
			return g
		}
	}
}
