package task

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/ranker-worker/ranker-worker/state"
	"github.com/ranker-worker/ranker-worker/stream/event"
)

// cutPositions are the positions that logs are compared with.
type cutPositions struct {
	inputs    []int64
	rankings  int64
	witnesses []witness // records read or written earlier
}

func cutOf(m *state.Meta) cutPositions {
	cut := cutPositions{rankings: m.Rankings}
	for i := range m.Inputs {
		cut.inputs = append(cut.inputs, m.Inputs[i].Offset)
		cut.witnesses = append(cut.witnesses, witness{event.Topic(i), m.Inputs[i].Witness})
	}
	cut.witnesses = append(cut.witnesses, witness{event.Rankings, m.RankingsWitness})
	return cut
}

// StateLayout is the version of a partition's stored state. Another version is refused.
const StateLayout = 1

// StateUnfinished is the layout of a state that a reshard is still writing.
const StateUnfinished = 0

// beginning returns the first cut of a new group. Its start offsets are stored with the first token.
func (c *Config) beginning(d *Description) *state.Meta {
	m := &state.Meta{
		Layout: StateLayout, ClusterID: d.ClusterID, TopicNames: c.TopicNames[:],
		Partitions: d.Topics[event.Impressions].Partitions, Rankings: d.Topics[event.Rankings].End,
		ProducerID: -1, ProducerEpoch: -1, RankingsWitness: state.Witness{Offset: -1},
	}
	for topic := event.Topic(0); topic < event.Inputs; topic++ {
		p := state.Position{Witness: state.Witness{Offset: -1}}
		if c.reads(topic) {
			p.Offset = d.Topics[topic].LogStart
			if c.StartLatest {
				p.Offset = d.Topics[topic].End
			}
		}
		m.Inputs = append(m.Inputs, p)
	}
	return m
}

func (c *Config) reads(topic event.Topic) bool {
	return topic != event.Selections || c.HasSelections
}

// checkMissing returns an error with the names of all missing topics.
func (c *Config) checkMissing(d *Description) error {
	var missing []string
	for topic := event.Topic(0); topic < event.Topics; topic++ {
		if c.reads(topic) && d.Topics[topic].Missing {
			missing = append(missing, strconv.Quote(c.TopicNames[topic]))
		}
	}
	if len(missing) == 0 {
		return nil
	}
	return fmt.Errorf("topic %s does not exist: `ranker-worker topics --create` creates missing topics", strings.Join(missing, ", "))
}

// checkDescription returns the first fact that does not fit the stored meta data or the cut.
func (c *Config) checkDescription(d *Description, m *state.Meta, cut cutPositions) (StopReason, error) {
	if reason, err := c.checkTopics(d); err != nil {
		return reason, err
	}
	if reason, err := c.checkCut(d, m, cut); err != nil {
		return reason, err
	}
	return c.checkDeadLetters(d) // last: it may follow from a changed partition count
}

// checkTopics returns faults of topics or store that do not depend on the cut.
func (c *Config) checkTopics(d *Description) (StopReason, error) {
	if d.StoreFault != nil {
		return StopStore, fmt.Errorf("the store cannot keep state: %w", d.StoreFault)
	}
	if err := c.checkMissing(d); err != nil {
		return StopTopic, err
	}
	n := d.Topics[event.Impressions].Partitions
	for topic := event.Topic(0); topic < event.Topics; topic++ {
		if !c.reads(topic) {
			continue
		}
		f, name := &d.Topics[topic], c.TopicNames[topic]
		switch {
		case f.Partitions != n:
			return StopPartitions, fmt.Errorf("topic %q has partition count %d, but %q has %d: all must have the same number",
				name, f.Partitions, c.TopicNames[event.Impressions], n)
		case int(c.Partition) >= n:
			return StopPartitions, fmt.Errorf("no partition %d: the topics have %d", c.Partition, n)
		case f.Compacted:
			return StopTopic, fmt.Errorf("topic %q is compacted: set cleanup.policy=delete, or records are lost unseen", name)
		case topic == event.Rankings && !f.LogAppendTime:
			return StopTopic, fmt.Errorf("topic %q lacks message.timestamp.type=LogAppendTime: without it the broker "+
				"forgets the fence early", name)
		}
	}
	return c.checkRetention(d)
}

