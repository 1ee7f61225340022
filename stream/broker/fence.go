package broker

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/twmb/franz-go/pkg/kmsg"
	"golang.org/x/sync/errgroup"

	"github.com/ranker-worker/ranker-worker/stream/event"
	"github.com/ranker-worker/ranker-worker/stream/task"
	"github.com/ranker-worker/ranker-worker/stream/wire"
)

// transactionTimeout is the time after which the coordinator ends the transaction of a fence whose owner died. Until then, readers of
// committed rankings may have to wait.
const transactionTimeout = 30 * time.Second

// TransactionalID returns <group>-<partition>. With ACLs it needs Write.
func (p *Partition) TransactionalID() string {
	return p.c.o.Group + "-" + strconv.Itoa(int(p.number))
}

// InitProducer raises the epoch of our transactional id, or obtains its first. Producer is -1, -1 on the first call, else the last result.
// It needs InitProducerID version 3 (Kafka 2.5), checked on the connection in use: an older broker ignores the producer, and fences
// nothing.
//
// It fails with task.ErrFenced if the given producer is not the newest, or the coordinator has dropped it, and with task.ErrUnsupported.
// Other errors are transient, as from a coordinator that is busy, loading or elsewhere.
func (p *Partition) InitProducer(ctx context.Context, r task.InitProducer) (task.Producer, error) {
	id := p.TransactionalID()
	got, err := initProducer(ctx, p.coordinator(), &id, r.Producer)
	if err == nil {
		err = checkSameID(r.Producer, got)
	}
	if err != nil {
		return noProducer, fmt.Errorf("initialising the producer of transactional id %q: %w", id, err)
	}
	return got, nil
}

// NewProducer returns a new idempotent producer without a transactional id. Brokers before 3.0 require IdempotentWrite on the cluster. It
// needs InitProducerID version 3 (Kafka 2.5), else it fails with task.ErrUnsupported. Other errors are transient.
func (c *Client) NewProducer(ctx context.Context) (task.Producer, error) {
	got, err := initProducer(ctx, c.to(nil), nil, noProducer)
	if err != nil {
		return noProducer, fmt.Errorf("initialising an idempotent producer: %w", err)
	}
	return got, nil
}

var noProducer = task.Producer{ID: -1, Epoch: -1}

// coordinator is that of our transactional id.
func (p *Partition) coordinator() wire.Route { return p.c.to(wire.ToTransactions(p.TransactionalID())) }

func initProducer(ctx context.Context, to wire.Route, transactionalID *string, held task.Producer) (task.Producer, error) {
	req := kmsg.NewPtrInitProducerIDRequest()
	req.TransactionalID, req.TransactionTimeoutMillis = transactionalID, int32(transactionTimeout.Milliseconds())
	req.ProducerID, req.ProducerEpoch = held.ID, held.Epoch
	res, err := req.RequestWith(ctx, to)
	if err != nil {
		return noProducer, err
	}
	got := task.Producer{ID: res.ProducerID, Epoch: res.ProducerEpoch}
	switch code := kafka.Error(res.ErrorCode); {
	case code == kafka.UnknownProducerId: // here not about a sequence
		return noProducer, fmt.Errorf("%w: %w", task.ErrFenced, code)
	case code != 0:
		return noProducer, brokerError(res.ErrorCode)
	case got.ID < 0 || got.Epoch < 0:
		return noProducer, fmt.Errorf("%w: producer id %d, epoch %d", wire.ErrAnswer, got.ID, got.Epoch)
	}
	return got, nil
}

// checkSameID compares the id held with the one obtained. A coordinator that lost a transactional id answers with a new producer id, as to
// a first call, which does not fence an owner with the old one. A new id is right only if the old one's epochs are used up.
func checkSameID(held, got task.Producer) error {
	if held.ID < 0 || got.ID == held.ID || held.Epoch >= math.MaxInt16-1 {
		return nil
	}
	return fmt.Errorf("%w: the coordinator has forgotten producer id %d, and gives %d", task.ErrFenced, held.ID, got.ID)
}

