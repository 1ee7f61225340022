package stream

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	kafka "github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/sasl/plain"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kfake"
	"go.uber.org/goleak"

	"github.com/ranker-worker/ranker-worker/internal/test/testenv"
	"github.com/ranker-worker/ranker-worker/stream/task"
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
	return w.m.Close()
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

func TestMembersShareNumbersAndALeaverHandsOverAtOnce(t *testing.T) {
	eachKafka(t, func(t *testing.T, env groupEnv) {
		l := newLedger()
		a := l.start(t, "a", env.config(), nil)
		l.await(t, map[string]int{"a": 6})
		b := l.start(t, "b", env.config(), nil)
		before := l.await(t, map[string]int{"a": 3, "b": 3})

		start := time.Now()
		require.NoError(t, a.leave())
		closed := time.Since(start)
		after := l.await(t, map[string]int{"b": 6})
		t.Logf("left in %v, all taken over in %v", closed, time.Since(start))
		assert.Less(t, time.Since(start), env.session, "no session timeout was waited for")
		for p, name := range before {
			if name == "b" {
				assert.Equal(t, "b", after[p])
			}
		}
		require.NoError(t, b.leave())
		require.NoError(t, b.m.Close(), "twice")
		_, err := b.m.Next(context.Background())
		require.ErrorIs(t, err, ErrMembershipClosed)
	})
}

// TestAMemberLeavesForAWhile: its numbers go to the others at once, and it gets some when it joins again.
func TestAMemberLeavesForAWhile(t *testing.T) {
	eachKafka(t, func(t *testing.T, env groupEnv) {
		l := newLedger()
		m, err := NewMembership(env.config())
		require.NoError(t, err)
		t.Cleanup(func() { _ = m.Close() })
		ctx, stop := context.WithTimeout(t.Context(), 2*patience)
		defer stop()
		require.NoError(t, m.Leave(), "before it has joined")
		other := l.start(t, "other", env.config(), nil)
		l.await(t, map[string]int{"other": 6})
		for range 2 {
			for owns := 0; owns != 3; { // the first generation may be of one that joins alone
				g, err := m.Next(ctx)
				require.NoError(t, err)
				owns = len(g.Partitions())
				g.Run(func(gen context.Context) {
					if owns != 3 {
						<-gen.Done()
					}
				})
			}
			l.await(t, map[string]int{"other": 3})
			require.NoError(t, m.Leave())
			l.await(t, map[string]int{"other": 6})
		}
		require.NoError(t, m.Leave(), "twice")
		require.NoError(t, m.Close())
		_, err = m.Next(ctx)
		require.ErrorIs(t, err, ErrMembershipClosed)
		require.NoError(t, other.leave())
	})
}

func TestAMemberThatDiesIsReplacedAfterTheSessionTimeout(t *testing.T) {
	eachKafka(t, func(t *testing.T, env groupEnv) {
		l := newLedger()
		a := l.start(t, "a", env.config(), nil)
		b := l.start(t, "b", env.config(), nil)
		l.await(t, map[string]int{"a": 3, "b": 3})
		start := time.Now()
		a.m.dialer.close() // no heartbeat and no goodbye
		l.await(t, map[string]int{"b": 6})
		t.Logf("all taken over in %v with a session timeout of %v", time.Since(start), env.session)
		g := b.last(t)
		require.NoError(t, g.Heartbeat(t.Context()))
		require.Equal(t, []int32{0, 1, 2, 3, 4, 5}, g.Partitions())
		_ = a.leave() // cannot succeed
	})
}

