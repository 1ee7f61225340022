package checker

import (
	"fmt"
	"math"
	"slices"

	"github.com/cespare/xxhash/v2"

	"github.com/ranker-worker/ranker-worker/config"
	"github.com/ranker-worker/ranker-worker/stream/event"
)

// compare compares an id's stored entry with the expected one. The worker may not have processed
// ends due by event time since the id's last record: then the entry is as of that record.
func (f *fold) compare(id string, l *life) {
	e := f.state.entries[storedID(id)]
	if e == nil {
		f.missing(id, l)
		return
	}
	if l.open {
		if e.kind == pending && (e.offset == l.offset || e.offset < 0 && e.payDeadline == l.payDeadline) {
			f.compareDecision(id, l, e)
		}
		if e.kind == pending {
			f.pending++
		}
		return
	}
	switch {
	case e.kind == parkedOnly:
		f.compareWaiting(id, l, e)
	case l.kind <= parkedOnly:
		f.phantom(id, e)
	case !f.compareDecision(id, l, e):
	case e.kind == pending:
		f.pending++
		f.comparePending(id, l, e)
	default:
		f.compareEnd(id, l, e)
	}
}

// missing checks an id without a stored entry: everything must be over.
func (f *fold) missing(id string, l *life) {
	f.settle(l, f.watermark)
	if l.open {
		return
	}
	there := f.out.must(entriesLost, l.kind <= parkedOnly || !f.state.complete, id,
		say("an entry of the impression at offset %d, which ended or ends, until %d", l.offset, l.kept.least), say("none at watermark %d", f.watermark))
	if !there && l.kind == pending {
		f.doubt(l, anyEnd)
	}
	for i := range l.waits {
		f.compareParked(id, &l.waits[i], nil, true)
	}
}

func (f *fold) phantom(id string, e *entry) {
	f.out.broken(entriesPhantom, id, "an impression of the log, or records that wait for one", say("an entry of kind %d, offset %d", e.kind, e.offset))
}

// compareWaiting checks an entry with parked records only.
func (f *fold) compareWaiting(id string, l *life, e *entry) {
	f.out.must(entriesLost, l.kind <= parkedOnly, id, say("an entry of the impression at offset %d", l.offset), "records that wait for one")
	f.compareWaits(id, l, e)
}

// compareWaits checks that the parked records are those that must wait, byte by byte, and no others.
func (f *fold) compareWaits(id string, l *life, e *entry) {
	for i := range l.waits {
		at := slices.IndexFunc(e.parked, func(p parked) bool { return p.topic == l.waits[i].topic && p.offset == l.waits[i].offset })
		var p *parked
		if at >= 0 {
			p = &e.parked[at]
		}
		f.compareParked(id, &l.waits[i], p, e.kind == parkedOnly)
	}
	for i := range e.parked {
		p := &e.parked[i]
		due := slices.ContainsFunc(l.waits, func(r record) bool { return r.topic == p.topic && r.offset == p.offset })
		f.out.must(entriesParked, due, say("%s: topic %d at offset %d", id, p.topic, p.offset), "not parked", say("%.100q", p.value))
	}
}

// compareParked compares one waiting record with its stored form, if any. One that waited long enough
// for its impression may be gone; one that waits for a selection stays as long as its impression.
func (f *fold) compareParked(id string, r *record, p *parked, impression bool) {
	over := impression && f.watermark > r.since+f.parking.least
	switch {
	case p == nil && !f.out.must(entriesParked, over || !f.state.complete, f.at(r.topic, r.offset, []byte(id)), "parked", "not parked"):
		f.count(r.topic, anyFate)
	case p == nil:
		f.count(r.topic, isOrphan)
	default:
		ok := r.hash == xxhash.Sum64(p.value) && p.effective == r.effective &&
			p.deadline >= r.since+f.parking.least && p.deadline <= r.since+f.parking.most
		f.out.must(entriesParked, ok, f.at(r.topic, r.offset, []byte(id)),
			say("the record of the log, of time %d, until %d", r.effective, r.since+f.parking.least),
			say("time %d, until %d: %.100q", p.effective, p.deadline, p.value))
		f.count(r.topic, isParked)
	}
}

