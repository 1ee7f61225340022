package broker

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/sasl"

	"github.com/ranker-worker/ranker-worker/stream/event"
	"github.com/ranker-worker/ranker-worker/stream/session"
	"github.com/ranker-worker/ranker-worker/stream/task"
	"github.com/ranker-worker/ranker-worker/stream/wire"
)

type Options struct {
	Brokers []string // host:port, at least one
	TLS     *tls.Config
	SASL    sasl.Mechanism // see NewSASL

	Group     string               // the consumer group; transactional ids are <Group>-<partition>
	Topics    [event.Topics]string // an empty selections topic is not configured
	DLQSuffix string               // a topic's dead letters go to its name with this suffix

	// MaxValue is the length up to which Fetch returns an input record's key or value in full, in bytes; 0: 64 MiB. A longer one is cut to
	// MaxValue+1 bytes and marked.
	MaxValue int
	// Traces makes Fetch return the traces in input records' headers. Without it headers are skipped.
	Traces bool
	// Contents reads input records whose values cannot be read alone; nil: none.
	Contents Contents
}

const (
	defaultMaxValue = 64 << 20
	// dialTimeout bounds connecting, TLS and SASL together.
	dialTimeout = 5 * time.Second

	// metadataTTL bounds the age of the Transport's list of brokers. Leaders come from metadataCache instead.
	metadataTTL = 2 * time.Second
	// metadataAge bounds the time for which a deposed leader is followed that still answers.
	metadataAge = 30 * time.Second
	// idleTimeout closes unused connections long before a broker does (connections.max.idle.ms, 10 min).
	idleTimeout = time.Minute

	// After resetAfter failures in a row all connections are dropped, at most once per resetPause.
	resetAfter = 5
	resetPause = time.Second
)

var ErrClosed = errors.New("the Kafka client is closed")

// Client is a Kafka client, safe for concurrent use.
type Client struct {
	o    Options
	addr net.Addr
	dlq  [event.Inputs]string

	transport     atomic.Pointer[kafka.Transport]
	metadataCache metadataCache

	watch struct {
		sync.Mutex
		failures int
		resetAt  time.Time
	}
	ctx      context.Context // ends with Close
	cancel   context.CancelFunc
	requests sync.Pool // *[]byte: requests that are over
}

// New does not connect.
func New(o Options) (*Client, error) {
	if len(o.Brokers) == 0 {
		return nil, errors.New("no brokers given")
	}
	if o.Group == "" {
		return nil, errors.New("no consumer group given")
	}
	for t, name := range o.Topics {
		if name == "" && event.Topic(t) != event.Selections {
			return nil, fmt.Errorf("no name given for topic %d", t)
		}
	}
	if o.MaxValue <= 0 {
		o.MaxValue = defaultMaxValue
	}
	c := &Client{o: o, addr: kafka.TCP(o.Brokers...)}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	c.metadataCache.asking, c.metadataCache.maxAge = make(chan struct{}, 1), metadataAge
	for t := range c.dlq {
		if o.Topics[t] != "" {
			c.dlq[t] = o.Topics[t] + o.DLQSuffix
		}
	}
	c.transport.Store(c.newTransport())
	return c, nil
}

func (c *Client) newTransport() *kafka.Transport {
	return &kafka.Transport{
		Dial:           c.dialer().DialContext,
		DialTimeout:    dialTimeout,
		IdleTimeout:    idleTimeout,
		MetadataTTL:    metadataTTL,
		MetadataTopics: c.topicNames(),
		ClientID:       wire.ClientID,
		Context:        c.ctx,
	}
}

// dialer does TLS and SASL itself.
func (c *Client) dialer() *session.Dialer {
	return &session.Dialer{
		Dial: (&net.Dialer{Timeout: dialTimeout, KeepAlive: 15 * time.Second}).DialContext,
		TLS:  c.o.TLS, SASL: c.o.SASL, Timeout: dialTimeout,
	}
}

// topicNames returns all topics and their dead-letter topics.
func (c *Client) topicNames() []string {
	var names []string
	for t, name := range c.o.Topics {
		if name == "" {
			continue
		}
		names = append(names, name)
		if t < event.Inputs {
			names = append(names, c.dlq[t])
		}
	}
	return names
}

// Topic returns the configured name of a topic; empty if there is none.
func (c *Client) Topic(t event.Topic) string {
	if int(t) >= len(c.o.Topics) {
		return ""
	}
	return c.o.Topics[t]
}

// Kafka returns kafka-go's client over the same connections, for requests that this package lacks. Its metadata are those of the configured
// topics, at most two seconds old.
func (c *Client) Kafka() *kafka.Client {
	return &kafka.Client{Addr: c.addr, Transport: watchedTransport{c}}
}

// Reset drops all connections and the cached metadata. Requests in flight keep their connections until they end.
func (c *Client) Reset() {
	c.watch.Lock()
	c.watch.failures = 0
	c.watch.resetAt = time.Now()
	c.watch.Unlock()
	c.metadataCache.last.Store(nil)
	c.transport.Swap(c.newTransport()).CloseIdleConnections()
}

// Close drops all connections. Requests in flight end by their deadlines; later ones fail with ErrClosed.
func (c *Client) Close() {
	c.cancel()
	c.transport.Load().CloseIdleConnections()
}

// watchedTransport wraps the current transport with the watchdog. After a broker's restart, old connections may be dead, and each fails
// only by its own timeout.
type watchedTransport struct{ c *Client }

func (w watchedTransport) RoundTrip(ctx context.Context, addr net.Addr, req kafka.Request) (kafka.Response, error) {
	c := w.c
	if c.ctx.Err() != nil {
		return nil, ErrClosed
	}
	transport := c.transport.Load()
	res, err := transport.RoundTrip(ctx, addr, req)
	if transport != c.transport.Load() { // a Reset may have come before this request made connections
		transport.CloseIdleConnections()
	}
	switch {
	case err == nil:
		c.watch.Lock()
		c.watch.failures = 0
		c.watch.Unlock()
	case errors.Is(err, context.Canceled) || errors.Is(err, task.ErrUnsupported):
	default:
		c.failed()
	}
	return res, err
}

func (c *Client) failed() {
	c.watch.Lock()
	c.watch.failures++
	reset := c.watch.failures >= resetAfter && time.Since(c.watch.resetAt) >= resetPause
	c.watch.Unlock()
	if reset {
		c.Reset()
	}
}

// to carries kmsg's requests to a destination; nil: any broker.
func (c *Client) to(d wire.Destination) wire.Route {
	return wire.Route{Transport: watchedTransport{c}, Addr: c.addr, To: d}
}

// Partition is one partition number over all topics.
type Partition struct {
	c      *Client
	number int32

	mu     sync.Mutex
	epochs [event.Topics]int32 // of the leaders whose logs were last checked; -1: none
	read   [event.Topics]position
}

// position is an offset up to which a log was read, and the epoch of the leader that appended the batch before it; -1: nothing was read.
type position struct {
	next  int64
	epoch int32
}

func (c *Client) Partition(number int32) *Partition {
	p := &Partition{c: c, number: number}
	for t := range p.epochs {
		p.epochs[t], p.read[t].epoch = -1, -1
	}
	return p
}

func partitionName(topic string, partition int32) string {
	return fmt.Sprintf("%s[%d]", topic, partition)
}