// kafka-go sends no heartbeats while a generation ends; a drain longer than the session timeout needs ours.
func TestADrainLongerThanTheSessionTimeoutKeepsTheMembership(t *testing.T) {
	eachKafka(t, func(t *testing.T, env groupEnv) {
		l := newLedger()
		var once sync.Once
		result := make(chan error, 1)
		a := l.start(t, "a", env.config(), func(g *Generation) {
			once.Do(func() {
				time.Sleep(env.session * 3 / 2) // the drain itself takes long here
				assert.ErrorIs(t, g.Heartbeat(context.Background()), task.ErrGenerationOver)
				// The last work is committed while the others wait for us.
				result <- g.Commit(context.Background(), map[string]map[int]int64{env.topics[0]: {0: 42}})
			})
		})
		l.await(t, map[string]int{"a": 6})
		member := a.last(t).MemberID()
		l.start(t, "b", env.config(), nil)
		l.await(t, map[string]int{"a": 3, "b": 3})
		require.NoError(t, <-result)
		assert.Equal(t, member, a.last(t).MemberID(), "it was not thrown out")
	})
}

func TestHeartbeatShowsWhetherTheGenerationLives(t *testing.T) {
	eachKafka(t, func(t *testing.T, env groupEnv) {
		l := newLedger()
		a := l.start(t, "a", env.config(), nil)
		g := a.last(t)
		require.NoError(t, g.Heartbeat(t.Context()))

		older := *g
		gen := kafka.Generation{ID: g.gen.ID - 1, MemberID: g.gen.MemberID}
		older.gen = &gen
		err := older.Heartbeat(t.Context())
		require.ErrorIs(t, err, task.ErrGenerationOver)
		require.ErrorIs(t, err, kafka.IllegalGeneration)
		err = older.Commit(t.Context(), map[string]map[int]int64{env.topics[0]: {0: 1}})
		require.ErrorIs(t, err, task.ErrGenerationOver)

		gen = kafka.Generation{ID: g.gen.ID, MemberID: "nobody"}
		err = older.Heartbeat(t.Context())
		require.ErrorIs(t, err, task.ErrGenerationOver)
		require.ErrorIs(t, err, kafka.UnknownMemberId)

		require.NoError(t, g.Commit(t.Context(), nil))
		require.NoError(t, a.leave())
		<-g.Done()
		require.ErrorIs(t, g.Heartbeat(context.Background()), task.ErrGenerationOver)
	})
}

// The coordinator itself reports this to a member that does not know of the generation's end yet.
func TestHeartbeatDuringARebalanceIsOver(t *testing.T) {
	eachKafka(t, func(t *testing.T, env groupEnv) {
		l := newLedger()
		var once sync.Once
		result := make(chan error, 1)
		l.start(t, "a", env.config(), func(g *Generation) {
			once.Do(func() { result <- g.beat(context.Background()) }) // b waits for us meanwhile
		})
		l.await(t, map[string]int{"a": 6})
		l.start(t, "b", env.config(), nil)
		require.ErrorIs(t, <-result, kafka.RebalanceInProgress)
		l.await(t, map[string]int{"a": 3, "b": 3})
	})
	require.ErrorIs(t, generationError(kafka.RebalanceInProgress), task.ErrGenerationOver)
	for _, passing := range []error{kafka.NotCoordinatorForGroup, kafka.GroupCoordinatorNotAvailable,
		kafka.GroupLoadInProgress, context.DeadlineExceeded} {
		require.NotErrorIs(t, generationError(passing), task.ErrGenerationOver)
	}
}

func TestCommitIsSeenInTheGroup(t *testing.T) {
	eachKafka(t, func(t *testing.T, env groupEnv) {
		a := newLedger().start(t, "a", env.config(), nil)
		g := a.last(t)
		offsets := map[string]map[int]int64{env.topics[0]: {0: 7, 3: 9}, env.topics[2]: {5: 11}}
		require.NoError(t, g.Commit(t.Context(), offsets))
		res, err := env.client(t).OffsetFetch(t.Context(), &kafka.OffsetFetchRequest{GroupID: env.group,
			Topics: map[string][]int{env.topics[0]: {0, 3}, env.topics[2]: {5}}})
		require.NoError(t, err)
		got := map[string]map[int]int64{}
		for topic, partitions := range res.Topics {
			got[topic] = map[int]int64{}
			for _, p := range partitions {
				got[topic][p.Partition] = p.CommittedOffset
			}
		}
		require.Equal(t, offsets, got)
	})
}