// compareDecision compares the stored impression with its decision.
func (f *fold) compareDecision(id string, l *life, e *entry) bool {
	f.out.ok(entriesLost, true)
	if l.learner == nil {
		return false
	}
	same := f.state.learners[e.learner] == l.learner.name
	if e.kind == pending {
		same = same && (e.offset == l.offset || e.offset < 0 && e.selected >= 0) && e.payDeadline == l.payDeadline &&
			(e.selected >= 0 || !l.hasSelection || e.selDeadline == l.selDeadline) && e.began == l.began
	}
	const decided = "learner %s, offset %d, began %d, deadlines %d and %d"
	if !f.out.ok(entriesDecision, same) {
		f.out.breach(entriesDecision, id, say(decided, l.learner.name, l.offset, l.began, l.selDeadline, l.payDeadline),
			say(decided, f.state.learners[e.learner], e.offset, e.began, e.selDeadline, e.payDeadline))
		f.lose(l)
		return false
	}
	if e.kind == pending {
		f.compareArm(id, l, e)
	}
	if e.kind != pending || l.learner.reset != nil { // then even its items' names are gone
		return true
	}
	at := f.shown(l, e)
	same = e.instance == l.instance && e.hasSelection == l.hasSelection && sameExpected(e, at, l.expected)
	switch {
	case e.selected < 0:
		same = same && slices.Equal(e.propensities, l.propensities)
	case len(l.propensities) > 0:
		same = same && at >= 0 && len(e.propensities) == 1 && at < len(l.propensities) && e.propensities[0] == l.propensities[at]
	default:
		same = same && len(e.propensities) == 0
	}
	switch {
	case e.alone:
		same = same && at >= 0 && (!e.ordered || len(l.ranks) == 0 || e.favourite == (int(l.ranks[at]) == len(l.ranks)-1))
	case l.recorded || len(l.ranks) > 0 && len(e.ranks) > 0: // one that was adopted unread has none
		want := l.ranks
		if !l.recorded && l.instance < 0 { // only losses depend on all ranks
			want = keptOrder(leadersOf(l.ranks), len(l.ranks))
		}
		same = same && slices.Equal(e.ranks, want) && slices.Equal(e.undecided, l.undecided)
	}
	if l.learner.context != nil {
		same = same && sameContext(l, e, at)
	}
	same = same && (e.alone || len(e.items) == len(l.items))
	for k := 0; same && !e.alone && k < len(e.items); k++ {
		same = l.learner.number(e.items[k]) == l.items[k] || l.learner.hasEnded(f, e.items[k], e)
	}
	if !f.out.ok(entriesDecision, same) {
		f.out.breach(entriesDecision, id, fmt.Sprintf("items %v, instance %d, propensities %v, expected %v", f.names(l.items), l.instance,
			l.propensities, l.expected),
			fmt.Sprintf("items numbered %v, instance %d, propensities %v, expected %v millionths, context %v", e.items, e.instance, e.propensities,
				e.expected, e.context))
	}
	return true
}

// shown returns the position of the stored selection; -1 if there is none, or it was not shown.
func (f *fold) shown(l *life, e *entry) int {
	switch {
	case e.selected < 0 || int(e.selected) >= len(e.items):
		return -1
	case e.alone && l.learner != nil && l.learner.hasEnded(f, e.items[0], e): // the item's name is gone
		return l.selected
	case e.alone && l.learner != nil:
		return slices.Index(l.items, l.learner.number(e.items[0]))
	}
	return int(e.selected)
}

// sameExpected compares stored expected payoffs with the decision's: of each item, or of the selected one, shown at a position.
func sameExpected(e *entry, at int, expected []float64) bool {
	if at >= 0 && len(expected) > 0 {
		if at >= len(expected) {
			return false
		}
		expected = expected[at:][:1]
	}
	return slices.EqualFunc(e.expected, expected, func(stored int64, x float64) bool { return stored == int64(math.Round(x*1e6)) })
}

func (f *fold) names(items []uint32) []string {
	all := make([]string, len(items))
	for i, n := range items {
		all[i] = f.items.name(n)
	}
	return all
}

// comparePending checks a stored impression that has not ended.
func (f *fold) comparePending(id string, l *life, e *entry) {
	if l.kind == tombstone {
		broken := entriesOutcome
		if l.ends == wasPaid {
			broken = entriesPayoff
		}
		f.out.broken(broken, id, say("ended: %s", l.ends), "pending")
		return
	}
	f.count(event.Impressions, isPending)
	at := f.shown(l, e)
	if l.learner.reset != nil && e.alone { // the item's name is gone
		at = l.selected
	}
	f.out.must(entriesSelection, at == l.selected, id, f.selectedName(l, l.selected), f.selectedName(l, at))
	const paid = "%d payoffs, %d of them with an event id, sum %v"
	if same := e.count == l.count && near(e.sum, l.sum, l.count) && len(e.events) == len(l.events); !f.out.ok(entriesPayoff, same) {
		f.out.breach(entriesPayoff, id, say(paid, l.count, len(l.events), l.sum), say(paid, e.count, len(e.events), e.sum))
	}
	f.compareWaits(id, l, e)
}

func (f *fold) selectedName(l *life, at int) string {
	if at < 0 || at >= len(l.items) {
		return "no selection"
	}
	return "selected: " + f.items.name(l.items[at])
}

// compareEnd checks a stored tombstone.
func (f *fold) compareEnd(id string, l *life, e *entry) {
	if l.kind == pending && f.watermark > l.next() {
		f.expire(l)
	}
	paidOnce := "ended by a payoff: %t"
	if l.kind == pending {
		broken := entriesEarly
		if e.paidOnce {
			broken = entriesPayoff
		}
		f.out.broken(broken, id, say("nothing ended: no payoff counted, and %d has not passed", l.next()),
			say(paidOnce+", at watermark %d", e.paidOnce, f.watermark))
		f.doubt(l, anyEnd)
		return
	}
	f.out.ok(entriesEarly, true)
	if !f.out.must(entriesSelection, !l.hasSelection || l.wasSelected == e.wasSelected, id,
		say("selected: %t", l.wasSelected), say("selected: %t", e.wasSelected)) {
		return
	}
	first := l.learner.variants[0].Aggregate == config.First
	may := l.ends&^wasPaid != 0 || !first
	if e.paidOnce {
		may = l.ends&wasPaid != 0 && first
	}
	f.out.must(entriesPayoff, may, id, say("%s", l.ends), say(paidOnce, e.paidOnce))
	// Without join.remember the horizon applies.
	byHorizon := e.forgetAt >= l.payDeadline+f.parking.least && e.forgetAt <= l.payDeadline+f.parking.most+bucketWidth
	f.out.must(entriesOutcome, e.forgetAt >= l.kept.least && e.forgetAt <= l.kept.most || byHorizon || f.partial, id,
		say("remembered until %d, or %d at the most", l.kept.least, l.kept.most), e.forgetAt)
}
