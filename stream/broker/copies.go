package broker

import (
	"context"
	"maps"
	"slices"
	"strconv"
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
		of := Copies{Topic: name, Internal: t.internal, InSync: make([]int, len(t.copies)), Factor: t.copies[0].all}
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
