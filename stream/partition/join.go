package partition

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math"
	"slices"

	"github.com/ranker-worker/ranker-worker/delay"
	"github.com/ranker-worker/ranker-worker/stream/event"
)

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

// account counts an outcome. Refused records are counted where they become dead letters.
func (m *Machine) account(t event.Topic, v verdict, n int64) {
	switch v {
	case taken:
		m.count(ofTopic(t, 0, selectionsJoined, payoffsApplied), n)
	case duplicate:
		m.count(ofTopic(t, 0, selectionsDuplicate, payoffsDuplicate), n)
	case late:
		m.count(ofTopic(t, 0, selectionsLate, payoffsLate), n)
	case parked: // the learner may be known only later
		m.ledger.add(ofTopic(t, 0, selectionsParked, payoffsParked), n)
	case orphan:
		m.count(ofTopic(t, 0, selectionsOrphan, payoffsOrphan), n)
	}
}

func (m *Machine) stepSelection(in *Input, out *Output) error {
	rec, sel := in.Record, &m.selection
	faulty, err := m.read(rec)
	if err != nil {
		return err
	}
	effective := m.effective(in, sel.Time, faulty == nil && sel.HasTime)
	if faulty != nil {
		m.reject(rec, faulty, out)
		return nil
	}
	if err := m.openKey(in); err != nil {
		return err
	}
	m.settle()
	v, faulty := m.judgeSelection(effective)
	if err := m.mayConclude(in, effective, v); err != nil {
		m.save(false) // due ends have been processed
		return err
	}
	m.conclude(rec, effective, v, faulty, out)
	if v == taken {
		err = m.retry(event.Payoffs, out)
	}
	m.save(false)
	return err
}

func (m *Machine) stepPayoff(in *Input, out *Output) error {
	rec, p := in.Record, &m.payoff
	faulty, err := m.read(rec)
	if err != nil {
		return err
	}
	effective := m.effective(in, p.Time, faulty == nil && p.HasTime)
	if faulty != nil {
		m.reject(rec, faulty, out)
		return nil
	}
	if err := m.openKey(in); err != nil {
		return err
	}
	m.settle()
	v, faulty := m.judgePayoff(effective)
	if err := m.mayConclude(in, effective, v); err != nil {
		m.save(false) // due ends have been processed
		return err
	}
	m.conclude(rec, effective, v, faulty, out)
	m.save(false)
	return nil
}

// mayConclude returns a Wait if the verdict on a new record must not be carried out yet. A record to be parked without room waits in its
// topic as long as its impression or selection may stand in the log unread: dropping it would make the outcome depend on the interleaving
// of the topics. A record for a learner that only other workers know waits for them.
func (m *Machine) mayConclude(in *Input, effective event.Millis, v verdict) error {
	e := &m.cur.entry
	if v == refused && e.kind == pending && m.learners[e.learner].gone {
		return m.unknownHere(m.learners[e.learner].name)
	}
	if v != parked {
		return nil
	}
	awaited := event.Impressions
	if e.kind == pending {
		awaited = event.Selections
	}
	switch {
	case in.Again != nil:
		m.stepping.crowded = in.Again.Crowded
	case m.hasRoom(len(in.Record.Value)):
	case in.Read[awaited] || m.time.newest[awaited] >= effective:
		m.stepping.crowded = true
	default:
		return &Wait{For: fmt.Sprintf("parking is full, and %s is not read to its end (join.max_parked, "+
			"%d bytes, or %d records and %d bytes for one impression)", m.cfg.TopicNames[awaited], m.cfg.MaxParkedBytes, MaxParkedPerID, maxParkedBytesPerID)}
	}
	return nil
}

// hasRoom reports whether a record of this size may be parked under the current id.
func (m *Machine) hasRoom(size int) bool {
	n := &m.ledger.now
	if n[selectionsParked]+n[payoffsParked] >= int64(m.cfg.MaxParked) || n[parkedBytes]+int64(size) > m.cfg.MaxParkedBytes {
		return false
	}
	c := &m.cur
	for i := range c.parked {
		size += len(c.parked[i].value)
	}
	return len(c.parked) == 0 || len(c.parked) < MaxParkedPerID && size <= maxParkedBytesPerID
}

