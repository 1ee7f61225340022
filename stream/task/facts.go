package task

import (
	"errors"
	"fmt"
	"slices"

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

// Beginning returns the first cut of a new group, at the inputs' ends if latest. Its start offsets are stored with the first token.
func (d *Description) Beginning(latest bool) *state.Meta {
	m := &state.Meta{
		Layout: StateLayout, ClusterID: d.ClusterID, Partitions: d.Topics[event.Impressions].Partitions, Rankings: d.Topics[event.Rankings].End,
		ProducerID: -1, ProducerEpoch: -1, RankingsWitness: state.Witness{Offset: -1},
	}
	for t := range d.Topics {
		f := &d.Topics[t]
		m.TopicNames = append(m.TopicNames, f.Name)
		if t < event.Inputs {
			p := state.Position{Offset: f.LogStart, Witness: state.Witness{Offset: -1}}
			if latest {
				p.Offset = f.End
			}
			m.Inputs = append(m.Inputs, p)
		}
	}
	return m
}

func (c *Config) reads(topic event.Topic) bool {
	return topic != event.Selections || c.HasSelections
}

// TopicFault is a fact of a topic that does not fit. Its text names the remedy.
type TopicFault struct {
	Reason StopReason // "": no partition stops for it
	Text   string
}

type topicFaults []TopicFault

func (l *topicFaults) add(reason StopReason, format string, args ...any) {
	*l = append(*l, TopicFault{reason, fmt.Sprintf(format, args...)})
}

// first returns the first fault for which a partition stops.
func (l topicFaults) first() (StopReason, error) {
	for _, f := range l {
		if f.Reason != "" {
			return f.Reason, errors.New(f.Text)
		}
	}
	return "", nil
}

// TopicFaults returns the faults of all topics, those of dead letters last.
func (d *Description) TopicFaults() []TopicFault {
	return append(d.logFaults(), d.letterFaults()...)
}

const createIt = "create it with `ranker-worker topics --create`"

func (d *Description) logFaults() (faults topicFaults) {
	var first *TopicFacts // the first topic that exists
	for t := range d.Topics {
		f := &d.Topics[t]
		if f.Missing {
			faults.add(StopTopic, "topic %q does not exist: "+createIt, f.Name)
		}
		if f.Partitions == 0 { // missing, or not configured
			continue
		}
		if first == nil {
			first = f
		}
		if f.Partitions != first.Partitions {
			faults.add(StopPartitions, "topic %q has partition count %d, but %q has %d: records of one impression would be "+
				"separated; stop producers and workers; add partitions to the topics with fewer, their dead-letter topics too; then run "+
				"`ranker-worker state reshard`, if the group has run; if it has not, make a topic with records again",
				f.Name, f.Partitions, first.Name, first.Partitions)
		}
		if f.Compacted {
			faults.add(StopTopic, "topic %q is compacted: set cleanup.policy=delete, or records are lost unseen", f.Name)
		}
	}
	rankings, impressions := &d.Topics[event.Rankings], &d.Topics[event.Impressions]
	if rankings.Missing {
		return faults
	}
	if !rankings.LogAppendTime {
		faults.add(StopTopic, "topic %q lacks message.timestamp.type=LogAppendTime: set it, or the broker forgets early "+
			"which workers it has fenced", rankings.Name)
	}
	if impressions.Missing {
		return faults
	}
	for _, r := range []struct {
		setting string
		have    int64
		want    int64
	}{
		{"retention.ms", rankings.RetentionMillis, impressions.RetentionMillis},
		{"retention.bytes", rankings.RetentionBytes, impressions.RetentionBytes},
	} {
		if r.have >= 0 && (r.want < 0 || r.have < r.want) {
			faults.add(StopTopic, "topic %q has %s=%d, but %q has %d: rankings must be kept as long as the impressions, or "+
				"a replay would rank these again; set it to %[5]d", rankings.Name, r.setting, r.have, impressions.Name, r.want)
		}
	}
	return faults
}

func (d *Description) letterFaults() (faults topicFaults) {
	for t := range d.DeadLetters {
		f, of := &d.DeadLetters[t], &d.Topics[t]
		add := func(reason StopReason, format string, args ...any) {
			faults.add(reason, "topic %q, for the dead letters of %q, "+format, append([]any{f.Name, of.Name}, args...)...)
		}
		if f.Missing {
			add(StopTopic, "does not exist: "+createIt)
			continue
		}
		if f.Partitions < of.Partitions {
			add(StopTopic, "has partition count %d, below that topic's %d: add partitions", f.Partitions, of.Partitions)
		}
		if f.Compacted {
			add(StopTopic, "is compacted: set cleanup.policy=delete, or those of records without a key are refused, and others lost")
		}
		if f.MaxMessageBytes < of.MaxMessageBytes {
			add("", "has max.message.bytes=%d, less than that topic's %d: long dead letters will be cut off; raise it", f.MaxMessageBytes, of.MaxMessageBytes)
		}
	}
	return faults
}

// checkDescription returns the first fact that does not fit the stored meta data or the cut.
func (c *Config) checkDescription(d *Description, m *state.Meta, cut cutPositions) (StopReason, error) {
	if reason, err := c.checkTopics(d); err != nil {
		return reason, err
	}
	if reason, err := c.checkCut(d, m, cut); err != nil {
		return reason, err
	}
	return d.letterFaults().first() // last: they may follow from a changed partition count
}

// checkTopics returns faults of topics or store that do not depend on the cut.
func (c *Config) checkTopics(d *Description) (StopReason, error) {
	if d.StoreFault != nil {
		return StopStore, fmt.Errorf("the store cannot keep state: %w", d.StoreFault)
	}
	if reason, err := d.logFaults().first(); err != nil {
		return reason, err
	}
	if n := d.Topics[event.Impressions].Partitions; int(c.Partition) >= n {
		return StopPartitions, fmt.Errorf("no partition %d: the topics have %d", c.Partition, n)
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
