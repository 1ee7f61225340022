package checker

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/cespare/xxhash/v2"

	"github.com/ranker-worker/ranker-worker/config"
	"github.com/ranker-worker/ranker-worker/stream/event"
)

// answer says whether something has happened, as far as it can be known.
type answer uint8

const (
	no answer = iota
	maybe
	yes
)

// So much waits under one id at most, unless one record alone is more.
const (
	maxParkedPerID      = 256
	maxParkedBytesPerID = 256 << 10
)

// resolution says what must have come of one impression id: of its impression and of its selections and payoffs.
type resolution struct {
	f      *fold
	id     string
	l      *life
	stored *entry          // what Redis has of the impression; nil: nothing any more, or only parked records
	cfg    *config.Learner // the learner's, as far as it cannot change
	next   event.Millis    // deadline of the selection

	joins    []*record // selections that may have been joined, in the order of their topic
	joined   answer    // whether one was
	item     uint32    // the one selected, where that is known
	itemSure bool
	applies  []*record // payoffs that may have been applied, likewise
	applied  answer
}

// resolve says what must have come of an id, and compares Redis with it.
// It tells whether the impression was paid for certain, by the first payoff.
func (f *fold) resolve(id string, l *life) (settled bool) {
	e := f.state.entries[id]
	slices.SortFunc(l.records, func(a, b record) int {
		return cmp.Or(cmp.Compare(a.topic, b.topic), cmp.Compare(a.offset, b.offset))
	})
	r := resolution{f: f, id: id, l: l, item: noItem}
	if e != nil && e.kind != waiting {
		r.stored = e
	}
	if e != nil {
		f.checkParked(id, l, e)
		e.matched = e.matched || e.kind == waiting
	}
	switch {
	case l.offset < 0 && f.partial:
		r.anything()
	case l.offset < 0:
		r.waits()
	case l.learner != nil && l.learner.reset != nil && !f.partial && !l.again:
		r.bygone()
	case f.partial || l.learner == nil || !l.learner.always || l.again:
		r.open()
	default:
		r.cfg = l.learner.variants[0]
		r.next = l.payDeadline
		if l.hasSelection {
			r.next = min(l.selDeadline, l.payDeadline)
		}
		if r.compareDecision() {
			r.follow()
		}
	}
	if l.known {
		r.afterwards()
	}
	for i := range l.records {
		r.fix(&l.records[i], e)
		f.settle(&l.records[i])
	}
	return r.applied == yes && r.cfg.Aggregate == config.First
}

// fix makes a record's fate that which Redis shows, where it is parked, and not that where it is not.
func (r *resolution) fix(rec *record, e *entry) {
	parked := e != nil && slices.ContainsFunc(e.parked, func(p parked) bool { return p.topic == rec.topic && p.offset == rec.offset })
	may := rec.fate &^ isParked
	if parked {
		may = rec.fate & isParked
	}
	if !r.f.out.ok(entriesParked, may != 0) {
		found := "not parked"
		if parked {
			found = "parked"
		}
		r.f.out.breach(entriesParked, r.name(rec), rec.fate.String(), found)
		may = isTaken | isDuplicate | isLate | isOrphan | isRejected | isParked
	}
	rec.fate = may
}

func (r *resolution) name(rec *record) any { return r.f.at(rec.topic, rec.offset, []byte(r.id)) }

// checkParked: what is parked stands in the log, byte by byte.
func (f *fold) checkParked(id string, l *life, e *entry) {
	for i := range e.parked {
		p := &e.parked[i]
		at := slices.IndexFunc(l.records, func(rec record) bool { return rec.topic == p.topic && rec.offset == p.offset })
		if f.out.ok(entriesParked, at >= 0 && l.records[at].hash == xxhash.Sum64(p.value)) || f.partial {
			continue
		}
		name := fmt.Sprintf("topic %d at offset %d", p.topic, p.offset)
		if p.topic < event.Inputs {
			name = f.at(p.topic, p.offset, []byte(id)).String()
		}
		f.out.breach(entriesParked, name, "the record of the log", fmt.Sprintf("%.100q", p.value))
	}
}

// waits: no impression of the id was ever ranked.
func (r *resolution) waits() {
	for i := range r.l.records {
		rec := &r.l.records[i]
		if !r.f.selects && rec.topic == event.Payoffs && rec.item == noItem {
			rec.fate = isRejected
			continue
		}
		rec.fate = isParked
		if r.f.lapsed(rec, r.f.state.watermark, r.l) {
			rec.fate |= isOrphan
		}
	}
}

// lapsed tells whether a parked record may have been given up before the watermark was at w, or have found no room.
func (f *fold) lapsed(rec *record, w event.Millis, l *life) bool {
	return f.c.opt.ParkingFull || rec.lo == math.MinInt64 || w > rec.lo+f.parking || len(l.records) > maxParkedPerID || l.bytes > maxParkedBytesPerID
}

// anything may have become of the records.
func (r *resolution) anything() {
	for i := range r.l.records {
		r.l.records[i].fate = isTaken | isDuplicate | isLate | isOrphan | isRejected | isParked
	}
}