// conclude carries out the verdict on a new record.
func (m *Machine) conclude(rec *Record, effective event.Millis, v verdict, f *event.Fault, out *Output) {
	switch v {
	case refused:
		m.reject(rec, f, out)
		m.countForLearner(ofTopic(rec.Topic, 0, selectionsRejected, payoffsRejected), 1)
	case parked:
		m.park(rec, effective)
	default:
		m.account(rec.Topic, v, 1)
	}
}

// park keeps a record under the current id. Without room it is an orphan.
func (m *Machine) park(rec *Record, effective event.Millis) {
	c := &m.cur
	if m.stepping.crowded {
		m.account(rec.Topic, orphan, 1)
		m.count(ofTopic(rec.Topic, 0, selectionsCrowded, payoffsCrowded), 1)
		return
	}
	if c.kind == nothing {
		c.kind = waiting
	}
	c.parked = append(c.parked, parkedRecord{
		topic: rec.Topic, offset: rec.Offset, timestamp: rec.Timestamp, effective: effective,
		deadline: max(effective, m.time.watermark) + m.cfg.ParkingTime, value: rec.Value,
		form: m.cfg.Formats.Of(rec.Topic, rec.Value), plain: rec.Plain,
	})
	c.changed = true
	m.account(rec.Topic, parked, 1)
	m.ledger.add(parkedBytes, int64(len(rec.Value)))
}

// unpark removes a parked record from the account; the caller removes it from the entry.
func (m *Machine) unpark(p *parkedRecord) {
	m.account(p.topic, parked, -1)
	m.ledger.add(parkedBytes, -int64(len(p.value)))
	m.cur.changed = true
}

// retryAll steps the records parked under an impression that has just been ranked: selections in order of arrival, then payoffs.
func (m *Machine) retryAll(out *Output) error {
	if err := m.retry(event.Selections, out); err != nil {
		return err
	}
	return m.retry(event.Payoffs, out)
}

// retry steps the parked records of one topic as if they were read now. Those that must wait longer stay.
func (m *Machine) retry(t event.Topic, out *Output) error {
	e := &m.cur.entry
	kept := 0
	for i := range e.parked {
		p := e.parked[i]
		if p.topic != t {
			e.parked[kept] = p
			kept++
			continue
		}
		v, f, err := m.rejudge(&p)
		if err != nil {
			return err
		}
		if v == parked {
			e.parked[kept] = p
			kept++
			continue
		}
		m.unpark(&p)
		rec := Record{Topic: p.topic, Offset: p.offset, Timestamp: p.timestamp, Key: m.cur.key, Value: p.value}
		m.conclude(&rec, p.effective, v, f, out)
	}
	clear(e.parked[kept:])
	e.parked = e.parked[:kept]
	return nil
}

func (m *Machine) rejudge(p *parkedRecord) (verdict, *event.Fault, error) {
	f, err := m.decode(p.topic, m.cur.key, &event.Content{Form: p.form, Value: p.value, Plain: p.plain}) // limits may have changed since
	if f != nil || err != nil {
		return refused, f, err
	}
	var v verdict
	if p.topic == event.Selections {
		v, f = m.judgeSelection(p.effective)
	} else {
		v, f = m.judgePayoff(p.effective)
	}
	return v, f, nil
}

// judgeSelection returns the outcome of m.selection under the current entry, and joins it.
func (m *Machine) judgeSelection(effective event.Millis) (verdict, *event.Fault) {
	e := &m.cur.entry
	switch {
	case e.kind < pending:
		return parked, nil
	case e.kind == closed && e.wasSelected:
		return duplicate, nil
	case e.kind == closed:
		return late, nil
	}
	l := m.learners[e.learner]
	if l.gone {
		return refused, gone(l)
	}
	if e.selected >= 0 { // the other items shown are not kept
		return duplicate, nil
	}
	at := m.shownAt(l, m.selection.Item)
	switch {
	case at < 0:
		return refused, notShown(m.selection.Item)
	case effective > e.nextDeadline():
		return late, nil
	}
	m.selectItem(l, at, &m.selection)
	return taken, nil
}

