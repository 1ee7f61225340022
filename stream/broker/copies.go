package broker

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/segmentio/kafka-go"
)

const (
	configMinInSync = "min.insync.replicas"
	configUnclean   = "unclean.leader.election.enable"
)

// internalTopics are the topics of the group and transaction coordinators, which every worker needs.
var internalTopics = []string{"__consumer_offsets", "__transaction_state"}

// Copies describes the replicas of a topic.
type Copies struct {
	Topic    string
	Internal bool  // one of Kafka's own
	Factor   int   // replicas of the partition with the fewest
	InSync   []int // by partition: replicas in sync
	// Settings of the topic. MinInSync is 0 if the broker does not report it.
	MinInSync int
	Unclean   bool // a replica that lacks records may become the leader
}

// Copies describes the topics, dead-letter topics and Kafka's internal ones included. Missing and hidden topics are left out.
func (c *Client) Copies(ctx context.Context) ([]Copies, error) {
	l, err := c.askMetadata(ctx, false, internalTopics...)
	if err != nil {
		return nil, err
	}
	var all []Copies
	var resources []kafka.DescribeConfigRequestResource
	for _, name := range slices.Sorted(maps.Keys(l.topics)) {
		t := l.topics[name]
		if t.code != 0 || len(t.copies) == 0 {
			continue
		}
		of := Copies{Topic: name, Internal: t.internal, InSync: make([]int, len(t.copies)), Factor: t.copies[0].all}
		for p, lie := range t.copies {
			of.InSync[p] = lie.inSync
			of.Factor = min(of.Factor, lie.all)
		}
		all = append(all, of)
		resources = append(resources, kafka.DescribeConfigRequestResource{ResourceType: kafka.ResourceTypeTopic, ResourceName: name,
			ConfigNames: []string{configMinInSync, configUnclean}})
	}
	if len(all) == 0 {
		return nil, nil
	}
	settings, err := c.Kafka().DescribeConfigs(ctx, &kafka.DescribeConfigsRequest{Resources: resources})
	if err != nil {
		return nil, fmt.Errorf("asking for the topics' settings: %w", err)
	}
	for _, r := range settings.Resources {
		for i := range all {
			if all[i].Topic == r.ResourceName && r.Error == nil {
				all[i].set(r.ConfigEntries)
			}
		}
	}
	return all, nil
}

func (c *Copies) set(entries []kafka.DescribeConfigResponseConfigEntry) {
	for _, e := range entries {
		switch e.ConfigName {
		case configMinInSync:
			c.MinInSync, _ = strconv.Atoi(e.ConfigValue) // 0 if it is no number
		case configUnclean:
			c.Unclean = e.ConfigValue == "true"
		}
	}
}