// A member that has to wait for another's drain leaves all the same.
func TestCloseDoesNotWaitForARebalance(t *testing.T) {
	eachKafka(t, func(t *testing.T, env groupEnv) {
		l := newLedger()
		hold := make(chan struct{})
		var block sync.Once
		entered := make(chan struct{})
		slow := false
		var mu sync.Mutex
		l.start(t, "a", env.config(), func(*Generation) {
			mu.Lock()
			wait := slow
			mu.Unlock()
			if wait {
				block.Do(func() { close(entered); <-hold })
			}
		})
		defer close(hold)
		b := l.start(t, "b", env.config(), nil)
		l.await(t, map[string]int{"a": 3, "b": 3})
		mu.Lock()
		slow = true
		mu.Unlock()
		c := l.start(t, "c", env.config(), nil) // begins a rebalance, which a holds up
		<-entered
		l.await(t, map[string]int{"a": 3}) // b has finished, and waits to join again

		start := time.Now()
		require.NoError(t, b.leave())
		t.Logf("b left in %v", time.Since(start))
		assert.Less(t, time.Since(start), 2*time.Second)

		// c does not know its member id; nobody can leave for it.
		start = time.Now()
		require.ErrorIs(t, c.leave(), ErrNotLeft)
		t.Logf("c gave up in %v", time.Since(start))
		assert.Less(t, time.Since(start), 5*time.Second)
	})
}

func TestAFunctionThatReturnsDoesNotEndTheGeneration(t *testing.T) {
	env := embeddedGroup(t)
	m, err := NewMembership(env.config())
	require.NoError(t, err)
	g, err := m.Next(t.Context())
	require.NoError(t, err)
	g.Run(func(context.Context) {})
	ctx, cancel := context.WithTimeout(t.Context(), 5*env.config().HeartbeatInterval)
	defer cancel()
	_, err = m.Next(ctx)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.NoError(t, g.Heartbeat(t.Context()))
	require.NoError(t, m.Close())
	called := false
	g.Run(func(ctx context.Context) { called = true; assert.Error(t, ctx.Err()) })
	assert.True(t, called, "with an ended context")
}

func TestAddedPartitionsBeginAGeneration(t *testing.T) {
	eachKafka(t, func(t *testing.T, env groupEnv) {
		l := newLedger()
		cfg := env.config()
		cfg.WatchInterval = 100 * time.Millisecond
		a := l.start(t, "a", cfg, nil)
		l.await(t, map[string]int{"a": 6})
		client := env.client(t)
		for i, topic := range env.topics {
			res, err := client.CreatePartitions(t.Context(), &kafka.CreatePartitionsRequest{
				Topics: []kafka.TopicPartitionsConfig{{Name: topic, Count: 8}}})
			require.NoError(t, err)
			require.NoError(t, res.Errors[topic])
			if i == 0 {
				l.await(t, map[string]int{"a": 6}) // the others have six still
			}
		}
		l.await(t, map[string]int{"a": 8})
		require.Eventually(t, func() bool { return a.m.PartitionCounts()[env.topics[2]] == 8 }, patience, 10*time.Millisecond)
	})
}

func TestAMissingTopicIsRefusedAndNotCreated(t *testing.T) {
	env := embeddedGroup(t, kfake.AllowAutoTopicCreation())
	cfg := env.config()
	missing, too := testenv.Unique(t, "missing"), testenv.Unique(t, "too")
	cfg.Topics = append(slices.Clone(cfg.Topics), missing, too)
	cfg.RequestTimeout = 200 * time.Millisecond
	m, err := NewMembership(cfg)
	require.NoError(t, err)
	_, err = m.Next(t.Context())
	require.ErrorIs(t, err, ErrTopicMissing)
	require.ErrorContains(t, err, missing+", "+too)
	require.Error(t, m.LastError())
	require.NoError(t, m.Close())
	meta, err := env.client(t).Metadata(t.Context(), &kafka.MetadataRequest{})
	require.NoError(t, err)
	for _, topic := range meta.Topics {
		assert.NotEqual(t, missing, topic.Name)
	}
}