// AddPartition begins a transaction and adds all our partitions of this number to it: rankings, and each input's dead letters. So its end
// markers fence all of them. It fails like InitProducer. It begins no transaction before the leaders host all partitions; Create says why.
func (p *Partition) AddPartition(ctx context.Context, r task.AddPartition) error {
	doing := fmt.Sprintf("adding the partitions of number %d to the transaction of %q", p.number, p.TransactionalID())
	l, topics, err := p.written(ctx)
	if err == nil {
		err = p.hosted(ctx, l, topics)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", doing, err)
	}
	req := kmsg.NewPtrAddPartitionsToTxnRequest()
	req.TransactionalID, req.ProducerID, req.ProducerEpoch = p.TransactionalID(), r.Producer.ID, r.Producer.Epoch
	for _, name := range topics {
		topic := kmsg.NewAddPartitionsToTxnRequestTopic()
		topic.Topic, topic.Partitions = name, []int32{p.number}
		req.Topics = append(req.Topics, topic)
	}
	res, err := req.RequestWith(ctx, p.coordinator())
	if err == nil {
		err = p.addError(res, topics)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", doing, err)
	}
	return nil
}

// addError returns the error of the topic that could not be added. The others then say that they were not attempted.
func (p *Partition) addError(res *kmsg.AddPartitionsToTxnResponse, topics []string) (failed error) {
	added := make(map[string]error, len(topics))
	for _, t := range res.Topics {
		for _, one := range t.Partitions {
			added[t.Topic] = brokerError(one.ErrorCode)
		}
	}
	for _, name := range topics {
		err, answered := added[name]
		if !answered {
			err = fmt.Errorf("%w: nothing about it", wire.ErrAnswer)
		}
		if err != nil && (failed == nil || errors.Is(failed, errNotAttempted)) {
			failed = fmt.Errorf("%s: %w", partitionName(name, p.number), err)
		}
	}
	return failed
}

const errNotAttempted = kafka.Error(55)

// written returns the topics that the worker writes to, if they have this partition number. Later checks report missing dead-letter topics.
func (p *Partition) written(ctx context.Context) (l *metadata, topics []string, err error) {
	if l, err = p.c.fetchMetadata(ctx); err != nil {
		return nil, nil, err
	}
	topics = []string{p.c.o.Topics[event.Rankings]}
	for _, name := range p.c.dlq {
		if name == "" {
			continue
		}
		if _, n, err := l.partitions(name); err != nil {
			return nil, nil, err
		} else if int(p.number) < n {
			topics = append(topics, name)
		}
	}
	return l, topics, nil
}

// AbortTxn aborts a transaction. Once it has returned, the markers will be written in any case, but may not stand in the log yet. It fails
// like InitProducer.
func (p *Partition) AbortTxn(ctx context.Context, r task.AbortTxn) error {
	if err := p.abort(ctx, r.Producer); err != nil {
		return fmt.Errorf("aborting the transaction of %q: %w", p.TransactionalID(), err)
	}
	return nil
}

func (p *Partition) abort(ctx context.Context, producer task.Producer) error {
	req := kmsg.NewPtrEndTxnRequest()
	req.TransactionalID, req.ProducerID, req.ProducerEpoch = p.TransactionalID(), producer.ID, producer.Epoch
	res, err := req.RequestWith(ctx, p.coordinator())
	if err != nil {
		return err
	}
	return brokerError(res.ErrorCode)
}

const transactionalIDNotFound = kafka.Error(105)

// Holder returns the producer id that the coordinator holds for our transactional id, -1 if none. It fences nothing. It needs Describe on
// the transactional id, and Kafka 3.0.
//
// It fails with task.ErrUnsupported without that right, or without DescribeTransactions. Other errors are transient.
func (p *Partition) Holder(ctx context.Context) (int64, error) {
	id := p.TransactionalID()
	req := kmsg.NewPtrDescribeTransactionsRequest()
	req.TransactionalIDs = []string{id}
	res, err := req.RequestWith(ctx, p.coordinator())
	if err == nil && len(res.TransactionStates) != 1 {
		err = fmt.Errorf("%w: describe transactions", wire.ErrAnswer)
	}
	if err == nil {
		got := &res.TransactionStates[0]
		switch code := kafka.Error(got.ErrorCode); code {
		case 0:
			return got.ProducerID, nil
		case transactionalIDNotFound:
			return -1, nil
		case kafka.TransactionalIDAuthorizationFailed:
			err = fmt.Errorf("%w without the right Describe on the transactional id: %w", task.ErrUnsupported, code)
		default:
			err = brokerError(got.ErrorCode)
		}
	}
	return -1, fmt.Errorf("asking for the producer of transactional id %q: %w", id, err)
}

