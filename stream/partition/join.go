package partition

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math"
	"slices"

	"github.com/ranker-worker/ranker-worker/delay"
	"github.com/ranker-worker/ranker-worker/policy"
	"github.com/ranker-worker/ranker-worker/state"
	"github.com/ranker-worker/ranker-worker/stream/event"
)

// stepping holds facts about the record being stepped, besides its outcome.
type stepping struct {
	effective event.Millis
	timed     bool  // the record's own time is not believed
	crowded   bool  // there is no room to park it
	due       bool  // the impression under its id ended, because a deadline was past
	dueAt     int64 // offset of that impression
	ranked    bool
}

// timeOf returns a record's effective time: its event time, at most Kafka's timestamp. A time too far ahead counts as now, or as at its
// first step. Old producers leave Kafka's timestamp out (-1). Without any time, a record counts as of the watermark, or as now before the
// first one.
func (s *stepping) timeOf(in *Input, t event.Millis, hasTime bool, watermark event.Millis) event.Millis {
	e := in.Record.Timestamp
	switch untimed := e < 0; {
	case hasTime && untimed:
		e = t
	case hasTime:
		e = min(e, t)
	case untimed && watermark > 0:
		e = watermark
	case untimed:
		e = event.MaxTime
	}
	switch {
	case in.Decided != nil:
		e = in.Decided.Time
	case in.Again != nil && in.Again.Timed:
		e, s.timed = watermark+in.Again.By, true
	case in.Again == nil && e > max(in.Now, in.Latest):
		e, s.timed = in.Now, true
	}
	s.effective = e
	return e
}

// joiner joins selections and payoffs with pending impressions, parks those that come too early, feeds learners, and ends impressions. It
// works on the current entry, which open makes.
type joiner struct {
	*Entries
	*learnerTable
	*accounts
	*reader
	cfg          *Config
	trials       *trials
	stepping     *stepping
	elsewhere    Elsewhere
	unconfigured unconfigured

	candidates []policy.Item // scratch of feedback
	x          []int8        // likewise: of the selected item
}

// open makes the entry of id the current one. It fails if the stored entry names a learner, an arm or an item that does not exist.
func (j *joiner) open(id state.ID, key []byte, found Found) error {
	err := j.openUnchecked(id, key, found)
	if err == nil {
		err = j.cur.named(j.checkEntry(&j.cur.entry))
	}
	return err
}

func (j *joiner) openKey(in *Input) error {
	id := in.ID
	if id == nil {
		of := state.IDOf(in.Record.Key)
		id = &of
	}
	return j.open(*id, in.Record.Key, in.Found)
}

// checkEntry fails if a number in an entry has no meaning in this state.
func (j *joiner) checkEntry(e *entry) error {
	if e.kind == parkedOnly {
		return nil
	}
	if int(e.learner) >= len(j.learners) {
		return fmt.Errorf("%w: learner number %d, but there are only %d", errEntry, e.learner, len(j.learners))
	}
	if e.arm != noArm && int(e.arm) >= len(j.trials.arms.all) {
		return fmt.Errorf("%w: arm number %d, but there are only %d", errEntry, e.arm, len(j.trials.arms.all))
	}
	l := j.learners[e.learner]
	if l.gone {
		return nil
	}
	if e.kind == pending && e.selected >= 0 { // another configuration may have needed more
		e.shrink(l.delay.Needs())
	}
	for _, i := range e.items {
		if i >= l.items.next {
			return fmt.Errorf("%w: item number %d, but learner %q has only given %d", errEntry, i, l.name, l.items.next)
		}
	}
	return nil
}

