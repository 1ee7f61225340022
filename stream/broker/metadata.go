package broker

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/ranker-worker/ranker-worker/stream/wire"
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
	operations Operations  // if asked for
}

// leader is a partition's leading broker, -1 for none, and its leader epoch (KIP-320), -1 if not reported.
type leader struct{ broker, epoch int32 }

// copies counts a partition's replicas, and those in sync.
type copies struct{ all, inSync int }

// metadataCache keeps the newest metadata. Concurrent callers share one request.
type metadataCache struct {
	asking chan struct{} // has room for one, and is full while a request is under way
	last   atomic.Pointer[metadata]
	maxAge time.Duration
	due    atomic.Pointer[time.Time] // when to read them again, by the monotonic clock; set before last
}

// outdated drops metadata that led to an error, unless newer ones have been read.
func (l *metadataCache) outdated(seen *metadata) { l.last.CompareAndSwap(seen, nil) }

// metadata returns the cached metadata, or asks a broker if there are none. Aged ones are replaced in the background: a deposed leader that
// still answers causes no error.
func (c *Client) metadata(ctx context.Context) (*metadata, error) {
	if l := c.metadataCache.last.Load(); l != nil {
		if !time.Now().Before(*c.metadataCache.due.Load()) {
			c.metadataCache.inBackground(func() {
				ctx, cancel := context.WithTimeout(c.ctx, dialTimeout)
				defer cancel()
				_, _ = c.fetchMetadata(ctx) // after an error, the next one is due at the same pace
			})
		}
		return l, nil
	}
	select {
	case c.metadataCache.asking <- struct{}{}:
		defer func() { <-c.metadataCache.asking }()
	case <-ctx.Done():
		return nil, fmt.Errorf("waiting for the cluster's metadata: %w", ctx.Err())
	}
	if l := c.metadataCache.last.Load(); l != nil {
		return l, nil
	}
	return c.fetchMetadata(ctx)
}

// inBackground makes a request, unless one is under way.
func (l *metadataCache) inBackground(ask func()) {
	select {
	case l.asking <- struct{}{}:
		go func() {
			defer func() { <-l.asking }()
			ask()
		}()
	default:
	}
}

// fetchMetadata asks a broker. kafka-go would answer from a cache of its own.
func (c *Client) fetchMetadata(ctx context.Context) (*metadata, error) {
	age := c.metadataCache.maxAge/2 + rand.N(c.metadataCache.maxAge/2) // workers that start together spread
	due := time.Now().Add(age)
	c.metadataCache.due.Store(&due)
	l, err := c.askMetadata(ctx, nil, false)
	if err == nil {
		c.metadataCache.last.Store(l)
	}
	return l, err
}

// askMetadata asks for the metadata of our topics and further ones, optionally with our operations on cluster and topics.
func (c *Client) askMetadata(ctx context.Context, to wire.Destination, operations bool, further ...string) (*metadata, error) {
	req := kmsg.NewPtrMetadataRequest()
	req.IncludeClusterAuthorizedOperations, req.IncludeTopicAuthorizedOperations = operations, operations
	for _, name := range append(c.topicNames(), further...) {
		topic := kmsg.NewMetadataRequestTopic()
		topic.Topic = &name
		req.Topics = append(req.Topics, topic)
	}
	res, err := req.RequestWith(ctx, c.to(to))
	if err != nil {
		return nil, fmt.Errorf("asking for the cluster's metadata: %w", err)
	}
	return newMetadata(res)
}

func newMetadata(res *kmsg.MetadataResponse) (*metadata, error) {
	l := &metadata{clusterID: wire.Text(res.ClusterID), topics: make(map[string]topicMetadata, len(res.Topics)),
		operations: Operations(res.AuthorizedOperations)}
	for _, b := range res.Brokers {
		l.brokers = append(l.brokers, Broker{ID: b.NodeID, Address: net.JoinHostPort(b.Host, strconv.Itoa(int(b.Port)))})
	}
	for i := range res.Topics {
		t := &res.Topics[i]
		n := len(t.Partitions)
		of := topicMetadata{code: kafka.Error(t.ErrorCode), leaders: slices.Repeat([]leader{{-1, -1}}, n), copies: make([]copies, n),
			operations: Operations(t.AuthorizedOperations)}
		for j := range t.Partitions { // in any order; an error code is of a missing leader or replica, which shows below
			p := &t.Partitions[j]
			if p.Partition < 0 || int(p.Partition) >= n {
				return nil, fmt.Errorf("%w: metadata", wire.ErrAnswer)
			}
			of.leaders[p.Partition] = leader{p.Leader, p.LeaderEpoch}
			of.copies[p.Partition] = copies{len(p.Replicas), len(p.ISR)}
		}
		l.topics[wire.Text(t.Topic)] = of
	}
	return l, nil
}

func (l *metadata) leader(topic string, partition int32) (leader, error) {
	t, ok := l.topics[topic]
	code := t.code
	switch {
	case code != 0:
	case !ok || partition < 0 || int(partition) >= len(t.leaders):
		code = kafka.UnknownTopicOrPartition
	case t.leaders[partition].broker < 0:
		code = kafka.LeaderNotAvailable
	default:
		return t.leaders[partition], nil
	}
	return leader{-1, -1}, fmt.Errorf("finding the leader of %s, of %d partitions: %w", partitionName(topic, partition), len(t.leaders), code)
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
		kafka.UnknownTopicID, kafka.InconsistentTopicID, kafka.OffsetNotAvailable, kafka.NetworkException, kafka.RequestTimedOut:
		return true
	}
	return false
}
