package stream

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	kafka "github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/sasl"

	"github.com/ranker-worker/ranker-worker/stream/session"
	"github.com/ranker-worker/ranker-worker/stream/wire"
)

// Errors of a Membership.
var (
	ErrMembershipClosed = errors.New("the membership is closed")
	// ErrTopicMissing: input topics do not exist. It occurs before the first join only.
	ErrTopicMissing = errors.New("topics do not exist")
	// ErrNotLeft: Close gave up before it had left the group, which will notice after the session timeout.
	ErrNotLeft = errors.New("the group was not left in time")
)

// MembershipConfig is the configuration of a Membership. Zero durations mean the default.
type MembershipConfig struct {
	Brokers []string
	TLS     *tls.Config    // nil: none
	SASL    sasl.Mechanism // nil: none
	GroupID string
	Topics  []string // input topics, whose partition numbers are divided
	// SessionTimeout is how long the group waits for a silent member before it reassigns its
	// partitions. Default 10 s; brokers accept 6 s to 30 min unless configured otherwise.
	SessionTimeout time.Duration
	// RebalanceTimeout is how long the group waits for a member to finish and join again. Default 30 s.
	RebalanceTimeout time.Duration
	// HeartbeatInterval bounds how soon a member notices a rebalance, and so how fast partitions are handed over. Default 300 ms.
	HeartbeatInterval time.Duration
	// RequestTimeout bounds each request to the coordinator; a join takes up to
	// RebalanceTimeout more. Default: half the session timeout, at most 5 s.
	RequestTimeout time.Duration
	// JoinBackoff is the pause after a failed join. Default 500 ms.
	JoinBackoff time.Duration
	// WatchInterval is the interval of checks of partition counts; a change ends the generation. Default 10 s.
	WatchInterval time.Duration
	// CloseTimeout bounds Close and Leave. Default 5 s.
	CloseTimeout time.Duration
	// Explain turns a connection error into an explanation; nil: errors stay as they are.
	Explain func(context.Context, error) error
	Logger  *slog.Logger // default: none
}

// maxGroupID keeps a group's name well inside every field that carries it.
const maxGroupID = 249

func (c *MembershipConfig) setDefaults() error {
	setDuration(&c.SessionTimeout, 10*time.Second)
	setDuration(&c.RebalanceTimeout, 30*time.Second)
	setDuration(&c.HeartbeatInterval, min(300*time.Millisecond, c.SessionTimeout/3))
	setDuration(&c.RequestTimeout, min(5*time.Second, c.SessionTimeout/2))
	setDuration(&c.JoinBackoff, 500*time.Millisecond)
	setDuration(&c.WatchInterval, 10*time.Second)
	setDuration(&c.CloseTimeout, 5*time.Second)
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Explain == nil {
		c.Explain = func(_ context.Context, err error) error { return err }
	}
	var faults []error
	fault := func(wrong bool, text string, args ...any) {
		if wrong {
			faults = append(faults, fmt.Errorf(text, args...))
		}
	}
	fault(len(c.Brokers) == 0, "no broker is named")
	fault(c.GroupID == "" || len(c.GroupID) > maxGroupID, "the group's name has to have 1 to %d bytes", maxGroupID)
	fault(len(c.Topics) == 0, "no topic is named")
	fault(c.HeartbeatInterval > c.SessionTimeout/3,
		"the heartbeat interval, %v, is above a third of the session timeout, %v", c.HeartbeatInterval, c.SessionTimeout)
	for name, d := range map[string]time.Duration{
		"session timeout": c.SessionTimeout, "rebalance timeout": c.RebalanceTimeout,
		"heartbeat interval": c.HeartbeatInterval, "request timeout": c.RequestTimeout,
		"join backoff": c.JoinBackoff, "watch interval": c.WatchInterval, "close timeout": c.CloseTimeout,
	} {
		fault(d < time.Millisecond, "the %s, %v, is below 1ms", name, d)
	}
	return errors.Join(faults...)
}

func setDuration(d *time.Duration, byDefault time.Duration) {
	if *d == 0 {
		*d = byDefault
	}
}