// begin makes the current entry a pending impression, still without items. Records parked under the id stay.
func (j *joiner) begin(l *learner, d *event.Decision) *entry {
	c := &j.cur
	e := &c.entry
	e.forget()
	e.kind, e.learner, e.offset = pending, l.number, d.Offset
	e.wasSelected, e.paidOnce, e.forgetAt = false, false, 0
	e.began, e.payoffDeadline = d.Began, d.PayoffDeadline
	e.hasSelectionDeadline, e.selectionDeadline = d.HasSelection, d.SelectionDeadline
	if !d.HasSelection {
		e.selectionDeadline = 0
	}
	if len(d.Undecided) == 0 { // else they are of an order that may be wrong
		e.propensities = append(e.propensities, d.Propensities...)
	}
	for _, x := range d.Expected {
		e.expected = append(e.expected, event.Millionths(x))
	}
	e.ranks, e.undecided = append(e.ranks, d.Ranks...), append(e.undecided, d.Undecided...)
	e.instance = d.Instance
	c.changed = true
	j.count(impressionsPending, 1)
	l.ledger.add(impressionsRead, 1)
	return e
}

// mayConclude returns a Wait if the verdict on a new record must not be carried out yet. A record to be parked without room waits in its
// topic as long as its impression or selection may stand in the log unread. Dropping it would make the outcome depend on the interleaving
// of the topics. A record for a learner that only other workers know waits for them.
func (j *joiner) mayConclude(in *Input, effective event.Millis, v verdict) error {
	e := &j.cur.entry
	if v == refused && e.kind == pending && j.learners[e.learner].gone {
		return j.elsewhere.mayKnow(j.learners[e.learner].name)
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
		j.stepping.crowded = in.Again.Crowded
	case j.hasRoom(len(in.Record.Value)):
	case in.Read[awaited] || j.time.newest[awaited] >= effective:
		j.stepping.crowded = true
	default:
		return &Wait{For: fmt.Sprintf("parking is full, and %s is not read to its end (join.max_parked, "+
			"%d bytes, or %d records and %d bytes for one impression)", j.cfg.TopicNames[awaited], j.cfg.MaxParkedBytes, MaxParkedPerID, maxParkedBytesPerID)}
	}
	return nil
}

// hasRoom reports whether a record of this size may be parked under the current id.
func (j *joiner) hasRoom(size int) bool {
	n := &j.ledger.now
	if n[selectionsParked]+n[payoffsParked] >= int64(j.cfg.MaxParked) || n[parkedBytes]+int64(size) > j.cfg.MaxParkedBytes {
		return false
	}
	c := &j.cur
	for i := range c.parked {
		size += len(c.parked[i].value)
	}
	return len(c.parked) == 0 || len(c.parked) < MaxParkedPerID && size <= maxParkedBytesPerID
}

// conclude carries out the verdict on a new record.
func (j *joiner) conclude(rec *Record, effective event.Millis, v verdict, f *event.Fault, out *Output) {
	switch v {
	case refused:
		e := &j.cur.entry
		second := rec.Topic == event.Selections && e.selected >= 0
		if f.Reason == event.LearnerGone && !second && effective <= e.nextDeadline() {
			e.refused, j.cur.changed = true, true
		}
		j.reject(rec, f, out)
		j.countForLearner(ofTopic(rec.Topic, 0, selectionsRejected, payoffsRejected), 1)
	case parked:
		j.park(rec, effective)
	default:
		j.outcome(rec.Topic, v, 1)
	}
}

// park keeps a record under the current id. Without room it is an orphan.
func (j *joiner) park(rec *Record, effective event.Millis) {
	c := &j.cur
	if j.stepping.crowded {
		j.outcome(rec.Topic, orphan, 1)
		j.count(ofTopic(rec.Topic, 0, selectionsCrowded, payoffsCrowded), 1)
		return
	}
	if c.kind == nothing {
		c.kind = parkedOnly
	}
	c.parked = append(c.parked, parkedRecord{
		topic: rec.Topic, offset: rec.Offset, timestamp: rec.Timestamp, effective: effective,
		deadline: max(effective, j.time.watermark) + j.cfg.ParkingTime, value: rec.Value,
		form: j.cfg.Formats.Of(rec.Topic, rec.Value), plain: rec.Plain,
	})
	c.changed = true
	j.outcome(rec.Topic, parked, 1)
	j.ledger.add(parkedBytes, int64(len(rec.Value)))
}

