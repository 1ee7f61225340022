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

// Broker is one of the cluster's, at the address that it advertises to clients.
type Broker struct {
	ID      int32
	Address string // host:port
}

// Brokers are those of the cluster now.
func (c *Client) Brokers(ctx context.Context) ([]Broker, error) {
	l, err := c.fetchMetadata(ctx)
	if err != nil {
		return nil, err
	}
	return l.brokers, nil
}

// Greet connects to an address as the worker's connections do, with TLS and SASL, asks which requests it speaks, and hangs up.
// It fails with task.ErrUnsupported where a worker needs a version that the broker does not speak.
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
	// Anybody may ask for versions, but not for brokers.
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

// Operations are our permitted operations on a topic or the group: bit n is operation n of Kafka's ACLs. A broker
// without ACLs permits all.
type Operations int32

// unknownOperations is a broker's answer if it was not asked, or does not know.
const unknownOperations = math.MinInt32

// Allow reports whether an operation is allowed; known is false where the broker does not report it.
func (o Operations) Allow(op kafka.ACLOperationType) (allowed, known bool) {
	return o&(1<<op) != 0, o != unknownOperations
}

// TopicOperations returns our permitted operations by topic, dead-letter topics included. Topics that are missing or
// hidden from us are left out.
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

// Denied are the topics of which the broker does not even say whether there are any.
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
	State      string // Kafka's word, such as Stable; Dead where there is none
	Members    []string
	Operations Operations
}

// groupExchange goes to the group's coordinator, which the Transport looks up.
type groupExchange struct {
	*exchange
	group string
}

func (x groupExchange) Group() string { return x.group }

var _ protocol.GroupMessage = groupExchange{}

// Group asks about the group. It fails with kafka.GroupAuthorizationFailed where we may not.
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

// MayFence checks without writing that we may use a partition's transactional id. It asks to abort a transaction of a
// producer that does not exist, which changes nothing. It fails with kafka.TransactionalIDAuthorizationFailed if we
// may not, and with other errors where there is no coordinator.
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
var ErrNoClock = errors.New("the cluster does not tell what time it is")

// clockVersion is the first version of DescribeQuorum that reports times.
const clockVersion = 1

// Clock is the time of the cluster's controller: that at which it says that it has last caught up with itself. It takes Kafka 3.3
// with KRaft, and the right Describe on the cluster: else it fails with ErrNoClock.
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

// speaksQuorum fails if we should not ask: where we lack the right, asking also leaves an error in the controllers'
// log.
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

// parseQuorum finds the entry of the leader itself.
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

// Stamped is the newest time that a broker has stamped a record of this partition's rankings with, of its last few; the zero time where
// there is none.
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
