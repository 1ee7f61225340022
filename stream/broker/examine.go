package broker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"

	"github.com/ranker-worker/ranker-worker/stream/event"
	"github.com/ranker-worker/ranker-worker/stream/task"
)

// Broker is a broker of the cluster, at the address that it advertises to clients.
type Broker struct {
	ID      int32
	Address string // host:port
}

func (c *Client) Brokers(ctx context.Context) ([]Broker, error) {
	l, err := c.fetchMetadata(ctx)
	if err != nil {
		return nil, err
	}
	return l.brokers, nil
}

// Greet connects to an address as the worker does, with TLS and SASL, asks for the supported requests, and disconnects. It fails with
// task.ErrUnsupported if the worker needs a version that the broker lacks.
func (c *Client) Greet(ctx context.Context, address string) error {
	d := kafka.Dialer{ClientID: c.o.ClientID, Timeout: c.o.DialTimeout, DialFunc: c.dialer().DialContext}
	conn, err := d.DialContext(ctx, "tcp", address)
	if err != nil {
		return err
	}
	defer conn.Close() // nothing was sent that could be lost
	if err := conn.SetDeadline(time.Now().Add(c.o.DialTimeout)); err != nil {
		return err
	}
	all, err := conn.ApiVersions()
	if err != nil {
		return err
	}
	speaks := make(map[protocol.ApiKey]kafka.ApiVersion, len(all))
	for _, v := range all {
		speaks[protocol.ApiKey(v.ApiKey)] = v
	}
	// Versions are public; the list of brokers needs a login.
	if _, err := conn.Brokers(); err != nil {
		return err
	}
	for _, a := range []api{apiProduce, apiFetch, apiListOffsets, apiMetadata, apiInitProducer} {
		if v, ok := speaks[a.key]; !ok || v.MaxVersion < a.min || v.MinVersion > a.max {
			return fmt.Errorf("%w: a worker needs %v in a version from %d to %d, and the broker speaks %d to %d", task.ErrUnsupported,
				a.key, a.min, a.max, v.MinVersion, v.MaxVersion)
		}
	}
	return nil
}

// Operations are our permitted operations on a topic or the group: bit n is operation n of Kafka's ACLs. Without ACLs all are permitted.
type Operations int32

// unknownOperations is a broker's answer if operations were not requested, or are unknown.
const unknownOperations = math.MinInt32

// Allow reports whether an operation is permitted; known is false if the broker does not report it.
func (o Operations) Allow(op kafka.ACLOperationType) (allowed, known bool) {
	return o&(1<<op) != 0, o != unknownOperations
}

// TopicOperations returns our permitted operations by topic, dead-letter topics included. Missing and hidden topics are left out.
func (c *Client) TopicOperations(ctx context.Context) (map[string]Operations, error) {
	l, err := c.askMetadata(ctx, true)
	if err != nil {
		return nil, err
	}
	all := make(map[string]Operations, len(l.topics))
	for name, t := range l.topics {
		if t.code == 0 {
			all[name] = t.operations
		}
	}
	return all, nil
}

// Denied returns the topics whose existence the broker does not reveal to us.
func (c *Client) Denied(ctx context.Context) (names []string, err error) {
	l, err := c.fetchMetadata(ctx)
	if err != nil {
		return nil, err
	}
	for _, name := range c.topicNames() {
		if l.topics[name].code == kafka.TopicAuthorizationFailed {
			names = append(names, name)
		}
	}
	return names, nil
}

// Group is the consumer group as its coordinator sees it.
type Group struct {
	State      string // Kafka's word, such as Stable; Dead if there is none
	Members    []string
	Operations Operations
}

type groupExchange struct {
	*exchange
	group string
}

func (x groupExchange) Group() string { return x.group }

var _ protocol.GroupMessage = groupExchange{}

// Group asks the coordinator. It fails with kafka.GroupAuthorizationFailed without the right.
func (c *Client) Group(ctx context.Context) (Group, error) {
	group := c.o.Group
	x := c.exchange(apiDescribeGroups, func(_ int16, b []byte) []byte {
		b = appendInt32(b, 1)
		b = appendString(b, group)
		return append(b, 1) // authorized operations
	})
	a, err := c.do(ctx, groupExchange{x, group})
	if err != nil {
		return Group{}, fmt.Errorf("asking about group %q: %w", group, err)
	}
	r := reader{b: a.body}
	r.int32() // throttle time
	if r.count(2) != 1 {
		return Group{}, fmt.Errorf("%w: describe groups", errAnswer)
	}
	code := kafka.Error(r.int16())
	_ = r.string()
	g := Group{State: r.string()}
	_, _ = r.string(), r.string() // protocol type and protocol
	for n := r.count(2 + 2 + 2 + 4 + 4); n > 0 && !r.bad; n-- {
		_ = r.string()
		if a.version >= 4 {
			_ = r.string() // instance
		}
		client, host := r.string(), r.string()
		g.Members = append(g.Members, client+host) // the host begins with a slash
		r.bytes()
		r.bytes()
	}
	g.Operations = Operations(r.int32())
	switch {
	case r.bad:
		return Group{}, fmt.Errorf("%w: describe groups", errAnswer)
	case code != 0:
		return Group{}, fmt.Errorf("asking about group %q: %w", group, code)
	}
	return g, nil
}