// Membership is this process's membership of a consumer group, over kafka.ConsumerGroup: one generation after the other, until Close.
//
// It owns kafka-go's goroutines, from the first Next until Close, and those of its connections.
type Membership struct {
	cfg       MembershipConfig
	balancer  *Balancer
	dialer    *trackedDialer
	sessions  *session.Dialer // over dialer
	transport *kafka.Transport
	shut      context.CancelFunc // ends the transport's goroutines
	client    *kafka.Client
	log       *slog.Logger

	mu      sync.Mutex
	group   *kafka.ConsumerGroup // nil before the first Next, and between two attempts to join
	first   int                  // index of the broker that is asked first
	closed  bool
	member  string         // the last member id
	counts  map[string]int // partitions by topic, as last seen
	lastErr error
	failing time.Time // time of the first fault since the last success; zero: none
	waits   *waits
	start   time.Time // origin of the times of waits
}

// NewMembership checks the configuration. It does not connect; Next does.
func NewMembership(cfg MembershipConfig) (*Membership, error) {
	if err := cfg.setDefaults(); err != nil {
		return nil, fmt.Errorf("membership of group %q: %w", cfg.GroupID, err)
	}
	m := &Membership{cfg: cfg, log: cfg.Logger.With("group", cfg.GroupID), start: time.Now(), dialer: newTrackedDialer()}
	m.waits = newWaits(m.log)
	m.balancer = NewBalancer(func(counts map[string]int) {
		cfg.Logger.Error("topics differ in their number of partitions; only the numbers that all have are divided", "counts", counts)
	})
	m.sessions = &session.Dialer{Dial: m.dialer.DialContext, TLS: cfg.TLS, SASL: cfg.SASL, Timeout: cfg.RequestTimeout}
	lifetime, shut := context.WithCancel(context.Background())
	m.shut = shut
	m.transport = &kafka.Transport{
		Context: lifetime,
		Dial:    m.sessions.DialContext, DialTimeout: cfg.RequestTimeout, ClientID: wire.ClientID,
		// The watch over partition counts uses the transport's metadata, which must be fresh.
		MetadataTopics: cfg.Topics, MetadataTTL: min(2*time.Second, cfg.WatchInterval),
	}
	m.client = &kafka.Client{Addr: kafka.TCP(cfg.Brokers...), Timeout: cfg.RequestTimeout, Transport: m.transport}
	return m, nil
}

// Next waits until we are a member of the next generation, after the present one has ended and its function has returned.
// Transient faults (a broker is away, a rebalance was cut short, a user is unknown or has no rights) are logged, shown by
// LastError, and retried. It returns faults that only a change of ours can mend, the end of ctx, or ErrMembershipClosed.
func (m *Membership) Next(ctx context.Context) (*Generation, error) {
	group, err := m.join(ctx)
	if err != nil {
		return nil, err
	}
	for {
		gen, err := group.Next(ctx)
		switch {
		case err == nil:
			m.passing(nil)
			return m.begin(gen), nil
		case ctx.Err() != nil:
			return nil, fmt.Errorf("waiting for a generation of group %q: %w", m.cfg.GroupID, ctx.Err())
		case errors.Is(err, kafka.ErrGroupClosed):
			return nil, ErrMembershipClosed
		case isFinal(err):
			return nil, fmt.Errorf("joining group %q: %w", m.cfg.GroupID, err)
		}
		m.passing(err)
		if errors.Is(err, kafka.RebalanceInProgress) || len(m.cfg.Brokers) == 1 {
			continue // kafka-go asks once more
		}
		if group, err = m.askAnother(ctx, group); err != nil {
			return nil, err
		}
	}
}

