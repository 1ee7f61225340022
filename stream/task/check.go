package task

import (
	"errors"
	"fmt"
	"time"

	"github.com/cespare/xxhash/v2"

	"github.com/ranker-worker/ranker-worker/state"
	"github.com/ranker-worker/ranker-worker/stream/event"
	"github.com/ranker-worker/ranker-worker/stream/partition"
)

// checkAgain is the pause before facts are asked for again after a mismatch: metadata may be stale, and a new topic appears piece by piece.
const checkAgain = time.Second

func (t *Task) describe(done func()) {
	ask(t, "describing the topics", callTimeout, Describe{}, func(d Description) {
		t.acq.facts = d
		done()
	})
}

// check compares logs, topics' settings and store with the cut, and calls done if all
// fits. A mismatch that persists with fresh metadata stops the partition (invariant 7).
func (t *Task) check(cut cutPositions, done func()) {
	t.checkFacts(cut, false, func() {
		t.failures.clear(checking)
		done()
	})
}

const checking = "checking the logs"

// checkFit checks that topics and store are usable and belong to the cut, before anything is written to them. fit is called with again, or
// true after a mismatch.
func (t *Task) checkFit(cut cutPositions, again bool, fit func(again bool)) {
	t.describe(func() {
		reason, err := t.cfg.checkDescription(&t.acq.facts, &t.acq.meta, cut)
		switch {
		case err == nil:
			fit(again)
		case again:
			t.stop(reason, err)
		default:
			t.failures.note(checking, err, t.now.Mono)
			t.after(checkAgain, func() { t.checkFit(cut, true, fit) })
		}
	})
}

func (t *Task) checkFacts(cut cutPositions, again bool, done func()) {
	t.checkFit(cut, again, func(again bool) { t.checkWitness(cut, 0, again, done) })
}

// ErrNothingRead: the broker has more records, but sends none yet. Its tiered storage may be slow.
var ErrNothingRead = errors.New("the broker has more records, but sends none")

// checkWitness reads the witnesses again, from the k-th on.
func (t *Task) checkWitness(cut cutPositions, k int, again bool, done func()) {
	if k == len(cut.witnesses) {
		done()
		return
	}
	next := func() { t.checkWitness(cut, k+1, again, done) }
	w := cut.witnesses[k]
	doing := fmt.Sprintf("reading the last record read of %s[%d] again", t.cfg.TopicNames[w.topic], t.cfg.Partition)
	if !t.cfg.reads(w.topic) || w.Offset < 0 || w.Offset < t.acq.facts.Topics[w.topic].LogStart {
		t.failures.clear(doing)
		next()
		return
	}
	it := t.fetchFrom(w.topic, w.Offset)
	it.MaxBytes = 1
	t.read(doing, callTimeout+t.cfg.FetchWait, it, func(f *Fetched, err error) {
		switch {
		case err == nil && len(f.Records) > 0 && Matches(w.Witness, &f.Records[0]):
			next()
			return
		case err != nil && !errors.Is(err, ErrOffsetOutOfRange): // says nothing about the record
			t.failed(doing, err, func() { t.checkWitness(cut, k, again, done) })
			return
		case err == nil && len(f.Records) == 0 && f.Next <= w.Offset: // tiered storage was too slow, or the log ends here by now
			t.failed(doing, ErrNothingRead, func() { t.checkFacts(cut, again, done) })
			return
		}
		err = fmt.Errorf("%s[%d] holds another record at offset %d than the one we read: the topic was recreated or has "+
			"lost records", t.cfg.TopicNames[w.topic], t.cfg.Partition, w.Offset)
		if again {
			t.stop(StopWitness, err)
			return
		}
		t.failures.note(checking, err, t.now.Mono)
		t.after(checkAgain, func() { t.checkFacts(cut, true, done) })
	})
}

// witness is a topic's record that must not have changed.
type witness struct {
	topic event.Topic
	state.Witness
}

// witnessOf identifies a record. The timestamp of our own ranking is set by the broker, and unknown when it is produced: 0.
func witnessOf(offset, timestamp int64, key, value []byte) state.Witness {
	var d xxhash.Digest
	d.Reset()
	d.Write(key)
	d.Write([]byte{0})
	d.Write(value)
	return state.Witness{Offset: offset, Timestamp: timestamp, Hash: d.Sum64()}
}

func witnessOfRecord(r *partition.Record) state.Witness {
	w := witnessOf(r.Offset, r.Timestamp, r.Key, r.Value)
	if r.Cut != nil {
		w.Hash = r.Cut.Hash
	}
	return w
}

// Matches reports whether a record is the one of a witness.
func Matches(w state.Witness, r *partition.Record) bool {
	got := witnessOfRecord(r)
	if w.Timestamp == 0 {
		got.Timestamp = 0
	}
	return got == w
}
