package broker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/ranker-worker/ranker-worker/stream/event"
	"github.com/ranker-worker/ranker-worker/stream/task"
	"github.com/ranker-worker/ranker-worker/stream/wire"
)

// Broker is a broker of the cluster, at the address that it advertises to clients.
type Broker struct {
	ID      int32
	Address string // host:port
}

// Cluster is a Kafka cluster and its brokers.
type Cluster struct {
	ID      string
	Brokers []Broker
}

func (c *Client) Cluster(ctx context.Context) (Cluster, error) {
	l, err := c.fetchMetadata(ctx)
	if err != nil {
		return Cluster{}, err
	}
	return Cluster{l.clusterID, l.brokers}, nil
}

// needs are requests that a worker or `topics` needs in a version of ours.
var needs = []kmsg.Key{kmsg.Produce, kmsg.Fetch, kmsg.ListOffsets, kmsg.InitProducerID, kmsg.DescribeConfigs, kmsg.OffsetFetch, kmsg.Heartbeat,
	kmsg.DescribeGroups}

// Lack is a request that a broker does not offer and a worker can do without.
type Lack struct {
	Request string
	Without string // the consequence
}

var spared = map[kmsg.Key]string{
	kmsg.DescribeQuorum:       "workers do not compare their clock with the brokers'",
	kmsg.DescribeTransactions: "a worker does not notice that the coordinator has forgotten a partition's transactional id",
	kmsg.WriteTxnMarkers:      "a worker cannot fence an earlier owner whose transactional id the coordinator has forgotten",
}

// Greet connects to an address as the worker does, with TLS and SASL, asks for the supported requests, and disconnects. It returns the
// lacking requests by name. It fails with task.ErrUnsupported, naming each, if the worker needs requests that the broker lacks.
func (c *Client) Greet(ctx context.Context, address string) ([]Lack, error) {
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	conn, err := c.dialer().DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	defer conn.Close() // nothing was sent that could be lost
	if err := conn.SetDeadline(time.Now().Add(dialTimeout)); err != nil {
		return nil, err
	}
	theirs, err := wire.AskVersions(conn, wire.ClientID)
	if err != nil {
		return nil, err
	}
	// Versions are public; the list of brokers needs a login.
	brokers := kmsg.NewPtrMetadataRequest()
	brokers.Topics = []kmsg.MetadataRequestTopic{}
	if brokers.Version, err = theirs.Common(kmsg.Metadata); err != nil {
		return nil, err
	}
	if _, err := wire.RoundTrip(conn, wire.ClientID, brokers); err != nil {
		return nil, err
	}
	return lacking(theirs)
}

