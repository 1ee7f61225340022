package partition

import (
	"errors"
	"fmt"
	"math"

	"github.com/ranker-worker/ranker-worker/state"
	"github.com/ranker-worker/ranker-worker/stream/event"
)

// ErrDecision means that a decision in the log cannot belong to the impression it names: log and state do not fit.
var ErrDecision = errors.New("partition: the decision in the log contradicts the state")

// stepping holds facts about the record being stepped, besides its outcome.
type stepping struct {
	effective event.Millis
	timed     bool  // the record's own time is not believed
	crowded   bool  // there is no room to park it
	due       bool  // the impression under its id ended, because a deadline was past
	dueAt     int64 // offset of that impression
	ranked    bool
}

// Step processes one record. A faulty record is no error: it becomes a dead letter. A *Wait means that the record cannot be stepped yet.
// Any other error means that stored state or a logged decision contradicts the input.
//
// First it does all that the watermark has made due for the record's id. So the outcome depends on the watermark, never on the progress of
// the expiry walk.
func (m *Machine) Step(in *Input, out *Output) error {
	rec := in.Record
	if rec.Topic >= event.Inputs || rec.Topic == event.Selections && !m.cfg.HasSelections {
		return fmt.Errorf("partition: a record of topic %d, which is not configured as an input", rec.Topic)
	}
	m.stepping = stepping{}
	acted := m.prepare()
	err := m.stepFetched(in, out)
	if err == nil {
		m.stepped(rec)
		return nil
	}
	if _, waits := err.(*Wait); waits { // changes made before a Wait are not in the steps
		m.noteActed(acted)
		m.noteDue()
	}
	return err
}

// prepare acts upon event time if it has moved, and reports whether it has. It precedes all decisions. Experiments move to each epoch.
func (m *Machine) prepare() (acted bool) {
	if m.epoch == 0 || len(m.trials.all) > 0 {
		m.follow()
	}
	if !m.behind {
		return false
	}
	m.behind = false
	m.advance(m.time.watermark)
	return true
}

// noteActed records an observation that event time was acted upon between two records.
func (m *Machine) noteActed(acted bool) {
	if acted {
		m.seen.acted(m.time.watermark)
	}
}

// noteDue records an observation that an impression ended because its deadline was past.
func (m *Machine) noteDue() {
	if m.stepping.due {
		m.seen.visit(m.cur.id, m.stepping.dueAt)
	}
}

func (m *Machine) stepFetched(in *Input, out *Output) error {
	rec := in.Record
	if rec.Skipped != "" {
		// It is unreadable. So a decision made while it was readable is passed over: its selections and payoffs become those of an unknown
		// impression.
		m.stepping.ranked, m.stepping.effective = in.Decided != nil, math.MinInt64
		m.reject(rec, faultf(event.Skipped, "%s", rec.Skipped), out)
		return nil
	}
	faulty, err := m.reader.read(rec)
	if err != nil {
		return err
	}
	t, hasTime := m.reader.timeOf(rec.Topic)
	effective := m.effective(in, t, faulty == nil && hasTime)
	switch {
	case in.Decided != nil:
		return m.adopt(in, faulty == nil, out)
	case faulty != nil:
		m.reject(rec, faulty, out)
		return nil
	case rec.Topic == event.Impressions:
		return m.stepImpression(in, effective, out)
	}
	return m.join.step(in, effective, out)
}

// effective returns a record's effective time: its event time, at most Kafka's timestamp. A time too far ahead counts as now, or as at its
// first step.
func (m *Machine) effective(in *Input, t event.Millis, hasTime bool) event.Millis {
	e := in.Record.Timestamp
	if hasTime {
		e = min(e, t)
	}
	switch {
	case in.Decided != nil:
		e = in.Decided.Time
	case in.Again != nil && in.Again.Timed:
		e, m.stepping.timed = m.time.watermark+in.Again.By, true
	case in.Again == nil && e > max(in.Now, in.Latest):
		e, m.stepping.timed = in.Now, true
	}
	m.stepping.effective = e
	return e
}

// stepped counts a processed record and adds it to the steps.
func (m *Machine) stepped(rec *Record) {
	m.time.read(rec.Topic, m.stepping.effective)
	m.ledger.add(ofTopic(rec.Topic, impressionsRead, selectionsRead, payoffsRead), 1)
	if f := m.cfg.CheckCopartition; f != nil && rec.Skipped == "" && f(rec.Key) != m.cfg.Partition {
		m.ledger.add(ofTopic(rec.Topic, impressionsMisplaced, selectionsMisplaced, payoffsMisplaced), 1)
	}
	m.steps.at(m.time.watermark)
	m.seen.stepped(m.time.watermark)
	defer m.endItems(m.time.watermark, &m.segments)
	if m.stepping.ranked {
		m.steps.ranked(rec)
		m.seen.decided()
		return
	}
	if m.stepping.timed {
		m.steps.timed(m.stepping.effective)
	}
	if m.stepping.crowded {
		m.steps.crowded()
	}
	m.steps.took(rec)
}

func (m *Machine) stepImpression(in *Input, effective event.Millis, out *Output) error {
	imp := &m.reader.impression
	l, g, faulty := m.decider.examine(imp, effective)
	if in.RefusedEarlier {
		return m.refuseAgain(in, faulty, out)
	}
	if l == nil {
		if err := m.join.elsewhere.mayKnow(string(imp.Learner)); err != nil {
			return err
		}
	}
	if faulty != nil {
		m.reject(in.Record, faulty, out)
		return nil
	}
	if err := m.join.openKey(in); err != nil {
		return err
	}
	m.join.settle()
	var err error
	if m.cur.kind > waiting {
		m.count(impressionsDuplicate, 1)
	} else {
		m.decide(l, in.Record, effective, &g, out)
		err = m.join.retryAll(out)
	}
	m.save(false)
	return err
}

