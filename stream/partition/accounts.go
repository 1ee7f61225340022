package partition

import "github.com/ranker-worker/ranker-worker/stream/event"

// verdict is the outcome of a selection or a payoff.
type verdict uint8

const (
	refused   verdict = iota // becomes a dead letter
	taken                    // joined, or applied
	duplicate                // the impression had one before
	late                     // past the impression's deadline
	parked                   // waits for its impression or its selection
	orphan                   // waited in vain, or found no room to wait
)

// accounts counts for the partition and, where a record is about an impression that was ranked, for its learner too.
type accounts struct {
	ledger  ledger
	current *entry // of the record
	table   *learnerTable
}

// count counts for the partition and, once an impression under the id was ranked, for its learner too.
func (a *accounts) count(c count, n int64) {
	a.ledger.add(c, n)
	a.countForLearner(c, n)
}

func (a *accounts) countForLearner(c count, n int64) {
	if a.current.kind > parkedOnly {
		l := a.table.learners[a.current.learner]
		l.ledger.add(c, n)
		l.changed = true
	}
}

// outcome counts an outcome. Refused records are counted where they become dead letters.
func (a *accounts) outcome(t event.Topic, v verdict, n int64) {
	switch v {
	case taken:
		a.count(ofTopic(t, 0, selectionsJoined, payoffsApplied), n)
	case duplicate:
		a.count(ofTopic(t, 0, selectionsDuplicate, payoffsDuplicate), n)
	case late:
		a.count(ofTopic(t, 0, selectionsLate, payoffsLate), n)
	case parked: // the learner may be known only later
		a.ledger.add(ofTopic(t, 0, selectionsParked, payoffsParked), n)
	case orphan:
		a.count(ofTopic(t, 0, selectionsOrphan, payoffsOrphan), n)
	}
}

// reject makes a dead letter of a record with a fault.
func (a *accounts) reject(rec *Record, f *event.Fault, out *Output) {
	a.ledger.add(ofTopic(rec.Topic, impressionsRejected, selectionsRejected, payoffsRejected), 1)
	size := len(rec.Key) + len(rec.Value)
	if rec.Cut != nil {
		size = rec.Cut.Size
	}
	out.DeadLetters = append(out.DeadLetters, DeadLetter{
		Topic: rec.Topic, Offset: rec.Offset, Key: out.keep(rec.Key), Value: out.keep(rec.Value),
		Reason: string(f.Reason), Detail: f.Detail, Size: size,
	})
}
