package broker

import (
	"context"
	"fmt"
	"math"

	"github.com/segmentio/kafka-go"
	"github.com/twmb/franz-go/pkg/kmsg"
	"golang.org/x/sync/errgroup"

	"github.com/ranker-worker/ranker-worker/stream/task"
	"github.com/ranker-worker/ranker-worker/stream/wire"
)

// Retire makes the leaders of all our partitions of this number refuse every batch of a producer id: an abort marker of its last epoch
// fences all earlier ones. It is for an id that the transaction coordinator has dropped, so that InitProducerID cannot raise its epoch. The
// coordinator is not involved, and could not end a transaction of that id later. Retire may be repeated, and must be if the fence has to
// outlast the brokers' memory of silent producers (producer.id.expiration.ms, a day).
//
// It fails with task.ErrUnsupported without the right, or if the broker does not speak WriteTxnMarkers.
func (p *Partition) Retire(ctx context.Context, r task.Retire) error {
	doing := fmt.Sprintf("retiring producer id %d, which the transaction coordinator has forgotten", r.ProducerID)
	l, topics, err := p.written(ctx)
	if err != nil {
		return fmt.Errorf("%s: %w", doing, err)
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
