package broker

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"sync"

	"github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"
)

type metadata struct {
	clusterID string
	brokers   []Broker
	topics    map[string]topicMetadata

	operations Operations // on the cluster, if asked for
}

type topicMetadata struct {
	code       kafka.Error // 0: none
	leaders    []leader    // by partition
	copies     []copies    // by partition
	internal   bool        // one of Kafka's own
	operations Operations  // if asked for
}

// leader is a partition's leading broker, -1 for none, and its leader epoch (KIP-320), -1 if not reported.
type leader struct{ broker, epoch int32 }

// copies counts a partition's replicas, and those in sync.
type copies struct{ all, inSync int }

// metadataCache keeps the newest metadata. Concurrent callers share one request.
type metadataCache struct {
	asking chan struct{} // holds a token unless a request is under way
	mu     sync.Mutex
	last   *metadata
}

func (l *metadataCache) init() {
	l.asking = make(chan struct{}, 1)
	l.asking <- struct{}{}
}

func (l *metadataCache) get() *metadata {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.last
}

func (l *metadataCache) set(n *metadata) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.last = n
}

func (l *metadataCache) forget() { l.set(nil) }

// outdated drops metadata that led to an error, unless newer ones have been read.
func (l *metadataCache) outdated(seen *metadata) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.last == seen {
		l.last = nil
	}
}

// metadata returns the cached metadata, or asks a broker if there are none.
func (c *Client) metadata(ctx context.Context) (*metadata, error) {
	if l := c.metadataCache.get(); l != nil {
		return l, nil
	}
	select {
	case <-c.metadataCache.asking:
		defer func() { c.metadataCache.asking <- struct{}{} }()
	case <-ctx.Done():
		return nil, fmt.Errorf("waiting for the cluster's metadata: %w", ctx.Err())
	}
	if l := c.metadataCache.get(); l != nil {
		return l, nil
	}
	return c.fetchMetadata(ctx)
}

// fetchMetadata asks a broker. kafka-go answers metadata requests that it recognises from its own cache.
func (c *Client) fetchMetadata(ctx context.Context) (*metadata, error) {
	l, err := c.askMetadata(ctx, false)
	if err == nil {
		c.metadataCache.set(l)
	}
	return l, err
}

// askMetadata asks for the metadata of our topics and further ones, optionally with our operations on cluster and topics.
func (c *Client) askMetadata(ctx context.Context, operations bool, further ...string) (*metadata, error) {
	return c.metadataBy(ctx, c.metadataRequest(operations, further...))
}

func (c *Client) askMetadataOf(ctx context.Context, broker int32) (*metadata, error) {
	return c.metadataBy(ctx, brokerExchange{c.metadataRequest(false), broker})
}

func (c *Client) metadataBy(ctx context.Context, m protocol.Message) (*metadata, error) {
	a, err := c.do(ctx, m)
	if err != nil {
		return nil, fmt.Errorf("asking for the cluster's metadata: %w", err)
	}
	return parseMetadata(a)
}

func (c *Client) metadataRequest(operations bool, further ...string) *exchange {
	names := append(c.topicNames(), further...)
	var ask byte
	if operations {
		ask = 1
	}
	return c.exchange(apiMetadata, func(version int16, b []byte) []byte {
		b = appendInt32(b, int32(len(names)))
		for _, n := range names {
			b = appendString(b, n)
		}
		b = append(b, 0) // do not create topics
		if version >= 8 {
			b = append(b, ask, ask) // authorized operations of the cluster, of the topics
		}
		return b
	})
}

func parseMetadata(a *answer) (*metadata, error) {
	r := reader{b: a.body}
	r.int32() // throttle time
	l := &metadata{topics: make(map[string]topicMetadata), operations: unknownOperations}
	for n := r.count(4 + 2 + 4 + 2); n > 0 && !r.bad; n-- {
		b := Broker{ID: r.int32(), Address: r.string()}
		b.Address = net.JoinHostPort(b.Address, strconv.Itoa(int(r.int32())))
		_ = r.string() // rack
		l.brokers = append(l.brokers, b)
	}
	l.clusterID = r.string()
	r.int32() // controller
	for n := r.count(2 + 2 + 1 + 4); n > 0 && !r.bad; n-- {
		code := r.int16()
		name := r.string()
		t := topicMetadata{code: kafka.Error(code), internal: r.int8() != 0, operations: unknownOperations}
		t.leaders, t.copies = r.leaders(a.version)
		if a.version >= 8 {
			t.operations = Operations(r.int32())
		}
		l.topics[name] = t
	}
	if a.version >= 8 {
		l.operations = Operations(r.int32())
	}
	if r.bad {
		return nil, fmt.Errorf("%w: metadata", errAnswer)
	}
	return l, nil
}

// leaders reads a topic's partitions, which come in any order.
func (r *reader) leaders(version int16) ([]leader, []copies) {
	n := r.count(2 + 4 + 4 + 4 + 4 + 4)
	leaders, lie := make([]leader, n), make([]copies, n)
	for i := range leaders {
		leaders[i] = leader{-1, -1}
	}
	for range n {
		r.int16() // error code: no leader, or a replica is missing, neither of which matters here
		p, l := r.int32(), leader{r.int32(), -1}
		if version >= 7 {
			l.epoch = r.int32()
		}
		var lists [3]int // replicas, in sync, offline
		for i := range lists {
			lists[i] = r.count(4)
			r.take(4 * lists[i])
		}
		if p < 0 || int(p) >= n {
			r.bad = true
			return nil, nil
		}
		leaders[p], lie[p] = l, copies{lists[0], lists[1]}
	}
	return leaders, lie
}

func (l *metadata) leader(topic string, partition int32) (leader, error) {
	t, ok := l.topics[topic]
	none := leader{-1, -1}
	switch {
	case !ok:
		return none, fmt.Errorf("finding the leader of %s: %w", partitionName(topic, partition), kafka.UnknownTopicOrPartition)
	case t.code != 0:
		return none, fmt.Errorf("finding the leader of %s: %w", partitionName(topic, partition), t.code)
	case int(partition) >= len(t.leaders) || partition < 0:
		return none, fmt.Errorf("finding the leader of %s, of %d partitions: %w", partitionName(topic, partition), len(t.leaders),
			kafka.UnknownTopicOrPartition)
	case t.leaders[partition].broker < 0:
		return none, fmt.Errorf("finding the leader of %s: %w", partitionName(topic, partition), kafka.LeaderNotAvailable)
	}
	return t.leaders[partition], nil
}

// leaderMoved reports whether an error can mean that the partition has a new leader, or that the topic was recreated.
func leaderMoved(err error) bool {
	var code kafka.Error
	if !errors.As(err, &code) {
		return true // the connection broke: perhaps because the broker is gone
	}
	switch code {
	case kafka.NotLeaderForPartition, kafka.LeaderNotAvailable, kafka.ReplicaNotAvailable, kafka.UnknownTopicOrPartition,
		kafka.FencedLeaderEpoch, kafka.UnknownLeaderEpoch, kafka.KafkaStorageError, kafka.BrokerNotAvailable,
		kafka.UnknownTopicID, kafka.InconsistentTopicID, kafka.OffsetNotAvailable, kafka.NetworkException:
		return true
	}
	return false
}