// checkRetention finds rankings that are deleted before their impressions: a replay would rank those again.
func (c *Config) checkRetention(d *Description) (StopReason, error) {
	rankings, impressions := &d.Topics[event.Rankings], &d.Topics[event.Impressions]
	for _, r := range []struct {
		setting     string
		rankings    int64
		impressions int64
	}{
		{"retention.ms", rankings.RetentionMillis, impressions.RetentionMillis},
		{"retention.bytes", rankings.RetentionBytes, impressions.RetentionBytes},
	} {
		if r.rankings >= 0 && (r.impressions < 0 || r.rankings < r.impressions) {
			return StopTopic, fmt.Errorf("topic %q has %s=%d, but %q has %d: rankings must be kept as long as the impressions, or "+
				"a replay would rank these again", c.TopicNames[event.Rankings], r.setting, r.rankings,
				c.TopicNames[event.Impressions], r.impressions)
		}
	}
	return "", nil
}

func (c *Config) checkDeadLetters(d *Description) (StopReason, error) {
	for topic := event.Topic(0); topic < event.Inputs; topic++ {
		if !c.reads(topic) {
			continue
		}
		if d.Topics[topic].LettersCompacted {
			return StopTopic, fmt.Errorf("the dead-letter topic of %q is compacted: set cleanup.policy=delete, or dead letters are lost, "+
				"and those without a key refused", c.TopicNames[topic])
		}
		if !d.Topics[topic].DeadLetters {
			return StopTopic, fmt.Errorf("the dead-letter topic of %q does not exist or has too few partitions: create it "+
				"(ranker-worker topics --create), or add partitions to it", c.TopicNames[topic])
		}
	}
	return "", nil
}

// checkCut returns signs that this is not the log that the cut was made from.
func (c *Config) checkCut(d *Description, m *state.Meta, cut cutPositions) (StopReason, error) {
	if len(m.Inputs) != int(event.Inputs) {
		return StopState, fmt.Errorf("the stored cut has offsets of %d topics, not of %d", len(m.Inputs), event.Inputs)
	}
	if err := CheckLayout(m); err != nil {
		return StopState, err
	}
	if m.ClusterID != d.ClusterID {
		return StopCluster, fmt.Errorf("the state was made on Kafka cluster %q, this is %q", m.ClusterID, d.ClusterID)
	}
	if !slices.Equal(m.TopicNames, c.TopicNames[:]) {
		return StopCluster, fmt.Errorf("the state was made of topics %q, configured are %q: to go over to these, stop the "+
			"workers and run `ranker-worker state reshard`", m.TopicNames, c.TopicNames)
	}
	if n := d.Topics[event.Impressions].Partitions; n != m.Partitions {
		return StopPartitions, fmt.Errorf("the topics had partition count %d when the state was made, now %d: records of one "+
			"impression would be separated: stop the workers and run `ranker-worker state reshard`", m.Partitions, n)
	}
	for topic := event.Topic(0); topic < event.Inputs; topic++ {
		if c.reads(topic) {
			if err := c.checkOffset(d, topic, cut.inputs[topic]); err != nil {
				return StopTopic, err
			}
		}
	}
	if err := c.checkOffset(d, event.Rankings, cut.rankings); err != nil {
		return StopTopic, err
	}
	return "", nil
}

// CheckLayout returns an error for a state of another version.
func CheckLayout(m *state.Meta) error {
	if m.Layout == StateUnfinished {
		return errors.New("the state is being put together by `ranker-worker state reshard`, which has not come " +
			"to its end: stop the workers and run it again")
	}
	if m.Layout < 0 {
		return fmt.Errorf("the stored state is half-way to version %d, and this worker reads %d: start a worker of version %d, which "+
			"ends the upgrade", -m.Layout, StateLayout, -m.Layout)
	}
	if m.Layout != StateLayout {
		return fmt.Errorf("the stored state has layout %d, this worker reads %d: run the version that wrote it, or make it again "+
			"from the topics: ranker-worker state rebuild --replace --yes", m.Layout, StateLayout)
	}
	return nil
}

func (c *Config) checkOffset(d *Description, topic event.Topic, offset int64) error {
	f, name, p := &d.Topics[topic], c.TopicNames[topic], c.Partition
	switch {
	case offset < f.LogStart:
		return fmt.Errorf("%s[%d] begins at offset %d, but we have read only up to %d: retention has overtaken us, "+
			"records are lost", name, p, f.LogStart, offset)
	case offset > f.End:
		return fmt.Errorf("%w: %s[%d] ends at offset %d, but we have read up to %d: the topic was recreated or has lost "+
			"records", errContradiction, name, p, f.End, offset)
	}
	return nil
}

func (d *Description) MaxRankingBytes() int { return d.maxRankingBytes() }

// maxRankingBytes returns the most bytes of a record's key and value, so that a batch of one fits the topic.
func (d *Description) maxRankingBytes() int {
	return batchRoom(d.Topics[event.Rankings].MaxMessageBytes) - RecordOverhead
}

// errContradiction marks a stop that no setting can mend: the log is not the one that was read.
var errContradiction = errors.New("the log and the state contradict each other")