// unpark removes a parked record from the account; the caller removes it from the entry.
func (j *joiner) unpark(p *parkedRecord) {
	j.outcome(p.topic, parked, -1)
	j.ledger.add(parkedBytes, -int64(len(p.value)))
	j.cur.changed = true
}

// retryAll steps the records parked under an impression that has just been ranked: selections in order of arrival, then payoffs.
func (j *joiner) retryAll(out *Output) error {
	if err := j.retry(event.Selections, out); err != nil {
		return err
	}
	return j.retry(event.Payoffs, out)
}

// retry steps the parked records of one topic as if they were read now. Those that must wait longer stay.
func (j *joiner) retry(t event.Topic, out *Output) (err error) {
	e := &j.cur.entry
	e.parked = slices.DeleteFunc(e.parked, func(p parkedRecord) bool {
		if p.topic != t || err != nil {
			return false
		}
		var v verdict
		var f *event.Fault
		if v, f, err = j.rejudge(&p); err != nil || v == parked {
			return false
		}
		j.unpark(&p)
		rec := Record{Topic: p.topic, Offset: p.offset, Timestamp: p.timestamp, Key: j.cur.key, Value: p.value}
		j.conclude(&rec, p.effective, v, f, out)
		return true
	})
	return err
}

func (j *joiner) rejudge(p *parkedRecord) (verdict, *event.Fault, error) {
	f, err := j.decode(p.topic, j.cur.key, event.Content{Form: p.form, Value: p.value, Plain: p.plain}) // limits may have changed since
	if f != nil || err != nil {
		return refused, f, err
	}
	v, f := j.judge(p.topic, p.effective)
	return v, f, nil
}

// judge returns the outcome of the decoded record under the current entry, and joins or applies it.
func (j *joiner) judge(t event.Topic, effective event.Millis) (verdict, *event.Fault) {
	if t == event.Selections {
		return j.judgeSelection(effective)
	}
	return j.judgePayoff(effective)
}

func (j *joiner) judgeSelection(effective event.Millis) (verdict, *event.Fault) {
	e := &j.cur.entry
	switch {
	case e.kind < pending:
		return parked, nil
	case e.kind == tombstone && e.wasSelected:
		return duplicate, nil
	case e.kind == tombstone:
		return late, nil
	}
	l := j.learners[e.learner]
	if l.gone {
		return refused, faultOfGone(l)
	}
	if e.selected >= 0 { // the other items shown are not kept
		return duplicate, nil
	}
	at := j.shownAt(l, j.selection.Item)
	switch {
	case at < 0:
		return refused, notShown(j.selection.Item)
	case effective > e.nextDeadline():
		return late, nil
	}
	j.selectItem(l, at, &j.selection)
	return taken, nil
}

// judgePayoff applies a payoff. For an ended impression it is a duplicate if one was paid, else late. With AggregateSum the impression ends at its deadline, so later
// payoffs are late. For a pending impression contradictions come first, then the deadline, then the wait for a selection.
func (j *joiner) judgePayoff(effective event.Millis) (verdict, *event.Fault) {
	e, p := &j.cur.entry, &j.payoff
	switch {
	case e.kind < pending && !j.cfg.HasSelections && len(p.Item) == 0:
		return refused, itemMissing()
	case e.kind < pending:
		return parked, nil
	case e.kind == tombstone && e.paidOnce:
		return duplicate, nil
	case e.kind == tombstone:
		return late, nil
	}
	l := j.learners[e.learner]
	if f := j.contradiction(l, e, p); f != nil {
		return refused, f
	}
	if effective > e.payoffDeadline {
		return late, nil
	}
	if e.selected < 0 && e.hasSelectionDeadline {
		return parked, nil
	}
	if l.cfg.AggregateSum {
		return j.addUp(l, e, p, effective)
	}
	j.selectPaid(l, e, p)
	r, outside := l.normalise(p.Payoff)
	if outside && l.cfg.RefuseOutOfRange {
		// Something was paid, but its value is unusable: a default at the deadline would invent a payoff.
		if l.keepsSelected(e) {
			l.delay.Expired(j.feedback(l))
		}
		j.segments.loose += eventWeight
		j.end(expired, j.trials.worthUnpaid(e, l), effective)
		return refused, faultf(event.PayoffOutOfRange, "payoff %v lies outside [%v, %v] of learner %q", p.Payoff, l.cfg.PayoffMin,
			l.cfg.PayoffMax, l.name)
	}
	j.countClamped(outside)
	j.endPaid(l, paid, r, effective)
	return taken, nil
}