// askAnother starts to join again, with the next broker, after a fault, when kafka-go has left the group. kafka-go asks the first
// broker that accepts a connection for the coordinator, again and again; that may be a broker that hangs or is cut off, or a proxy.
func (m *Membership) askAnother(ctx context.Context, group *kafka.ConsumerGroup) (*kafka.ConsumerGroup, error) {
	m.mu.Lock()
	if m.group == group {
		m.group = nil
	}
	m.first++
	m.mu.Unlock()
	_ = group.Close() // always nil
	select {
	case <-ctx.Done():
		return nil, fmt.Errorf("waiting for a generation of group %q: %w", m.cfg.GroupID, ctx.Err())
	case <-time.After(m.cfg.JoinBackoff):
	}
	return m.join(ctx)
}

// LastError returns why the group cannot be joined at present; nil if all is well.
func (m *Membership) LastError() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.lastErr
}

// join starts kafka-go's part at its first call, once the topics are known to exist. kafka-go's metadata requests create missing topics,
// with the broker's default partition count, if the broker allows it.
func (m *Membership) join(ctx context.Context) (*kafka.ConsumerGroup, error) {
	for {
		m.mu.Lock()
		group, closed, seen := m.group, m.closed, m.counts != nil
		if group == nil && seen && !closed {
			var err error
			if m.group, err = m.newGroup(); err != nil {
				m.mu.Unlock()
				return nil, fmt.Errorf("joining group %q: %w", m.cfg.GroupID, err)
			}
			group = m.group
		}
		m.mu.Unlock()
		if closed {
			return nil, ErrMembershipClosed
		}
		if group != nil {
			return group, nil
		}
		if err := m.Look(ctx); err != nil {
			return nil, err
		}
	}
}

// Look waits until the topics are seen, and later returns at once. A new topic may be
// unknown to some brokers: it is missing only if it still is after RequestTimeout.
func (m *Membership) Look(ctx context.Context) error {
	if m.PartitionCounts() != nil {
		return nil
	}
	for start := time.Now(); ; {
		counts, err := m.partitionCounts(ctx)
		if err == nil {
			m.mu.Lock()
			m.counts = counts
			m.mu.Unlock()
			return nil
		}
		if isFinal(err) && !(errors.Is(err, ErrTopicMissing) && time.Since(start) < m.cfg.RequestTimeout) {
			return fmt.Errorf("looking for the topics of group %q: %w", m.cfg.GroupID, err)
		}
		m.passing(m.cfg.Explain(ctx, err))
		select {
		case <-ctx.Done():
			return fmt.Errorf("looking for the topics of group %q: %w", m.cfg.GroupID, errors.Join(ctx.Err(), err))
		case <-time.After(m.cfg.JoinBackoff):
		}
	}
}

// dialTimeout bounds connecting, TLS and login of kafka-go's part.
const dialTimeout = 10 * time.Second

// newGroup starts kafka-go's part; mu is held.
func (m *Membership) newGroup() (*kafka.ConsumerGroup, error) {
	first := m.first % len(m.cfg.Brokers)
	return kafka.NewConsumerGroup(kafka.ConsumerGroupConfig{
		ID: m.cfg.GroupID, Brokers: slices.Concat(m.cfg.Brokers[first:], m.cfg.Brokers[:first]), Topics: m.cfg.Topics,
		Dialer:            &kafka.Dialer{Timeout: dialTimeout, ClientID: wire.ClientID, DialFunc: m.sessions.DialContext},
		GroupBalancers:    []kafka.GroupBalancer{m.balancer},
		HeartbeatInterval: m.cfg.HeartbeatInterval, SessionTimeout: m.cfg.SessionTimeout,
		RebalanceTimeout: m.cfg.RebalanceTimeout, JoinGroupBackoff: m.cfg.JoinBackoff, Timeout: m.cfg.RequestTimeout,
		Logger: kafkaLogger{m.log}, ErrorLogger: kafkaLogger{m.log},
	})
}

// isYoung reports whether a fault comes from a new broker or topic, or from a rebalance.
func isYoung(err error) bool {
	return slices.ContainsFunc([]error{
		ErrTopicMissing, kafka.GroupCoordinatorNotAvailable, kafka.NotCoordinatorForGroup, kafka.GroupLoadInProgress,
		kafka.LeaderNotAvailable, kafka.NotLeaderForPartition, kafka.UnknownTopicOrPartition, kafka.RebalanceInProgress,
	}, func(fault error) bool { return errors.Is(err, fault) })
}

