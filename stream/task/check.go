package task

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/cespare/xxhash/v2"

	"github.com/ranker-worker/ranker-worker/state"
	"github.com/ranker-worker/ranker-worker/stream/event"
	"github.com/ranker-worker/ranker-worker/stream/partition"
)

// checkAgain is how long after a first mismatch the facts are asked for again: metadata can be stale, and a topic
// that is just being created shows itself by and by.
const checkAgain = time.Second

// cutPositions are the positions that the logs are held against.
type cutPositions struct {
	inputs    []int64
	rankings  int64
	witnesses []witness // records that were read or written, with what they are to be the same as
}

type witness struct {
	topic event.Topic
	state.Witness
}

// cutOf is the stored cut.
func cutOf(m *state.Meta) cutPositions {
	cut := cutPositions{rankings: m.Rankings}
	for i := range m.Inputs {
		cut.inputs = append(cut.inputs, m.Inputs[i].Offset)
		cut.witnesses = append(cut.witnesses, witness{event.Topic(i), m.Inputs[i].Witness})
	}
	cut.witnesses = append(cut.witnesses, witness{event.Rankings, m.RankingsWitness})
	return cut
}

// describe asks for fresh facts.
func (t *Task) describe(done func()) {
	ask(t, "describing the topics", callTimeout, Describe{}, func(d Description) {
		t.acq.facts = d
		done()
	})
}

// check holds the logs, the topics' settings and the store against the cut; done is called when all fits. What does
// not fit twice, with fresh metadata the second time, stops the partition: never a silent skip.
func (t *Task) check(cut cutPositions, done func()) {
	t.checkFacts(cut, false, func() {
		t.fine(checking)
		done()
	})
}

const checking = "checking the logs"

// checkFit makes sure that topics and store can be used, and are those of the cut, before anything is written to them.
func (t *Task) checkFit(cut cutPositions, again bool, done func()) {
	t.describe(func() {
		reason, err := t.unfitFor(cut)
		switch {
		case err == nil:
			t.fine(checking)
			done()
		case again:
			t.stop(reason, err)
		default:
			t.fails(checking, err)
			t.after(checkAgain, func() { t.checkFit(cut, true, done) })
		}
	})
}

// unfitFor looks for anything in the facts that does not fit the cut.
func (t *Task) unfitFor(cut cutPositions) (StopReason, error) {
	d := &t.acq.facts
	if reason, err := t.unfit(d); err != nil {
		return reason, err
	}
	if reason, err := t.mismatch(d, cut); err != nil {
		return reason, err
	}
	return t.letterless(d) // last: of a changed partition count, say, it is a consequence
}

func (t *Task) checkFacts(cut cutPositions, again bool, done func()) {
	t.describe(func() {
		reason, err := t.unfitFor(cut)
		switch {
		case err == nil:
			t.checkWitness(cut, 0, again, done)
		case again:
			t.stop(reason, err)
		default:
			t.fails(checking, err)
			t.after(checkAgain, func() { t.checkFacts(cut, true, done) })
		}
	})
}

// unfit looks for what makes topics or store unusable, whatever the cut.
func (t *Task) unfit(d *Description) (StopReason, error) {
	if d.StoreFault != nil {
		return StopStore, fmt.Errorf("the store cannot keep state: %w", d.StoreFault)
	}
	n := d.Topics[event.Impressions].Partitions
	for topic := event.Topic(0); topic < event.Topics; topic++ {
		if !t.reads(topic) {
			continue
		}
		f, name := &d.Topics[topic], t.cfg.TopicNames[topic]
		switch {
		case f.Missing:
			return StopTopic, fmt.Errorf("topic %q does not exist: create it (ranker-worker topics --create)", name)
		case f.Partitions != n:
			return StopPartitions, fmt.Errorf("topic %q has %d partitions, but %q has %d: all must have the same number",
				name, f.Partitions, t.cfg.TopicNames[event.Impressions], n)
		case int(t.cfg.Partition) >= n:
			return StopPartitions, fmt.Errorf("there is no partition %d: the topics have %d", t.cfg.Partition, n)
		case f.Compacted:
			return StopTopic, fmt.Errorf("topic %q is compacted: set cleanup.policy=delete, or records are lost unseen", name)
		case topic == event.Rankings && !f.LogAppendTime:
			return StopTopic, fmt.Errorf("topic %q lacks message.timestamp.type=LogAppendTime: without it the broker "+
				"forgets the fence early", name)
		}
	}
	return t.forgetful(d)
}

// forgetful looks for rankings that are deleted before the impressions that they answer: a replay would rank these again.
func (t *Task) forgetful(d *Description) (StopReason, error) {
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
			return StopTopic, fmt.Errorf("topic %q has %s=%d, but %q has %d: rankings have to be kept for as long as the impressions, or "+
				"a replay would rank these again", t.cfg.TopicNames[event.Rankings], r.setting, r.rankings,
				t.cfg.TopicNames[event.Impressions], r.impressions)
		}
	}
	return "", nil
}

