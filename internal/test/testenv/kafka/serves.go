package kafka

import (
	"context"
	"fmt"
	"maps"
	"slices"

	kafkago "github.com/segmentio/kafka-go"
)

// Serves reports whether the expected topics have these partition counts, and a leader that serves each partition. With nothing expected,
// it checks all topics with their present partitions. The error names the missing ones.
//
// Serves asks for offsets, which only a leader returns: a leader in the metadata may not know yet that it leads.
func Serves(ctx context.Context, client *kafkago.Client, expected map[string]int) error {
	meta, err := client.Metadata(ctx, &kafkago.MetadataRequest{Topics: slices.Sorted(maps.Keys(expected))})
	if err != nil {
		return err
	}
	offsets := &kafkago.ListOffsetsRequest{Topics: map[string][]kafkago.OffsetRequest{}}
	for _, topic := range meta.Topics {
		if topic.Error != nil {
			return fmt.Errorf("topic %s: %w", topic.Name, topic.Error)
		}
		for _, p := range topic.Partitions {
			if p.Error != nil || p.Leader.Host == "" {
				return fmt.Errorf("partition %d of topic %s has no leader (%v)", p.ID, topic.Name, p.Error)
			}
			if topic.Internal { // kafka-go does not know their leaders, and would ask any broker
				continue
			}
			offsets.Topics[topic.Name] = append(offsets.Topics[topic.Name], kafkago.LastOffsetOf(p.ID))
		}
	}
	for topic, partitions := range expected {
		if got := len(offsets.Topics[topic]); got != partitions {
			return fmt.Errorf("topic %s has %d partitions instead of %d", topic, got, partitions)
		}
	}
	if len(offsets.Topics) == 0 {
		return nil
	}
	res, err := client.ListOffsets(ctx, offsets)
	if err != nil {
		return err
	}
	for topic, answered := range res.Topics {
		for _, p := range answered {
			if p.Error != nil {
				return fmt.Errorf("partition %d of topic %s: %w", p.Partition, topic, p.Error)
			}
		}
	}
	return nil
}
