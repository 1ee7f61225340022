package task

import (
	"errors"
	"fmt"
	"time"
)

// checkAgain is how long after a first mismatch the facts are asked for again: metadata can be stale, and a topic
// that is just being created shows itself by and by.
const checkAgain = time.Second

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
		t.failures.clear(checking)
		done()
	})
}

const checking = "checking the logs"

// checkFit makes sure that topics and store can be used, and are those of the cut, before anything is written to them.
func (t *Task) checkFit(cut cutPositions, again bool, done func()) {
	t.describe(func() {
		reason, err := t.cfg.checkDescription(&t.acq.facts, &t.acq.meta, cut)
		switch {
		case err == nil:
			t.failures.clear(checking)
			done()
		case again:
			t.stop(reason, err)
		default:
			t.failures.note(checking, err, t.now.Mono)
			t.after(checkAgain, func() { t.checkFit(cut, true, done) })
		}
	})
}

func (t *Task) checkFacts(cut cutPositions, again bool, done func()) {
	t.describe(func() {
		reason, err := t.cfg.checkDescription(&t.acq.facts, &t.acq.meta, cut)
		switch {
		case err == nil:
			t.checkWitness(cut, 0, again, done)
		case again:
			t.stop(reason, err)
		default:
			t.failures.note(checking, err, t.now.Mono)
			t.after(checkAgain, func() { t.checkFacts(cut, true, done) })
		}
	})
}

// checkWitness reads the witnesses, from the k-th on, again.
func (t *Task) checkWitness(cut cutPositions, k int, again bool, done func()) {
	if k == len(cut.witnesses) {
		done()
		return
	}
	next := func() { t.checkWitness(cut, k+1, again, done) }
	w := cut.witnesses[k]
	if !t.cfg.reads(w.topic) || w.Offset < 0 || w.Offset < t.acq.facts.Topics[w.topic].LogStart {
		next()
		return
	}
	doing := fmt.Sprintf("reading the last record read of %s[%d] again", t.cfg.TopicNames[w.topic], t.cfg.Partition)
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
