package stream

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	kafka "github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/sasl/plain"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/ranker-worker/ranker-worker/internal/test/testenv"
	"github.com/ranker-worker/ranker-worker/stream/task"
)

func TestMembersShareNumbersAndALeaverHandsOverAtOnce(t *testing.T) {
	eachKafka(t, func(t *testing.T, env groupEnv) {
		env.session = 2 * patience // a handover that waits for it is not in time
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
		for p, name := range before {
			if name == "b" {
				assert.Equal(t, "b", after[p])
			}
		}
		require.NoError(t, b.leave())
		require.NoError(t, b.m.Close(context.Background()), "twice")
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
		t.Cleanup(func() { _ = m.Close(context.Background()) })
		ctx, stop := context.WithTimeout(t.Context(), 2*patience)
		defer stop()
		require.NoError(t, m.Leave(t.Context()), "before it has joined")
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
			require.NoError(t, m.Leave(t.Context()))
			l.await(t, map[string]int{"other": 6})
		}
		require.NoError(t, m.Leave(t.Context()), "twice")
		require.NoError(t, m.Close(context.Background()))
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

// outlastSession returns when a member that has joined since, and has sent no heartbeat, is out of its group.
func (e groupEnv) outlastSession(t *testing.T) {
	t.Helper()
	silent := e
	silent.group += "-silent"
	l := newLedger()
	w := l.start(t, "silent", silent.config(), nil)
	l.await(t, map[string]int{"silent": 6})
	w.m.dialer.close()
	client := e.client(t)
	require.Eventually(t, func() bool {
		res, err := client.DescribeGroups(t.Context(), &kafka.DescribeGroupsRequest{GroupIDs: []string{silent.group}})
		return err == nil && len(res.Groups) == 1 && len(res.Groups[0].Members) == 0
	}, patience, 20*time.Millisecond)
}

// kafka-go sends no heartbeats while a generation ends; a drain longer than the session timeout needs ours.
func TestADrainLongerThanTheSessionTimeoutKeepsTheMembership(t *testing.T) {
	eachKafka(t, func(t *testing.T, env groupEnv) {
		l := newLedger()
		var once sync.Once
		result, drains, outlasted := make(chan error, 1), make(chan struct{}), make(chan struct{})
		goOn := sync.OnceFunc(func() { close(outlasted) })
		defer goOn()
		a := l.start(t, "a", env.config(), func(g *Generation) {
			once.Do(func() {
				close(drains)
				<-outlasted
				assert.ErrorIs(t, g.Heartbeat(context.Background()), task.ErrGenerationOver)
				// The last work is committed while the others wait for us.
				result <- g.Commit(context.Background(), map[string]map[int]int64{env.topics[0]: {0: 42}})
			})
		})
		l.await(t, map[string]int{"a": 6})
		member := a.last(t).MemberID()
		l.start(t, "b", env.config(), nil)
		<-drains
		env.outlastSession(t)
		goOn()
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

// cutConn drops all that it sends while the network is away.
type cutConn struct {
	net.Conn
	away *atomic.Bool
}

func (c cutConn) Write(b []byte) (int, error) {
	if c.away.Load() {
		return len(b), nil
	}
	return c.Conn.Write(b)
}

// TestLeavingIsBoundedWhileBrokersDropPackets: dials and requests under way end with it.
func TestLeavingIsBoundedWhileBrokersDropPackets(t *testing.T) {
	forced, force := context.WithCancel(t.Context())
	force()
	for name, test := range map[string]struct {
		limit time.Duration
		leave func(m *Membership) error
	}{
		"a close":        {500 * time.Millisecond, func(m *Membership) error { return m.Close(t.Context()) }},
		"a forced close": {time.Minute, func(m *Membership) error { return m.Close(forced) }},
		"a while":        {500 * time.Millisecond, func(m *Membership) error { return m.Leave(t.Context()) }},
	} {
		t.Run(name, func(t *testing.T) {
			env := embeddedGroup(t)
			var away atomic.Bool
			cfg := env.config()
			cfg.CloseTimeout = test.limit
			cfg.Brokers = []string{env.addr, env.addr, env.addr}
			m, err := NewMembership(cfg)
			require.NoError(t, err)
			m.dialer.dial = func(ctx context.Context, network, address string) (net.Conn, error) {
				if away.Load() {
					<-ctx.Done()
					return nil, ctx.Err()
				}
				c, err := (&net.Dialer{}).DialContext(ctx, network, address)
				return cutConn{c, &away}, err
			}
			t.Cleanup(func() { _ = m.Close(forced) })
			g, err := m.Next(t.Context())
			require.NoError(t, err)
			g.Run(func(context.Context) { away.Store(true) })
			start := time.Now()
			require.ErrorIs(t, test.leave(m), ErrNotLeft)
			require.Less(t, time.Since(start), 3*time.Second)
			away.Store(false)
			if name == "a while" {
				_, err = m.Next(t.Context())
				require.NoError(t, err)
			}
		})
	}
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
	require.NoError(t, m.Close(context.Background()))
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
	require.NoError(t, m.Close(context.Background()))
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
	require.NoError(t, m.Close(context.Background()))
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
	defer func() { require.NoError(t, m.Close(context.Background())) }()
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
	defer func() { require.NoError(t, m.Close(context.Background())) }()
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
	cfg.SASL = plain.Mechanism{Username: "user", Password: "secret"}
	a := newLedger().start(t, "a", cfg, nil)
	require.NoError(t, a.last(t).Heartbeat(t.Context()))
	require.NoError(t, a.leave())

	cfg.SASL = plain.Mechanism{Username: "user", Password: "wrong"}
	m, err := NewMembership(cfg)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, m.Close(context.Background())) })
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan error, 1)
	go func() {
		_, err := m.Next(ctx)
		ended <- err
	}()
	// kfake drops the connection; a real broker says that the password is wrong. A request that its context cuts off has another error.
	require.Eventually(t, func() bool { return errors.Is(m.LastError(), io.EOF) }, patience, time.Millisecond)
	cancel()
	require.ErrorIs(t, <-ended, context.Canceled)
	require.False(t, isFinal(fmt.Errorf("dialing: %w", kafka.SASLAuthenticationFailed)), "users are waited for")
}

func TestMembershipConfigFaultsAreAllSaid(t *testing.T) {
	_, err := NewMembership(MembershipConfig{SessionTimeout: time.Second, HeartbeatInterval: time.Minute, JoinBackoff: 1})
	for _, fault := range []string{"no broker", "group's name", "no topic", "third of the session", "join backoff"} {
		require.ErrorContains(t, err, fault)
	}
}