func (j *joiner) countClamped(outside bool) {
	if outside {
		j.count(payoffsClamped, 1)
	}
}

// contradiction returns the fault of a payoff for a pending impression. Without a selections topic each payoff must name its item, even
// after an earlier one did: it would be refused too if it came before the impression.
func (j *joiner) contradiction(l *learner, e *entry, p *event.Payoff) *event.Fault {
	if l.gone {
		return faultOfGone(l)
	}
	if len(p.Item) == 0 {
		if !e.hasSelectionDeadline && (e.selected < 0 || !j.cfg.HasSelections) {
			return itemMissing()
		}
		return nil
	}
	if e.selected < 0 {
		if j.shownAt(l, p.Item) < 0 {
			return notShown(p.Item)
		}
		return nil
	}
	if !l.keepsSelected(e) {
		return nil // its name has ended, too
	}
	if i, ok := l.items.lookUp(p.Item); !ok || i != e.items[e.selected] {
		return faultf(event.ItemNotSelected, "item %.64q was not selected, %.64q was", p.Item,
			l.items.name(e.items[e.selected]))
	}
	return nil
}

// faultOfGone is the fault of records for an impression whose learner was removed or reset.
func faultOfGone(l *learner) *event.Fault {
	if of, ok := wasReset(l.name); ok {
		return faultf(event.LearnerGone, "learner %q was reset after it had ranked the impression", of)
	}
	return faultf(event.LearnerGone, "learner %q is not configured any more", l.name)
}

func notShown(item []byte) *event.Fault {
	return faultf(event.ItemNotInImpression, "item %.64q is not among the impression's candidates", item)
}

// shownAt returns the position at which an item was shown, -1 if it was not.
func (j *joiner) shownAt(l *learner, item []byte) int32 {
	i, ok := l.items.lookUp(item)
	if !ok {
		return -1
	}
	return j.cur.position(i)
}