// refuseAgain treats an impression that an earlier owner left unranked as that owner did. It uses that owner's knowledge: the watermark may
// have moved since, and the learner may not be configured any more.
func (m *Machine) refuseAgain(in *Input, faulty *event.Fault, out *Output) error {
	if err := m.join.openKey(in); err != nil {
		return err
	}
	if m.cur.kind > waiting {
		m.count(impressionsDuplicate, 1)
		return nil
	}
	if faulty == nil {
		faulty = faultf(event.RefusedEarlier, "an earlier owner of the partition went past it")
	}
	m.reject(in.Record, faulty, out)
	return nil
}

// decide ranks a new impression and makes it the current entry.
func (m *Machine) decide(l *learner, rec *Record, effective event.Millis, g *assignment, out *Output) {
	m.follow()
	d := &m.decider
	d.decide(l, &m.reader.impression, rec.Offset, effective, g)
	out.room(d.size)
	start := len(out.buf)
	out.buf = event.AppendRanking(out.buf, &d.ranking)
	value := out.buf[start:len(out.buf):len(out.buf)]
	m.makeRoomFor(len(rec.Key)+len(value), out)
	out.Rankings = append(out.Rankings, Message{Key: out.keep(rec.Key), Value: value, Steps: m.stepsOf(out), Seen: m.seenOf(out)})
	m.stepping.ranked = true
	e := m.join.begin(l, &d.ranking.Decision)
	g.enrol(e)
	d.fill(l, e)
}

// adopt applies a decision from the log. Present rules do not apply: the record need not parse, nor its learner be configured.
func (m *Machine) adopt(in *Input, parsed bool, out *Output) error {
	rec, r := in.Record, in.Decided
	if l := m.byName[string(r.Learner)]; l == nil || l.gone {
		if err := m.join.elsewhere.mayKnow(string(r.Learner)); err != nil {
			return err
		}
	}
	var imp *event.Impression
	if parsed {
		imp = &m.reader.impression
	}
	if err := fits(r, rec, imp); err != nil {
		return fmt.Errorf("%w: impression %.64q at offset %d: %w", ErrDecision, rec.Key, rec.Offset, err)
	}
	if err := m.join.openKey(in); err != nil {
		return err
	}
	m.join.makeRoom(r)
	l := m.stateOf(r, &m.trials)
	if l == nil {
		l = m.registerUnconfigured(string(r.Learner))
	}
	m.follow() // the learner may take up items
	e := m.join.begin(l, &r.Decision)
	m.trials.enrolAdopted(e, r)
	m.ledger.add(decisionsAdopted, 1)
	m.stepping.ranked = true
	if l.gone { // its items are not loaded: the impression can only expire
		e.propensities, e.ranks, e.undecided, e.instance = e.propensities[:0], e.ranks[:0], e.undecided[:0], -1
		e.expected = e.expected[:0]
	} else {
		m.decider.adopt(l, e, r, imp)
	}
	err := m.join.retryAll(out)
	m.save(false)
	return err
}

// fits returns why a logged decision cannot be about an impression. imp is nil if the record does not parse.
func fits(r *event.Ranking, rec *Record, imp *event.Impression) error {
	d := &r.Decision
	switch {
	case string(r.ID) != string(rec.Key) || d.Offset != rec.Offset:
		return fmt.Errorf("it is for impression %.64q at offset %d", r.ID, d.Offset)
	case imp != nil && !permutes(r.Items, imp.Candidates):
		return errors.New("its items are not the candidates")
	case len(d.Propensities) != 0 && len(d.Propensities) != len(r.Items):
		return fmt.Errorf("%d propensities for %d items", len(d.Propensities), len(r.Items))
	case len(d.Expected) != 0 && len(d.Expected) != len(r.Items):
		return fmt.Errorf("%d are expected of %d items", len(d.Expected), len(r.Items))
	}
	return nil
}

// Holds reports whether the state includes the decision about an impression read at offset that began then. Found is the look-up's result.
// An ended impression may be forgotten and its id reused, but not before the parking time is over. An entry with a selection, or a
// tombstone, does not say which impression it is of.
func (m *Machine) Holds(id state.ID, found Found, offset int64, began event.Millis) bool {
	if m.join.open(id, nil, found) != nil {
		return false
	}
	e := &m.cur.entry
	if e.kind <= waiting {
		return m.time.watermark > began+m.cfg.ParkingTime
	}
	return e.kind == closed || e.offset == unknownOffset || e.offset >= offset
}

// Elsewhere lists learners of the group's other workers. A record for a learner unknown here waits if another worker has it, or may have
// it.
type Elsewhere struct {
	Learners map[string]bool // names of other workers' learners
	Partial  bool            // not all workers have announced theirs yet
}

// Elsewhere sets the learners of other workers. The map must not change afterwards.
func (m *Machine) Elsewhere(learners Elsewhere) { m.join.elsewhere = learners }

// mayKnow returns a Wait if another worker has the learner, or may have it.
func (e *Elsewhere) mayKnow(name string) error {
	switch {
	case e.Learners[name]:
		return &Wait{For: fmt.Sprintf("learner %.64q is not configured here, but it is at another worker of the group", name)}
	case e.Partial && name != "":
		return &Wait{For: fmt.Sprintf("learner %.64q is not configured here; other workers of the group have some seconds to announce it", name)}
	}
	return nil
}