// judgePayoff returns the outcome of m.payoff under the current entry, and applies it.
//
// For an ended impression it is a duplicate if one was paid, else late. With AggregateSum the impression ends at its deadline, so later
// payoffs are late. For a pending impression contradictions come first, then the deadline, then the wait for a selection.
func (m *Machine) judgePayoff(effective event.Millis) (verdict, *event.Fault) {
	e, p := &m.cur.entry, &m.payoff
	switch {
	case e.kind < pending && !m.cfg.HasSelections && len(p.Item) == 0:
		return refused, itemMissing()
	case e.kind < pending:
		return parked, nil
	case e.kind == closed && e.paidOnce:
		return duplicate, nil
	case e.kind == closed:
		return late, nil
	}
	l := m.learners[e.learner]
	if f := m.contradiction(l, e, p); f != nil {
		return refused, f
	}
	if effective > e.payoffDeadline {
		return late, nil
	}
	if e.selected < 0 && e.hasSelectionDeadline {
		return parked, nil
	}
	if l.cfg.AggregateSum {
		return m.addUp(l, e, p, effective)
	}
	m.selectPaid(l, e, p)
	r, outside := l.normalise(p.Payoff)
	if outside && l.cfg.RefuseOutOfRange {
		// Something was paid, but its value is unusable: a default at the deadline would invent a payoff.
		l.delay.Expired(m.feedback(l))
		m.segments.loose += eventWeight
		m.end(expired, m.trials.worthUnpaid(e, l))
		return refused, faultf(event.PayoffOutOfRange, "payoff %v lies outside [%v, %v] of learner %q", p.Payoff, l.cfg.PayoffMin,
			l.cfg.PayoffMax, l.name)
	}
	m.countClamped(outside)
	m.endPaid(l, paid, r, effective)
	return taken, nil
}

func (m *Machine) countClamped(outside bool) {
	if outside {
		m.count(payoffsClamped, 1)
	}
}

// contradiction returns the fault of a payoff for a pending impression. Without a selections topic each payoff must name its item, even
// after an earlier one did: it would be refused too if it came before the impression.
func (m *Machine) contradiction(l *learner, e *entry, p *event.Payoff) *event.Fault {
	if l.gone {
		return gone(l)
	}
	if len(p.Item) == 0 {
		if !e.hasSelectionDeadline && (e.selected < 0 || !m.cfg.HasSelections) {
			return itemMissing()
		}
		return nil
	}
	if e.selected < 0 {
		if m.shownAt(l, p.Item) < 0 {
			return notShown(p.Item)
		}
		return nil
	}
	if i, ok := l.items.lookUp(p.Item); !ok || i != e.items[e.selected] {
		return faultf(event.ItemNotSelected, "item %.64q was not selected, %.64q was", p.Item,
			l.items.name(e.items[e.selected]))
	}
	return nil
}

// gone is the fault of records for an impression whose learner was removed or reset.
func gone(l *learner) *event.Fault {
	if of, ok := wasReset(l.name); ok {
		return faultf(event.LearnerGone, "learner %q was reset after it had ranked the impression", of)
	}
	return faultf(event.LearnerGone, "learner %q is not configured any more", l.name)
}

func notShown(item []byte) *event.Fault {
	return faultf(event.ItemNotInImpression, "item %.64q is not among the impression's candidates", item)
}

// shownAt returns the position at which an item was shown, -1 if it was not.
func (m *Machine) shownAt(l *learner, item []byte) int32 {
	i, ok := l.items.lookUp(item)
	if !ok {
		return -1
	}
	return m.cur.position(i)
}

// addUp adds a payoff to the sum, and feeds the sum so far to the learner. Payoffs without an event id each count: nothing
// distinguishes them.
func (m *Machine) addUp(l *learner, e *entry, p *event.Payoff, at event.Millis) (verdict, *event.Fault) {
	if len(p.EventID) > 0 {
		h := eventHash(m.cur.key, p.EventID)
		if slices.Contains(e.events, h) {
			return duplicate, nil
		}
		if len(e.events) >= MaxEventsPerID {
			return refused, faultf(event.TooManyEvents, "the impression has %d payoffs with an event id, no more can be kept",
				len(e.events))
		}
		e.events = append(e.events, h)
	}
	m.selectPaid(l, e, p)
	fb := m.feedback(l)
	// Payoffs are finite, their sum may not be.
	e.sum = min(max(e.sum+p.Payoff, -math.MaxFloat64), math.MaxFloat64)
	e.count++
	e.inParts = true
	fb.Payoff, _ = l.normalise(e.sum)
	fb.Age = max(0, at-fb.Began)
	l.delay.Partial(fb)
	m.segments.loose += eventWeight
	m.cur.changed = true
	return taken, nil
}

// eventHash identifies an event id within one impression. It is stored, so it never changes. It is part of a strong hash: with a weak one,
// senders could make two event ids that count as one.
func eventHash(id, event []byte) uint64 {
	var length [8]byte
	binary.LittleEndian.PutUint64(length[:], uint64(len(id)))
	h := sha256.New()
	for _, part := range [][]byte{length[:], id, event} {
		_, _ = h.Write(part) // never fails
	}
	return binary.LittleEndian.Uint64(h.Sum(nil))
}