// passing notes a transient fault, or with nil its end. It is logged at once, unless isYoung.
func (m *Membership) passing(err error) {
	const young = 2 * time.Second
	m.mu.Lock()
	defer m.mu.Unlock()
	m.lastErr = err
	if err == nil {
		m.failing = time.Time{}
		m.waits.forget(membershipWaits)
		return
	}
	now := time.Now()
	if m.failing.IsZero() {
		m.failing = now
	}
	if isYoung(err) && now.Sub(m.failing) < young {
		return
	}
	m.waits.note(now.Sub(m.start), membershipWaits, "", nil, err)
	m.waits.look(now.Sub(m.start))
}

func (m *Membership) partitionCounts(ctx context.Context) (map[string]int, error) {
	ctx, cancel := context.WithTimeout(ctx, m.cfg.RequestTimeout)
	defer cancel()
	meta, err := m.client.Metadata(ctx, &kafka.MetadataRequest{Topics: m.cfg.Topics})
	if err != nil {
		return nil, fmt.Errorf("asking %s for the topics: %w", strings.Join(m.cfg.Brokers, ", "), err)
	}
	counts := make(map[string]int, len(m.cfg.Topics))
	for _, topic := range meta.Topics {
		if topic.Error != nil && !errors.Is(topic.Error, kafka.UnknownTopicOrPartition) {
			return nil, fmt.Errorf("topic %s: %w", topic.Name, topic.Error)
		}
		counts[topic.Name] = len(topic.Partitions)
	}
	var missing []string
	for _, topic := range m.cfg.Topics {
		if counts[topic] == 0 {
			missing = append(missing, topic)
		}
	}
	if len(missing) > 0 {
		return nil, fmt.Errorf("%w: %s", ErrTopicMissing, strings.Join(missing, ", "))
	}
	return counts, nil
}

// PartitionCounts returns the topics' partition counts as last seen; nil before the first Next.
func (m *Membership) PartitionCounts() map[string]int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return maps.Clone(m.counts)
}

// isFinal reports whether waiting cannot mend a fault. Users and rights are
// waited for: they may be granted later, and a new broker may not know them yet.
func isFinal(err error) bool {
	return slices.ContainsFunc([]error{
		ErrTopicMissing, kafka.UnsupportedSASLMechanism, kafka.InconsistentGroupProtocol,
		kafka.InvalidSessionTimeout, kafka.InvalidGroupId, kafka.InvalidTopic, kafka.UnsupportedVersion,
		kafka.GroupMaxSizeReached,
	}, func(fault error) bool { return errors.Is(err, fault) })
}

// Close ends the generation and leaves the group, so that another member takes over at once, even during a rebalance. It gives up
// after CloseTimeout, or closeForced after force is done, with ErrNotLeft. No Next or Run may be under way.
func (m *Membership) Close(force context.Context) error {
	m.mu.Lock()
	group, closed := m.group, m.closed
	m.closed = true
	m.mu.Unlock()
	if closed {
		return nil
	}
	defer func() {
		m.dialer.close()
		m.transport.CloseIdleConnections()
		m.shut()
	}()
	return m.end(force, group)
}

// Leave leaves the group as Close does; Next joins it again. No Next may be under way.
func (m *Membership) Leave(force context.Context) error {
	m.mu.Lock()
	group := m.group
	m.group = nil
	m.mu.Unlock()
	return m.end(force, group)
}

const (
	// closeGrace is how long kafka-go may take to leave by itself. It cannot
	// while its join waits for other members, up to the rebalance timeout.
	closeGrace  = 500 * time.Millisecond
	closeForced = time.Second // has room for a request after closeGrace
)