func TestABrokerThatIsAwayIsWaitedFor(t *testing.T) {
	checkLeaks(t)
	m, err := NewMembership(MembershipConfig{Brokers: []string{"127.0.0.1:1"}, GroupID: "g", Topics: threeTopics,
		RequestTimeout: 50 * time.Millisecond, JoinBackoff: 10 * time.Millisecond})
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	_, err = m.Next(ctx)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.Error(t, m.LastError())
	require.NoError(t, m.Close())
}

// A broker that hangs takes connections and answers nothing; a proxy before one that is away takes them and closes them.
func TestABrokerThatTakesConnectionsOnlyIsPassedOver(t *testing.T) {
	for name, hold := range map[string]bool{"hangs": true, "closes": false} {
		t.Run(name, func(t *testing.T) {
			env := embeddedGroup(t)
			mute, err := net.Listen("tcp", "127.0.0.1:0")
			require.NoError(t, err)
			accepted := make(chan struct{})
			go func() {
				defer close(accepted)
				var held []net.Conn
				for {
					c, err := mute.Accept()
					if err != nil {
						break
					}
					if held = append(held, c); !hold {
						_ = c.Close()
					}
				}
				for _, c := range held {
					_ = c.Close()
				}
			}()
			t.Cleanup(func() { require.NoError(t, mute.Close()); <-accepted })
			cfg := env.config()
			cfg.Brokers = []string{mute.Addr().String(), env.addr}
			cfg.RequestTimeout = 300 * time.Millisecond
			l := newLedger()
			a := l.start(t, "a", cfg, nil)
			l.await(t, map[string]int{"a": 6})
			require.NoError(t, a.leave())
		})
	}
}

func TestAFaultThatStaysIsLoggedOnce(t *testing.T) {
	var said bytes.Buffer
	m, err := NewMembership(MembershipConfig{Brokers: []string{"a:1", "b:1"}, GroupID: "g", Topics: threeTopics,
		Logger: slog.New(slog.NewTextHandler(&said, nil))})
	require.NoError(t, err)
	defer func() { require.NoError(t, m.Close()) }()
	for port := range 10 {
		for _, to := range []string{"127.0.0.1", "127.0.0.2"} {
			m.passing(fmt.Errorf("asking: %w", &net.OpError{Op: "read", Net: "tcp", Source: &net.TCPAddr{Port: 1000 + port},
				Addr: &net.TCPAddr{IP: net.ParseIP(to), Port: 9092}, Err: syscall.ECONNRESET}))
		}
	}
	require.Equal(t, 1, strings.Count(said.String(), "cannot join"), "brokers that fail alike are one wait: %s", said.String())
	m.passing(io.EOF)
	require.Equal(t, 2, strings.Count(said.String(), "cannot join"))
	m.passing(nil)
	m.passing(io.EOF)
	m.passing(io.EOF)
	require.Equal(t, 3, strings.Count(said.String(), "cannot join"))
}

// A broker that has just started has no coordinator for a moment: that is no warning, unless it stays.
func TestAYoungBrokersFaultsAreNoWarnings(t *testing.T) {
	var said bytes.Buffer
	m, err := NewMembership(MembershipConfig{Brokers: []string{"a:1"}, GroupID: "g", Topics: threeTopics,
		Logger: slog.New(slog.NewTextHandler(&said, nil))})
	require.NoError(t, err)
	defer func() { require.NoError(t, m.Close()) }()
	fault := fmt.Errorf("joining: %w", kafka.GroupCoordinatorNotAvailable)
	m.passing(fault)
	require.Empty(t, said.String())
	require.ErrorIs(t, m.LastError(), kafka.GroupCoordinatorNotAvailable)
	m.mu.Lock()
	m.failing = m.failing.Add(-2 * time.Second)
	m.mu.Unlock()
	m.passing(fault)
	m.passing(fault)
	require.Equal(t, 1, strings.Count(said.String(), "cannot join"))
}