// selectPaid makes a payoff the selection too, if there is none and none can come.
func (m *Machine) selectPaid(l *learner, e *entry, p *event.Payoff) {
	if e.selected < 0 {
		m.selectItem(l, m.shownAt(l, p.Item), nil)
	}
}

// selectItem joins a selection at a position; sel is its record, nil if a payoff selects.
func (m *Machine) selectItem(l *learner, at int32, sel *event.Selection) {
	c := &m.cur
	c.choose(at)
	c.changed = true
	if sel != nil && sel.ByUtility {
		c.unranked()
		m.trials.leaveOut(&c.entry)
	}
	fb := m.feedback(l)
	if sel != nil && sel.ByUtility { // the entry's order was not the one shown
		fb.Candidates = nil
	} else if sel != nil {
		fb.Utility, fb.HasUtility = sel.Utility, sel.HasUtility
	}
	l.items.addRow(fb.Item)
	l.delay.Selected(fb)
	l.conduct.selected(&c.entry)
	c.shrink(l.delay.Needs())
	m.segments.loose += eventWeight
}

// feedback returns the current entry as its learner sees it, without a payoff.
func (m *Machine) feedback(l *learner) delay.Feedback {
	e, s := &m.cur.entry, &m.scratch
	fb := delay.Feedback{Ref: e.offset, Instance: e.instance, Began: e.began}
	if e.selected >= 0 {
		fb.Item = e.items[e.selected]
	}
	if fb.InParts = e.inParts; e.inParts {
		fb.Before, _ = l.normalise(e.sum)
	}
	fb.X, fb.Segment = m.vector(l)
	fb.Expected, fb.HasExpected = e.expectedOf()
	fb.Propensity = e.propensity()
	if e.alone || len(e.propensities) == 0 && len(e.ranks) == 0 && e.instance < 0 {
		return fb
	}
	s.candidates = append(s.candidates[:0], e.items...)
	for k, rank := range e.ranks {
		s.candidates[rank] = e.items[k]
	}
	fb.Candidates, fb.Order, fb.Undecided = s.candidates, e.ranks, e.undecided
	return fb
}

// endPaid feeds the learner a normalised payoff of event time at, or a default, and ends the impression.
func (m *Machine) endPaid(l *learner, how outcome, r float64, at event.Millis) {
	fb := m.feedback(l)
	fb.Payoff, fb.Age, fb.Defaulted = r, max(0, at-fb.Began), how == defaulted
	known := m.keepsSelected(l)
	if known {
		l.delay.Paid(fb)
	} else {
		l.delay.(delay.ItemRemoving).PaidForgotten(fb)
	}
	l.conduct.paid(r)
	l.comparison.paid(&m.cur.entry, r)
	if known && how == paid && l.cfg.ExpiryDefault == nil {
		l.drops.paid(fb.Item, r)
	}
	m.segments.loose += eventWeight
	m.end(how, r)
}

// end makes the current entry a tombstone, with its worth to an experiment in payoff ranges. With AggregateSum it ended at its deadline:
// later payoffs are late, not duplicates.
func (m *Machine) end(how outcome, worth float64) {
	e := &m.cur.entry
	m.trials.ended(e, m.learners[e.learner], worth)
	ended, keptUntil := m.rememberUntil(e)
	m.cur.close(ended, keptUntil, how == paid && !m.learners[e.learner].cfg.AggregateSum)
	m.cur.changed = true
	m.count(impressionsPending, -1)
	m.count([...]count{paid: impressionsPaid, expired: impressionsExpired, defaulted: impressionsDefaulted,
		unselected: impressionsUnselected}[how], 1)
}

// rememberUntil returns when an impression that ends now has ended, and until when its tombstone is kept. It ended at the watermark, or at
// its past deadline: the time must not depend on when the walk looks. It is not before its beginning, which a lagging watermark may be.
func (m *Machine) rememberUntil(e *entry) (ended, keptUntil event.Millis) {
	ended = max(e.began, min(m.time.watermark, e.nextDeadline()))
	if m.cfg.Remember == UntilHorizon {
		return ended, e.payoffDeadline + m.cfg.ParkingTime
	}
	return ended, ended + m.cfg.Remember
}