// Retire makes the leaders of all our partitions of this number refuse every batch of a producer id: an abort marker of its last epoch
// fences all earlier ones. It is for an id that the transaction coordinator has dropped, so that InitProducerID cannot raise its epoch. The
// coordinator is not involved, and could not end a transaction of that id later. Retire may be repeated, and must be if the fence has to
// outlast the brokers' memory of silent producers (producer.id.expiration.ms, a day).
//
// An id that another transactional id holds is left alone: another group, or a mirror, writes to the same topic.
//
// It fails with task.ErrUnsupported without the right, or if the broker does not speak WriteTxnMarkers.
func (p *Partition) Retire(ctx context.Context, r task.Retire) error {
	doing := fmt.Sprintf("retiring producer id %d, which the transaction coordinator has forgotten", r.ProducerID)
	l, topics, err := p.written(ctx)
	if err != nil {
		return fmt.Errorf("%s: %w", doing, err)
	}
	if others, err := p.heldByOthers(ctx, l, r.ProducerID); others || err != nil {
		return err
	}
	byLeader := make(map[int32][]string)
	for _, name := range topics {
		lead, err := l.leader(name, p.number)
		if err != nil {
			p.c.metadataCache.outdated(l)
			return fmt.Errorf("%s: %w", doing, err)
		}
		byLeader[lead.broker] = append(byLeader[lead.broker], name)
	}
	var all errgroup.Group
	for broker, names := range byLeader {
		all.Go(func() error { return p.writeMarkers(ctx, broker, r.ProducerID, names) })
	}
	if err := all.Wait(); err != nil {
		p.c.metadataCache.outdated(l)
		return fmt.Errorf("%s: %w", doing, err)
	}
	return nil
}

// heldByOthers reports whether another transactional id than ours holds a producer id. It shows only transactional ids that we may describe,
// and needs Kafka 3.0: an older broker shows none. It fails if a broker cannot be reached, since that one may coordinate the holder, whom a
// marker would fence for good. The metadata are new, and the cluster drops a dead broker from them within seconds.
func (p *Partition) heldByOthers(ctx context.Context, l *metadata, producer int64) (bool, error) {
	var others atomic.Bool
	var all errgroup.Group
	for _, b := range l.brokers {
		all.Go(func() error {
			req := kmsg.NewPtrListTransactionsRequest()
			req.ProducerIDFilters = []int64{producer}
			res, err := req.RequestWith(ctx, p.c.to(wire.ToBroker(b.ID)))
			if err == nil {
				err = brokerError(res.ErrorCode)
			}
			switch {
			case errors.Is(err, task.ErrUnsupported):
				return nil
			case err != nil:
				return fmt.Errorf("asking broker %d who holds producer id %d: %w", b.ID, producer, err)
			}
			for i := range res.TransactionStates {
				if s := &res.TransactionStates[i]; s.ProducerID == producer && s.TransactionalID != p.TransactionalID() {
					others.Store(true)
				}
			}
			return nil
		})
	}
	err := all.Wait()
	return others.Load(), err
}

func (p *Partition) writeMarkers(ctx context.Context, broker int32, producer int64, topics []string) error {
	marker := kmsg.NewWriteTxnMarkersRequestMarker() // of an abort
	marker.ProducerID, marker.ProducerEpoch = producer, math.MaxInt16
	marker.CoordinatorEpoch = math.MaxInt32 // no marker of a coordinator follows
	for _, name := range topics {
		topic := kmsg.NewWriteTxnMarkersRequestMarkerTopic()
		topic.Topic, topic.Partitions = name, []int32{p.number}
		marker.Topics = append(marker.Topics, topic)
	}
	req := kmsg.NewPtrWriteTxnMarkersRequest()
	req.Markers = []kmsg.WriteTxnMarkersRequestMarker{marker}
	res, err := req.RequestWith(ctx, p.c.to(wire.ToBroker(broker)))
	if err != nil {
		return err
	}
	written := make(map[string]bool, len(topics))
	for _, m := range res.Markers {
		for _, t := range m.Topics {
			for _, one := range t.Partitions {
				if err := markerError(one.ErrorCode); err != nil {
					return fmt.Errorf("%s: %w", partitionName(t.Topic, one.Partition), err)
				}
				written[t.Topic] = true
			}
		}
	}
	for _, name := range topics {
		if !written[name] {
			return fmt.Errorf("%w: write transaction markers: nothing about %s", wire.ErrAnswer, partitionName(name, p.number))
		}
	}
	return nil
}

func markerError(code int16) error {
	if err := kafka.Error(code); err == kafka.ClusterAuthorizationFailed {
		return fmt.Errorf("%w without the right ClusterAction on the cluster (in the ACLs: operation ClusterAction, resource type "+
			"Cluster, for the workers' user): %w", task.ErrUnsupported, err)
	}
	return brokerError(code)
}