// With several brokers the coordinator is rarely the one that was asked first.
func TestHeartbeatsGoToTheCoordinator(t *testing.T) {
	env := embeddedGroup(t, kfake.NumBrokers(5))
	for i := range 8 {
		cfg := env.config()
		cfg.GroupID = fmt.Sprintf("%s-%d", env.group, i)
		a := newLedger().start(t, "a", cfg, nil)
		require.NoError(t, a.last(t).Heartbeat(t.Context()))
		require.NoError(t, a.leave())
	}
}

func TestMembershipWithSASL(t *testing.T) {
	checkLeaks(t)
	fake, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.EnableSASL(), kfake.Superuser("PLAIN", "user", "secret"),
		kfake.SeedTopics(6, threeTopics...), kfake.GroupMinSessionTimeout(time.Second))
	require.NoError(t, err)
	t.Cleanup(fake.Close)
	env := groupEnv{addr: fake.ListenAddrs()[0], topics: threeTopics, group: "g", session: 2 * time.Second}
	cfg := env.config()
	cfg.Dialer = &kafka.Dialer{SASLMechanism: plain.Mechanism{Username: "user", Password: "secret"}}
	a := newLedger().start(t, "a", cfg, nil)
	require.NoError(t, a.last(t).Heartbeat(t.Context()))
	require.NoError(t, a.leave())

	cfg.Dialer = &kafka.Dialer{SASLMechanism: plain.Mechanism{Username: "user", Password: "wrong"}}
	m, err := NewMembership(cfg)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, m.Close()) })
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	_, err = m.Next(ctx) // kfake drops the connection; a real broker says that the password is wrong
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.ErrorIs(t, m.LastError(), io.ErrUnexpectedEOF)
	require.False(t, isFinal(fmt.Errorf("dialing: %w", kafka.SASLAuthenticationFailed)), "users are waited for")
}

func TestAHeartbeatsAnswerThatMakesNoSenseIsAnError(t *testing.T) {
	r := &heartbeatRequest{clientID: "c", group: "g", generation: 3, member: "m"}
	for answer, want := range map[string]error{
		"\x00\x00\x00\x06rank\x00\x00": nil,
		"\x00\x00\x00\x06rank\x00\x16": kafka.IllegalGeneration,
		"\x00\x00\x00\x06rant\x00\x00": errHeartbeatAnswer,
		"\x00\x00\x00\x0arank\x00\x00": errHeartbeatAnswer,
		"\x00\x00\x00\x06rank\x00":     io.ErrUnexpectedEOF,
		"":                             io.EOF,
	} {
		res, err := r.RawExchange(struct {
			io.Reader
			io.Writer
		}{strings.NewReader(answer), io.Discard})
		if err == nil {
			err = res.(*heartbeatResponse).err
		}
		assert.ErrorIs(t, err, want, "%q", answer)
	}
	assert.Equal(t, "\x00\x00\x00\x15\x00\x0c\x00\x00rank\x00\x01c\x00\x01g\x00\x00\x00\x03\x00\x01m", string(r.bytes()))
}

func TestMembershipConfigFaultsAreAllSaid(t *testing.T) {
	_, err := NewMembership(MembershipConfig{SessionTimeout: time.Second, HeartbeatInterval: time.Minute, JoinBackoff: 1})
	for _, fault := range []string{"no broker", "group's name", "no topic", "third of the session", "join backoff"} {
		require.ErrorContains(t, err, fault)
	}
}