// end waits for kafka-go to leave, leaves in its place if it cannot, and gives up in time.
func (m *Membership) end(force context.Context, group *kafka.ConsumerGroup) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(force), m.cfg.CloseTimeout)
	defer cancel()
	defer context.AfterFunc(force, func() { time.AfterFunc(closeForced, cancel) })()
	if group == nil {
		_, err := m.leave(ctx)
		return err
	}
	left := make(chan struct{})
	go func() {
		defer close(left)
		_ = group.Close() // always nil
	}()
	tick := time.NewTicker(closeGrace)
	defer tick.Stop()
	for {
		select {
		case <-left:
			// It has left in most cases, but not between two generations, and it does not say.
			_, err := m.leave(ctx)
			return err
		case <-tick.C:
		case <-ctx.Done():
		}
		were, _ := m.leave(ctx)
		if !were && ctx.Err() == nil {
			continue
		}
		m.dialer.close() // kafka-go's wait no longer concerns us
		<-left
		m.dialer.reopen()
		if were {
			return nil
		}
		return fmt.Errorf("group %q: %w", m.cfg.GroupID, ErrNotLeft)
	}
}

// leave leaves the group as the last known member, and reports whether we were
// one until now. Having left before, or having no member id, is no error.
func (m *Membership) leave(ctx context.Context) (were bool, err error) {
	m.mu.Lock()
	member := m.member
	m.mu.Unlock()
	if member == "" {
		return false, nil
	}
	res, err := m.client.LeaveGroup(ctx, &kafka.LeaveGroupRequest{
		GroupID: m.cfg.GroupID, Members: []kafka.LeaveGroupRequestMember{{ID: member}},
	})
	if err == nil {
		err = res.Error
		for _, answer := range res.Members {
			err = errors.Join(err, answer.Error)
		}
	}
	switch {
	case err == nil:
		return true, nil
	case errors.Is(err, kafka.UnknownMemberId):
		return false, nil
	}
	return false, fmt.Errorf("leaving group %q: %w: %w", m.cfg.GroupID, ErrNotLeft, err)
}

// trackedDialer tracks its open connections, so that all can be cut at once: kafka-go's wait for other members has no context.
type trackedDialer struct {
	dial func(ctx context.Context, network, address string) (net.Conn, error)

	mu       sync.Mutex
	open     map[*trackedConn]struct{}
	lifetime context.Context // of connections and dials
	end      context.CancelFunc
}

var errCut = errors.New("the membership's connections were cut")

func newTrackedDialer() *trackedDialer {
	d := &trackedDialer{dial: new(net.Dialer).DialContext, open: map[*trackedConn]struct{}{}}
	d.reopen()
	return d
}

// DialContext dials. It fails after close.
func (d *trackedDialer) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	d.mu.Lock()
	lifetime := d.lifetime
	d.mu.Unlock()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(lifetime, cancel)()
	conn, err := d.dial(ctx, network, address)
	if err != nil {
		return nil, err
	}
	c := &trackedConn{Conn: conn, dialer: d}
	d.mu.Lock()
	defer d.mu.Unlock()
	if lifetime.Err() != nil {
		_ = conn.Close()
		return nil, errCut
	}
	d.open[c] = struct{}{}
	return c, nil
}

// close cuts all connections, and prevents new ones until reopen.
func (d *trackedDialer) close() {
	d.mu.Lock()
	d.end()
	open := d.open
	d.open = map[*trackedConn]struct{}{}
	d.mu.Unlock()
	for c := range open {
		_ = c.Conn.Close()
	}
}

func (d *trackedDialer) reopen() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.lifetime, d.end = context.WithCancel(context.Background())
}

type trackedConn struct {
	net.Conn
	dialer *trackedDialer
}

func (c *trackedConn) Close() error {
	c.dialer.mu.Lock()
	delete(c.dialer.open, c)
	c.dialer.mu.Unlock()
	return c.Conn.Close()
}

// kafkaLogger passes kafka-go's log on at level debug: errors that matter are also returned, and logged by their handlers.
type kafkaLogger struct{ log *slog.Logger }

// Printf implements kafka.Logger.
func (l kafkaLogger) Printf(format string, args ...any) {
	if l.log.Enabled(context.Background(), slog.LevelDebug) {
		l.log.Debug("kafka-go: " + strings.TrimSpace(fmt.Sprintf(format, args...)))
	}
}