// letterless looks for an input topic whose dead letters have nowhere to go.
func (t *Task) letterless(d *Description) (StopReason, error) {
	for topic := event.Topic(0); topic < event.Inputs; topic++ {
		if !t.reads(topic) {
			continue
		}
		if d.Topics[topic].LettersCompacted {
			return StopTopic, fmt.Errorf("the dead-letter topic of %q is compacted: set cleanup.policy=delete, or dead letters are lost, "+
				"and those without a key refused", t.cfg.TopicNames[topic])
		}
		if !d.Topics[topic].DeadLetters {
			return StopTopic, fmt.Errorf("the dead-letter topic of %q does not exist or has too few partitions: create it "+
				"(ranker-worker topics --create), or add partitions to it", t.cfg.TopicNames[topic])
		}
	}
	return "", nil
}

// mismatch looks for signs that this is not the log that the cut was made of.
func (t *Task) mismatch(d *Description, cut cutPositions) (StopReason, error) {
	m := &t.acq.meta
	if len(m.Inputs) != int(event.Inputs) {
		return StopState, fmt.Errorf("the stored cut has offsets of %d topics, not of %d", len(m.Inputs), event.Inputs)
	}
	if m.Layout == LayoutUnfinished {
		return StopState, errors.New("the state is being put together by `ranker-worker state reshard`, which has not come " +
			"to its end: stop the workers and give it again")
	}
	if m.Layout < 1 || m.Layout > Layout {
		return StopState, fmt.Errorf("the stored state has layout %d, this worker reads up to %d: run the version that wrote it, or a "+
			"later one", m.Layout, Layout)
	}
	if m.ClusterID != d.ClusterID {
		return StopCluster, fmt.Errorf("the state was made on Kafka cluster %q, this is %q", m.ClusterID, d.ClusterID)
	}
	if !slices.Equal(m.TopicNames, t.cfg.TopicNames[:]) {
		return StopCluster, fmt.Errorf("the state was made of topics %q, configured are %q: to go over to these, stop the "+
			"workers and give `ranker-worker state reshard`", m.TopicNames, t.cfg.TopicNames)
	}
	if n := d.Topics[event.Impressions].Partitions; n != m.Partitions {
		return StopPartitions, fmt.Errorf("the topics had %d partitions when the state was made, now %d: records of one "+
			"impression would part: stop the workers and give `ranker-worker state reshard`", m.Partitions, n)
	}
	for topic := event.Topic(0); topic < event.Inputs; topic++ {
		if t.reads(topic) {
			if err := t.within(d, topic, cut.inputs[topic]); err != nil {
				return StopTopic, err
			}
		}
	}
	if err := t.within(d, event.Rankings, cut.rankings); err != nil {
		return StopTopic, err
	}
	return "", nil
}

func (t *Task) within(d *Description, topic event.Topic, offset int64) error {
	f, name, p := &d.Topics[topic], t.cfg.TopicNames[topic], t.cfg.Partition
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

// checkWitness reads the witnesses, from the k-th on, again.
func (t *Task) checkWitness(cut cutPositions, k int, again bool, done func()) {
	if k == len(cut.witnesses) {
		done()
		return
	}
	next := func() { t.checkWitness(cut, k+1, again, done) }
	w := cut.witnesses[k]
	if !t.reads(w.topic) || w.Offset < 0 || w.Offset < t.acq.facts.Topics[w.topic].LogStart {
		next()
		return
	}
	doing := fmt.Sprintf("reading the last record read of %s[%d] again", t.cfg.TopicNames[w.topic], t.cfg.Partition)
	part := FetchPart{Topic: w.topic, Offset: w.Offset, MaxBytes: 1}
	t.read(doing, callTimeout+t.cfg.FetchWait, part, func(f *Fetched, err error) {
		switch {
		case err == nil && len(f.Records) > 0 && Matches(w.Witness, &f.Records[0]):
			next()
			return
		case err != nil && !errors.Is(err, ErrOffsetOutOfRange): // says nothing about the record
			t.failed(doing, err, func() { t.checkWitness(cut, k, again, done) })
			return
		}
		err = fmt.Errorf("%s[%d] holds another record at offset %d than the one we read: the topic was recreated or has "+
			"lost records", t.cfg.TopicNames[w.topic], t.cfg.Partition, w.Offset)
		if again {
			t.stop(StopWitness, err)
			return
		}
		t.fails(checking, err)
		t.after(checkAgain, func() { t.checkFacts(cut, true, done) })
	})
}

// witnessOf identifies a record. Timestamps of our own rankings are the broker's, unknown when they are produced: 0.
func witnessOf(offset, timestamp int64, key, value []byte) state.Witness {
	var d xxhash.Digest
	d.Reset()
	d.Write(key)
	d.Write([]byte{0})
	d.Write(value)
	return state.Witness{Offset: offset, Timestamp: timestamp, Hash: d.Sum64()}
}

// witnessOfRecord is that of a record as it was read.
func witnessOfRecord(r *partition.Record) state.Witness {
	w := witnessOf(r.Offset, r.Timestamp, r.Key, r.Value)
	if r.Cut != nil {
		w.Hash = r.Cut.Hash
	}
	return w
}

// Matches tells whether a record is the one that a witness was taken of.
func Matches(w state.Witness, r *partition.Record) bool {
	got := witnessOfRecord(r)
	if w.Timestamp == 0 {
		got.Timestamp = 0
	}
	return got == w
}