// addUp adds a payoff to the sum, and feeds the sum so far to the learner. Payoffs without an event id each count: nothing
// distinguishes them.
func (j *joiner) addUp(l *learner, e *entry, p *event.Payoff, at event.Millis) (verdict, *event.Fault) {
	if len(p.EventID) > 0 {
		h := eventHash(j.cur.key, p.EventID)
		if slices.Contains(e.events, h) {
			return duplicate, nil
		}
		if len(e.events) >= MaxEventsPerID {
			return refused, faultf(event.TooManyEvents, "the impression has %d payoffs with an event id, no more can be kept",
				len(e.events))
		}
		e.events = append(e.events, h)
	}
	j.selectPaid(l, e, p)
	fb, before := j.feedback(l), worthSoFar(e, l)
	// Payoffs are finite, their sum may not be.
	e.sum = min(max(e.sum+p.Payoff, -math.MaxFloat64), math.MaxFloat64)
	e.count++
	e.inParts = true
	j.trials.paidPart(e, l, before, at)
	fb.Payoff, _ = l.normalise(e.sum)
	fb.Age = max(0, at-fb.Began)
	if l.keepsSelected(e) {
		l.delay.Partial(fb)
	}
	j.segments.loose += eventWeight
	j.cur.changed = true
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
func (j *joiner) selectPaid(l *learner, e *entry, p *event.Payoff) {
	if e.selected < 0 {
		j.selectItem(l, j.shownAt(l, p.Item), nil)
	}
}

// selectItem joins a selection at a position; sel is its record, nil if a payoff selects.
func (j *joiner) selectItem(l *learner, at int32, sel *event.Selection) {
	c := &j.cur
	c.choose(at)
	c.refused, c.changed = false, true // a refused selection was sent again
	if sel != nil && sel.ByUtility {
		c.unranked()
		j.trials.leaveOut(&c.entry)
	}
	fb := j.feedback(l)
	if sel != nil && sel.ByUtility { // the entry's order was not the one shown
		fb.Candidates = nil
	} else if sel != nil {
		fb.Utility, fb.HasUtility = sel.Utility, sel.HasUtility
	}
	l.items.addRow(fb.Item)
	l.delay.Selected(fb)
	l.observer.userModel.selected(&c.entry)
	c.shrink(l.delay.Needs())
	j.segments.loose += eventWeight
}

// feedback returns the current entry as its learner sees it, without a payoff.
func (j *joiner) feedback(l *learner) delay.Feedback { return j.feedbackOf(l, &j.cur.entry) }

func (j *joiner) feedbackOf(l *learner, e *entry) delay.Feedback {
	fb := delay.Feedback{Ref: e.offset, Instance: e.instance, Began: e.began, Horizon: e.payoffDeadline - e.began}
	if e.selected >= 0 {
		fb.Item = e.items[e.selected]
	}
	if fb.InParts = e.inParts; e.inParts {
		fb.Before, _ = l.normalise(e.sum)
	}
	if c := l.cfg.Context; c != nil && e.selected >= 0 && c.holds(e.context, e.ofUser, e.hasContext) {
		j.x, fb.Segment = c.vector(j.x[:0], e.context, e.ofUser, e.began)
		fb.X = j.x
	}
	fb.Expected, fb.HasExpected = e.expectedOf()
	fb.Propensity = e.propensity()
	if e.alone || len(e.items) == 0 || len(e.propensities) == 0 && len(e.ranks) == 0 && e.instance < 0 {
		return fb
	}
	if !l.items.has(e.items[0]) { // a ranking teaches about the item on top, which has ended
		return fb
	}
	j.candidates = append(j.candidates[:0], e.items...)
	for k, rank := range e.ranks {
		j.candidates[rank] = e.items[k]
	}
	fb.Candidates, fb.Order, fb.Undecided = j.candidates, e.ranks, e.undecided
	return fb
}

// endPaid feeds the learner a normalised payoff of event time at, or a default, and ends the impression.
func (j *joiner) endPaid(l *learner, how outcome, r float64, at event.Millis) {
	fb := j.feedback(l)
	fb.Payoff, fb.Age, fb.Defaulted = r, max(0, at-fb.Began), how == defaulted
	known := l.keepsSelected(&j.cur.entry)
	if known {
		l.delay.Paid(fb)
	} else if f, removes := l.delay.(delay.ItemRemoving); removes { // items may be kept for ever again
		f.PaidForgotten(fb)
	}
	l.observer.paid(&j.cur.entry, fb.Item, known, how, r)
	j.segments.loose += eventWeight
	j.end(how, r, at)
}

// end makes the current entry a tombstone as of a time, with its worth to an experiment in payoff ranges. With AggregateSum it ended at its deadline:
// later payoffs are late, not duplicates.
func (j *joiner) end(how outcome, worth float64, at event.Millis) {
	e := &j.cur.entry
	j.trials.ended(e, j.learners[e.learner], worth, at, how == paid)
	ended, keptUntil := j.rememberUntil(e)
	j.cur.close(ended, keptUntil, how == paid && !j.learners[e.learner].cfg.AggregateSum)
	j.cur.changed = true
	j.count(impressionsPending, -1)
	j.count([...]count{paid: impressionsPaid, expired: impressionsExpired, defaulted: impressionsDefaulted,
		unselected: impressionsUnselected}[how], 1)
}

// rememberUntil returns when an impression that ends now has ended, and until when its tombstone is kept. It ended at the watermark, or at
// its past deadline: the time must not depend on when the walk looks. It is not before its beginning, which a lagging watermark may be.
func (j *joiner) rememberUntil(e *entry) (ended, keptUntil event.Millis) {
	ended = max(e.began, min(j.time.watermark, e.nextDeadline()))
	if j.cfg.Remember == UntilHorizon {
		return ended, e.payoffDeadline + j.cfg.ParkingTime
	}
	return ended, ended + j.cfg.Remember
}
