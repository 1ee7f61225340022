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
		m.counted(rec)
		return nil
	}
	if _, waits := err.(*Wait); waits { // changes made before a Wait are not in the steps
		m.noteActed(acted)
		m.noteDue(m.cur.id, &m.stepping)
	}
	return err
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
	effective := m.stepping.timeOf(in, t, faulty == nil && hasTime, m.time.watermark)
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

// counted counts a processed record, adds it to the log, and drops items that are due.
func (m *Machine) counted(rec *Record) {
	m.time.read(rec.Topic, m.stepping.effective)
	m.ledger.add(ofTopic(rec.Topic, impressionsRead, selectionsRead, payoffsRead), 1)
	if f := m.cfg.CheckCopartition; f != nil && rec.Skipped == "" && f(rec.Key) != m.cfg.Partition {
		m.ledger.add(ofTopic(rec.Topic, impressionsMisplaced, selectionsMisplaced, payoffsMisplaced), 1)
	}
	m.stepped(rec, &m.stepping)
	m.endItems(m.time.watermark, &m.segments)
}

func (m *Machine) stepImpression(in *Input, effective event.Millis, out *Output) error {
	imp, again := &m.reader.impression, in.RefusedEarlier
	l, g, faulty := m.decider.examine(imp, effective)
	switch {
	case again && faulty == nil:
		// The watermark may have moved since, and the learner may not have been configured: the earlier owner's knowledge counts.
		faulty = faultf(event.RefusedEarlier, "an earlier owner of the partition went past it")
	case l == nil && !again:
		if err := m.join.elsewhere.mayKnow(string(imp.Learner)); err != nil {
			return err
		}
	}
	if faulty != nil && !again {
		m.reject(in.Record, faulty, out)
		return nil
	}
	err := m.join.openKey(in)
	if err != nil {
		return err
	}
	if !again {
		m.join.expireDue()
	}
	switch {
	case m.cur.kind > parkedOnly:
		m.count(impressionsDuplicate, 1)
	case again:
		m.reject(in.Record, faulty, out)
	default:
		m.decide(l, in.Record, effective, &g, out)
		err = m.join.retryAll(out)
	}
	m.save(false)
	return err
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
	m.ranked(rec.Key, value, out)
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
	l := m.trials.stateOf(r, m.byName)
	if l == nil {
		l = m.registerUnconfigured(string(r.Learner), "")
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
	if e.kind <= parkedOnly {
		return m.time.watermark > began+m.cfg.ParkingTime
	}
	return e.kind == tombstone || e.offset == unknownOffset || e.offset >= offset
}

// Elsewhere sets the learners of other workers. The map must not change afterwards.
func (m *Machine) Elsewhere(learners Elsewhere) { m.join.elsewhere = learners }

// step steps a selection or a payoff that has been decoded.
func (j *joiner) step(in *Input, effective event.Millis, out *Output) error {
	rec := in.Record
	err := j.openKey(in)
	if err != nil {
		return err
	}
	defer j.save(false)
	j.expireDue()
	v, faulty := j.judge(rec.Topic, effective)
	if err := j.mayConclude(in, effective, v); err != nil {
		return err // due ends have been processed
	}
	j.conclude(rec, effective, v, faulty, out)
	if v == taken && rec.Topic == event.Selections {
		err = j.retry(event.Payoffs, out)
	}
	return err
}

// Walked closes the buckets up to one that DueUpTo returned. The store must hold nothing in them, as asked after DueSegment was stored.
func (m *Machine) Walked(bucket int64) {
	before := m.expiry.floor
	m.expiry.walked(bucket)
	if m.expiry.floor == before { // nothing is recorded then
		return
	}
	if len(m.trials.all) > 0 { // else nothing depends on it
		m.follow()
		m.seen.walked(m.expiry.floor - before)
	}
	m.trials.walked(m.expiry.floor)
}

// Expire processes the due ends of an entry of the walk, and moves it to the bucket of its next deadline.
func (m *Machine) Expire(e state.Entry) error {
	m.stepping = stepping{}
	if err := m.join.open(e.ID, nil, Found{Page: e.Page, Value: e.Value}); err != nil {
		return err
	}
	c := &m.cur
	if s := c.slot; s != nil && (s.page != e.Page || s.deleted) { // it has left that page since
		m.expiry.met(s.segment)
		return nil
	}
	if c.kind == pending && m.time.watermark > c.nextDeadline() {
		m.noteActed(m.prepare())
	}
	m.join.expireDue()
	m.noteDue(m.cur.id, &m.stepping)
	c.changed = true // if nothing else changes, its bucket does
	m.save(true)
	return nil
}