// MayFence checks without writing that we may use a partition's transactional id: it aborts a transaction of a producer that does not
// exist. It fails with kafka.TransactionalIDAuthorizationFailed without the right, and with other errors without a coordinator.
func (p *Partition) MayFence(ctx context.Context) error {
	id := p.TransactionalID()
	doing := fmt.Sprintf("asking for the coordinator of transactional id %q", id)
	res, err := p.c.Kafka().EndTxn(ctx, &kafka.EndTxnRequest{TransactionalID: id, ProducerID: -1, ProducerEpoch: -1})
	if err != nil {
		return fmt.Errorf("%s: %w", doing, err)
	}
	if errors.Is(res.Error, kafka.InvalidProducerIDMapping) {
		return nil
	}
	return fmt.Errorf("%s: %w", doing, cmp.Or(res.Error, errAnswer))
}

// ErrNoClock: the cluster does not report its time, or not to us.
var ErrNoClock = errors.New("the cluster does not report its time")

// clockVersion is the first version of DescribeQuorum that reports times.
const clockVersion = 1

// Clock returns the time at which the cluster's controller says that it last caught up with itself. It needs Kafka 3.3 with KRaft, and
// Describe on the cluster, else it fails with ErrNoClock.
func (c *Client) Clock(ctx context.Context) (time.Time, error) {
	if err := c.speaksQuorum(ctx); err != nil {
		return time.Time{}, err
	}
	version := int16(clockVersion)
	x := c.exchange(apiDescribeQuorum, func(_ int16, b []byte) []byte {
		w := writer{b: b, flexible: true}
		w.array(1)
		w.string("__cluster_metadata")
		w.array(1)
		w.b = appendInt32(w.b, 0)
		w.tags()
		w.tags()
		w.tags()
		return w.b
	})
	x.fixed = &version
	a, err := c.do(ctx, x)
	if err != nil {
		return time.Time{}, fmt.Errorf("asking for the controller's time: %w", err)
	}
	at, code, err := parseQuorum(a)
	if err == nil && code != 0 {
		err = fmt.Errorf("%w: %w", ErrNoClock, code)
	}
	if err != nil {
		return time.Time{}, err
	}
	return time.UnixMilli(at), nil
}

// speaksQuorum fails if we may not ask. Without the right, a request would also leave an error in the controllers' log.
func (c *Client) speaksQuorum(ctx context.Context) error {
	l, err := c.askMetadata(ctx, true)
	if err != nil {
		return err
	}
	if may, known := l.operations.Allow(kafka.ACLOperationTypeDescribe); known && !may {
		return fmt.Errorf("%w without the right Describe on the cluster", ErrNoClock)
	}
	res, err := c.Kafka().ApiVersions(ctx, &kafka.ApiVersionsRequest{})
	if err != nil {
		return fmt.Errorf("asking for the broker's versions: %w", err)
	}
	for _, k := range res.ApiKeys {
		if protocol.ApiKey(k.ApiKey) == apiDescribeQuorum.key && k.MaxVersion >= clockVersion {
			return nil
		}
	}
	return ErrNoClock
}

// parseQuorum finds the leader's own entry.
func parseQuorum(a *answer) (at event.Millis, code kafka.Error, err error) {
	r := reader{b: a.body}
	at = -1
	if code = kafka.Error(r.int16()); code != 0 {
		return at, code, nil
	}
	for n := r.array(true, 2); n > 0 && !r.bad; n-- {
		_ = r.compact()
		for m := r.array(true, 4+2+4+4+8); m > 0 && !r.bad; m-- {
			r.int32()
			code = kafka.Error(r.int16())
			leader := r.int32()
			r.int32() // its epoch
			r.int64() // the high watermark
			for range 2 {
				for k := r.array(true, 4+8+8+8); k > 0 && !r.bad; k-- {
					id := r.int32()
					r.int64() // log end
					r.int64() // last fetch
					caughtUp := r.int64()
					r.tags()
					if id == leader {
						at = caughtUp
					}
				}
			}
			r.tags()
		}
		r.tags()
	}
	if r.bad || at < 0 && code == 0 {
		return at, code, fmt.Errorf("%w: describe quorum", errAnswer)
	}
	return at, code, nil
}

// Stamped returns the newest broker timestamp among the last few records of this partition's rankings; the zero time without records.
func (p *Partition) Stamped(ctx context.Context, f *task.TopicFacts) (time.Time, error) {
	const last = 10
	newest := time.Time{}
	for at := max(f.LogStart, f.End-last); at < f.End; {
		got, err := p.Fetch(ctx, task.Fetch{Topic: event.Rankings, Offset: at, MaxBytes: 1 << 20})
		if err != nil {
			return newest, err
		}
		for i := range got.Records {
			newest = later(newest, got.Records[i].Timestamp)
		}
		for i := range got.Markers {
			newest = later(newest, got.Markers[i].Timestamp)
		}
		if got.Next <= at {
			break
		}
		at = got.Next
	}
	return newest, nil
}

func later(t time.Time, at event.Millis) time.Time {
	if u := time.UnixMilli(at); u.After(t) {
		return u
	}
	return t
}