// open is for what depends on the interleaving: several impressions of one id, each ranked after the one before was
// forgotten, or a learner that was not always configured.
func (r *resolution) open() {
	r.anything()
	f := r.f
	f.out.open(entriesOutcome)
	if r.stored != nil {
		r.stored.matched = true
	}
	f.count(event.Impressions, wasPaid|wasExpired|wasDefaulted|wasUnselected|isPending)
	if r.l.again {
		f.several++
	}
	if r.l.learner != nil && r.l.learner.reset == nil {
		for _, i := range r.l.items {
			r.l.learner.item(i).unknown = true
		}
		r.l.learner.unknown = true
	}
}

// compareDecision compares what Redis has of the impression with what was decided.
func (r *resolution) compareDecision() bool {
	f, l, e := r.f, r.l, r.stored
	w := f.state.watermark
	if e == nil {
		forgotten := w > l.payDeadline+f.parking
		if !f.out.ok(entriesLost, forgotten || !f.state.complete) {
			f.out.breach(entriesLost, r.id, fmt.Sprintf("an entry of the impression at offset %d, until %d", l.offset, l.payDeadline+f.parking),
				fmt.Sprintf("none at watermark %d", w))
			r.open()
			return false
		}
		return true
	}
	f.out.ok(entriesLost, true)
	e.matched = true
	same := f.state.learners[e.learner] == l.learner.name && e.offset == l.offset && e.payDeadline == l.payDeadline &&
		(e.kind == closed || !l.hasSelection || e.selDeadline == l.selDeadline)
	if !f.out.ok(entriesDecision, same) {
		f.out.breach(entriesDecision, r.id, fmt.Sprintf("learner %s, offset %d, deadlines %d and %d", l.learner.name, l.offset, l.selDeadline, l.payDeadline),
			fmt.Sprintf("learner %s, offset %d, deadlines %d and %d", f.state.learners[e.learner], e.offset, e.selDeadline, e.payDeadline))
		r.open()
		return false
	}
	if e.kind == pending {
		f.pending++
		if l.learner.reset == nil { // else even its items' names are gone
			r.comparePending()
		}
	}
	return true
}

func (r *resolution) comparePending() {
	f, l, e := r.f, r.l, r.stored
	same := len(e.items) == len(l.items) && e.instance == l.instance && e.hasSelection == l.hasSelection &&
		slices.Equal(e.propensities, l.propensities)
	if l.recorded || len(l.ranks) > 0 && len(e.ranks) > 0 { // one that was adopted unread has none
		same = same && slices.Equal(e.ranks, l.ranks) && slices.Equal(e.undecided, l.undecided)
	}
	for k := 0; same && k < len(e.items); k++ {
		same = l.learner.number(e.items[k]) == l.items[k]
	}
	if !f.out.ok(entriesDecision, same) {
		f.out.breach(entriesDecision, r.id, fmt.Sprintf("items %v, instance %d, propensities %v", f.names(l.items), l.instance, l.propensities),
			fmt.Sprintf("items numbered %v, instance %d, propensities %v", e.items, e.instance, e.propensities))
	}
}

func (f *fold) names(items []uint32) []string {
	all := make([]string, len(items))
	for i, n := range items {
		all[i] = f.items.name(n)
	}
	return all
}

// follow goes through the selections, then the payoffs, and compares how the impression has ended, if it has.
func (r *resolution) follow() {
	at := 0
	for at < len(r.l.records) && r.l.records[at].topic == event.Selections {
		at++
	}
	if r.l.hasSelection {
		r.selectFrom(r.l.records[:at])
		r.observeSelection()
	} else {
		r.joined = maybe // by the payoff that names it
	}
	if r.cfg.Aggregate == config.Sum {
		r.addUp(r.l.records[at:])
		r.selectedByPayoff(r.l.records[at:])
		return
	}
	r.pay(r.l.records[at:])
	r.observePayoff()
	r.selectedByPayoff(r.l.records[at:])
	r.ended()
}

func (r *resolution) shown(item uint32) bool { return slices.Contains(r.l.items, item) }

// inTime tells whether a record came before a deadline, where the watermark was at most w when its turn came.
func (r *resolution) inTime(rec *record, deadline, w event.Millis) answer {
	switch {
	case rec.lo > deadline:
		return no
	case rec.hi <= deadline && w <= deadline && !r.f.lapsed(rec, r.l.watermark, r.l):
		return yes
	}
	return maybe
}

// never tells that the impression has certainly not ended yet.
func (r *resolution) never() bool { return r.stored != nil && r.stored.kind == pending }

// forgotten is what else may have become of a record that came when the tombstone may have been gone.
func (r *resolution) forgotten(rec *record) fate {
	if rec.watermark > r.l.payDeadline+r.f.parking {
		return isParked | isOrphan
	}
	return 0
}

// orphaned is what else may have become of a record that may have waited in vain.
func (r *resolution) orphaned(rec *record) fate {
	if r.f.lapsed(rec, r.l.watermark, r.l) {
		return isOrphan
	}
	return 0
}