func lacking(theirs wire.Versions) (lacks []Lack, err error) {
	var faults []error
	for _, key := range needs {
		if _, err := theirs.Common(key); err != nil {
			faults = append(faults, err)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(spared)) {
		if _, err := theirs.Common(key); err != nil {
			lacks = append(lacks, Lack{key.Name(), spared[key]})
		}
	}
	return lacks, errors.Join(faults...)
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
	l, err := c.askMetadata(ctx, nil, true)
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
	Members    []string
	Operations Operations
}

// Group asks the coordinator. It fails with kafka.GroupAuthorizationFailed without the right.
func (c *Client) Group(ctx context.Context) (Group, error) {
	req := kmsg.NewPtrDescribeGroupsRequest()
	req.Groups, req.IncludeAuthorizedOperations = []string{c.o.Group}, true
	res, err := req.RequestWith(ctx, c.to(wire.ToGroup(c.o.Group)))
	if err == nil && len(res.Groups) != 1 {
		err = fmt.Errorf("%w: describe groups", wire.ErrAnswer)
	}
	if err == nil {
		err = brokerError(res.Groups[0].ErrorCode)
	}
	if err != nil {
		return Group{}, fmt.Errorf("asking about group %q: %w", c.o.Group, err)
	}
	got := &res.Groups[0]
	g := Group{Operations: Operations(got.AuthorizedOperations)}
	for i := range got.Members {
		g.Members = append(g.Members, got.Members[i].ClientID+got.Members[i].ClientHost) // the host begins with a slash
	}
	return g, nil
}

// MayFence checks without writing that we may use a partition's transactional id: it aborts a transaction of a producer that does not
// exist. It fails with kafka.TransactionalIDAuthorizationFailed without the right, and with other errors without a coordinator.
func (p *Partition) MayFence(ctx context.Context) error {
	err := p.abort(ctx, noProducer)
	if errors.Is(err, kafka.InvalidProducerIDMapping) {
		return nil
	}
	return fmt.Errorf("asking for the coordinator of transactional id %q: %w", p.TransactionalID(), cmp.Or(err, wire.ErrAnswer))
}

// ErrNoClock: the cluster does not report its time, or not to us.
var ErrNoClock = errors.New("the cluster does not report its time")

// Clock returns the time at which the cluster's controller says that it last caught up with itself. It needs Kafka 3.3 with KRaft, and
// Describe on the cluster, else it fails with ErrNoClock.
func (c *Client) Clock(ctx context.Context) (time.Time, error) {
	l, err := c.askMetadata(ctx, nil, true)
	if err != nil {
		return time.Time{}, err
	}
	// Without the right, the request would also leave an error in the controllers' log.
	if may, known := l.operations.Allow(kafka.ACLOperationTypeDescribe); known && !may {
		return time.Time{}, fmt.Errorf("%w without the right Describe on the cluster", ErrNoClock)
	}
	topic := kmsg.NewDescribeQuorumRequestTopic()
	topic.Topic, topic.Partitions = "__cluster_metadata", []kmsg.DescribeQuorumRequestTopicPartition{kmsg.NewDescribeQuorumRequestTopicPartition()}
	req := kmsg.NewPtrDescribeQuorumRequest()
	req.Topics = []kmsg.DescribeQuorumRequestTopic{topic}
	res, err := req.RequestWith(ctx, c.to(nil))
	switch {
	case errors.Is(err, task.ErrUnsupported):
		return time.Time{}, ErrNoClock
	case err != nil:
		return time.Time{}, fmt.Errorf("asking for the controller's time: %w", err)
	}
	return controllerTime(res)
}

// controllerTime finds the leader's own entry.
func controllerTime(res *kmsg.DescribeQuorumResponse) (time.Time, error) {
	code, at := kafka.Error(res.ErrorCode), int64(-1)
	for _, t := range res.Topics {
		for _, p := range t.Partitions {
			code = cmp.Or(code, kafka.Error(p.ErrorCode))
			for _, v := range p.CurrentVoters {
				if v.ReplicaID == p.LeaderID {
					at = v.LastCaughtUpTimestamp
				}
			}
		}
	}
	switch {
	case code != 0:
		return time.Time{}, fmt.Errorf("%w: %w", ErrNoClock, code)
	case at < 0:
		return time.Time{}, fmt.Errorf("%w: describe quorum", wire.ErrAnswer)
	}
	return time.UnixMilli(at), nil
}

// Stamped returns the newest broker timestamp among the last few records of this partition's rankings; the zero time without records.
func (p *Partition) Stamped(ctx context.Context, f *task.TopicFacts) (time.Time, error) {
	const last = 10
	newest := time.Time{}
	for r := p.Reader(event.Rankings, max(f.LogStart, f.End-last), f.End); ; {
		got, err := r.Next(ctx)
		if errors.Is(err, io.EOF) {
			return newest, nil
		}
		if err != nil {
			return newest, err
		}
		for i := range got.Records {
			newest = later(newest, got.Records[i].Timestamp)
		}
		for i := range got.Markers {
			newest = later(newest, got.Markers[i].Timestamp)
		}
	}
}

func later(t time.Time, at event.Millis) time.Time {
	if u := time.UnixMilli(at); u.After(t) {
		return u
	}
	return t
}

const (
	configMinInSync = "min.insync.replicas"
	configUnclean   = "unclean.leader.election.enable"
)

// internalTopics are the topics of the group and transaction coordinators, which every worker needs.
var internalTopics = []string{"__consumer_offsets", "__transaction_state"}

// Copies describes the replicas of a topic.
type Copies struct {
	Topic  string
	Factor int   // replicas of the partition with the fewest
	InSync []int // by partition: replicas in sync
	// Settings of the topic. MinInSync is 0 if the broker does not report it.
	MinInSync int
	Unclean   bool // a replica that lacks records may become the leader
}

// Copies describes the topics, dead-letter topics and Kafka's internal ones included. Missing and hidden topics are left out.
func (c *Client) Copies(ctx context.Context) ([]Copies, error) {
	l, err := c.askMetadata(ctx, nil, false, internalTopics...)
	if err != nil {
		return nil, err
	}
	var all []Copies
	var names []string
	for _, name := range slices.Sorted(maps.Keys(l.topics)) {
		t := l.topics[name]
		if t.code != 0 || len(t.copies) == 0 {
			continue
		}
		of := Copies{Topic: name, InSync: make([]int, len(t.copies)), Factor: t.copies[0].all}
		for p, lie := range t.copies {
			of.InSync[p] = lie.inSync
			of.Factor = min(of.Factor, lie.all)
		}
		all, names = append(all, of), append(names, name)
	}
	settings, _, err := c.describeConfigs(ctx, names, configMinInSync, configUnclean) // internal topics may be hidden
	for i := range all {
		s := settings[all[i].Topic]
		all[i].MinInSync, _ = strconv.Atoi(s[configMinInSync]) // 0 if it is no number
		all[i].Unclean = s[configUnclean] == "true"
	}
	return all, err
}
