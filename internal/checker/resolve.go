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

// maxParkedPerID is how many records wait under one id at most.
const maxParkedPerID = 16

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
func (f *fold) resolve(id string, l *life) {
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
	}
	switch {
	case l.offset < 0:
		r.waits(e)
	case l.learner == nil || !l.learner.always || l.again:
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
	for i := range l.records {
		r.fix(&l.records[i], e)
		f.settle(&l.records[i])
	}
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

func (r *resolution) name(rec *record) string { return r.f.at(rec.topic, rec.offset, []byte(r.id)) }

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
			name = f.at(p.topic, p.offset, []byte(id))
		}
		f.out.breach(entriesParked, name, "the record of the log", fmt.Sprintf("%.100q", p.value))
	}
}

// waits: no impression of the id was ever ranked.
func (r *resolution) waits(e *entry) {
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
	return f.c.opt.ParkingFull || rec.lo == math.MinInt64 || w > rec.lo+f.parking || len(l.records) > maxParkedPerID
}

// open is for what depends on the interleaving: several impressions of one id, each ranked after the one before was
// forgotten, or a learner that was not always configured.
func (r *resolution) open() {
	for i := range r.l.records {
		r.l.records[i].fate = isTaken | isDuplicate | isLate | isOrphan | isRejected | isParked
	}
	f := r.f
	f.out.open(entriesOutcome)
	if r.stored != nil {
		r.stored.matched = true
	}
	f.count(event.Impressions, wasPaid|wasExpired|wasDefaulted|wasUnselected|isPending)
	if r.l.again {
		f.several++
	}
	if r.l.learner != nil {
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
	want := fmt.Sprintf("learner %s, offset %d, deadlines %d and %d", l.learner.name, l.offset, l.selDeadline, l.payDeadline)
	got := fmt.Sprintf("learner %s, offset %d, deadlines %d and %d", f.state.learners[e.learner], e.offset, e.selDeadline, e.payDeadline)
	if e.kind == closed {
		want = fmt.Sprintf("learner %s, offset %d, deadline %d", l.learner.name, l.offset, l.payDeadline)
		got = fmt.Sprintf("learner %s, offset %d, deadline %d", f.state.learners[e.learner], e.offset, e.payDeadline)
	}
	if !equal(f.out, entriesDecision, r.id, want, got) {
		r.open()
		return false
	}
	if e.kind == pending {
		f.pending++
		r.comparePending()
	}
	return true
}

func (r *resolution) comparePending() {
	f, l, e := r.f, r.l, r.stored
	same := len(e.items) == len(l.items) && e.instance == l.instance && e.hasSelection == l.hasSelection &&
		slices.Equal(e.propensities, l.propensities)
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
		return
	}
	r.pay(r.l.records[at:])
	r.observePayoff()
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

// selectFrom goes through the selections: the first in topic order wins.
func (r *resolution) selectFrom(records []record) {
	for i := range records {
		rec := &records[i]
		t := r.inTime(rec, r.next, max(rec.watermark, r.l.watermark))
		switch {
		case !r.shown(rec.item):
			rec.fate = isRejected | r.orphaned(rec)
			if !r.never() {
				rec.fate |= isDuplicate | isLate
			}
		case r.joined == yes:
			rec.fate = isDuplicate | r.orphaned(rec)
		case t == no:
			rec.fate = isLate | r.orphaned(rec)
			if r.joined == maybe {
				rec.fate |= isDuplicate
			}
		case t == yes:
			rec.fate = isTaken
			if r.joined == maybe {
				rec.fate |= isDuplicate
			}
			r.joined = yes
			r.joins = append(r.joins, rec)
		default:
			rec.fate = isTaken | isLate | r.orphaned(rec)
			if r.joined == maybe {
				rec.fate |= isDuplicate
			}
			r.joined = maybe
			r.joins = append(r.joins, rec)
		}
		rec.fate |= r.forgotten(rec)
	}
}

// observeSelection takes from Redis what the records leave open, where it is one of their possibilities.
func (r *resolution) observeSelection() {
	e, out := r.stored, r.f.out
	switch {
	case e == nil:
	case e.kind == pending && e.selected >= 0:
		item := r.l.items[e.selected]
		r.joins = slices.DeleteFunc(r.joins, func(rec *record) bool { return rec.item != item })
		if !out.ok(entriesSelection, len(r.joins) > 0) {
			out.breach(entriesSelection, r.id, r.selectable(), "selected: "+r.f.items.name(item))
		}
		r.joined, r.item, r.itemSure = yes, item, true
	case e.kind == closed && e.wasSelected:
		if !out.ok(entriesSelection, len(r.joins) > 0) {
			out.breach(entriesSelection, r.id, r.selectable(), "selected")
		}
		r.joined = yes
	default:
		if !out.ok(entriesSelection, r.joined != yes) {
			out.breach(entriesSelection, r.id, r.selectable(), "no selection")
		}
		for _, rec := range r.joins {
			rec.fate &^= isTaken
		}
		r.joined, r.joins = no, nil
	}
	if r.joined == yes && len(r.joins) > 0 && !slices.ContainsFunc(r.joins, func(rec *record) bool { return rec.item != r.joins[0].item }) {
		r.item, r.itemSure = r.joins[0].item, true
	}
	if r.joined == yes && len(r.joins) == 1 {
		r.joins[0].fate = isTaken
	}
	if r.joined == yes && r.itemSure {
		r.l.learner.selected(r.l)
	} else if r.joined != no {
		r.l.learner.openSelections++
	}
}

// selectable says what could have been selected.
func (r *resolution) selectable() string {
	if len(r.joins) == 0 {
		return "no selection"
	}
	s := ""
	for i, rec := range r.joins {
		if i > 0 {
			s += " or "
		}
		s += r.f.items.name(rec.item)
	}
	return "selected: " + s
}

// contradicts tells whether a payoff is refused by an impression that has not ended: whatever was selected, or because of
// that.
func (r *resolution) contradicts(rec *record) (always, bySelection bool) {
	switch {
	case r.cfg.Aggregate == config.First && (rec.value < r.cfg.PayoffRange.Min || rec.value > r.cfg.PayoffRange.Max):
		return true, false
	case rec.item == noItem:
		return !r.f.selects || !r.l.hasSelection, false
	case !r.shown(rec.item):
		return true, false
	}
	return false, r.itemSure && rec.item != r.item
}

// mayContradict tells whether a payoff may be refused because another item may have been selected.
func (r *resolution) mayContradict(rec *record) bool {
	return rec.item != noItem && !r.itemSure && slices.ContainsFunc(r.joins, func(s *record) bool { return s.item != rec.item })
}

// applyWatermark bounds the watermark when a payoff was applied: at its own turn, or at that of the impression or the
// selection that it had waited for.
func (r *resolution) applyWatermark(rec *record) event.Millis {
	w := max(rec.watermark, r.l.watermark)
	for _, s := range r.joins {
		w = max(w, s.watermark)
	}
	return w
}

// pay goes through the payoffs where the first in topic order counts.
func (r *resolution) pay(records []record) {
	for i := range records {
		rec := &records[i]
		always, bySelection := r.contradicts(rec)
		t := r.inTime(rec, r.l.payDeadline, r.applyWatermark(rec))
		var also fate
		if r.joined == maybe && r.l.hasSelection {
			t = min(t, maybe)
		}
		if r.mayContradict(rec) {
			t, also = min(t, maybe), isRejected
		}
		switch {
		case always || bySelection && r.applied != yes:
			rec.fate = isRejected
			if r.applied != no && !r.never() {
				rec.fate |= isDuplicate
			}
			if !r.never() {
				rec.fate |= isLate | isDuplicate
			}
		case r.applied == yes:
			rec.fate = isDuplicate
		case r.joined == no:
			rec.fate = r.unselectedPayoff(rec, t)
		case t == yes:
			rec.fate = isTaken
			if r.applied == maybe {
				rec.fate |= isDuplicate
			}
			r.applied = yes
			r.applies = append(r.applies, rec)
		case t == no:
			rec.fate = isLate
			if r.applied == maybe {
				rec.fate |= isDuplicate
			}
		default:
			rec.fate = isTaken | isLate
			if r.applied == maybe {
				rec.fate |= isDuplicate
			}
			if r.joined == maybe || r.never() {
				rec.fate |= isParked | isOrphan
			}
			r.applied = maybe
			r.applies = append(r.applies, rec)
		}
		rec.fate |= also | r.orphaned(rec) | r.forgotten(rec)
	}
}

// unselectedPayoff is what becomes of a payoff where nothing is selected: it waits, until nothing will be.
func (r *resolution) unselectedPayoff(rec *record, t answer) fate {
	var may fate
	if r.never() {
		may = isParked
	} else {
		may = isOrphan | isLate
	}
	if t != yes {
		may |= isLate
	}
	if t == no && r.never() {
		may = isLate
	}
	return may
}

// observePayoff takes from Redis what the records leave open.
func (r *resolution) observePayoff() {
	e, out := r.stored, r.f.out
	if e == nil {
		return
	}
	if e.kind == closed && e.outcome == paid {
		if !out.ok(entriesPayoff, r.applied != no) {
			out.breach(entriesPayoff, r.id, "no payoff that could count", "paid")
		}
		if r.applied != no {
			r.applied = yes
		}
		if len(r.applies) == 1 {
			r.applies[0].fate = isTaken
		}
		return
	}
	found := "pending"
	if e.kind == closed {
		found = e.outcome.String()
	}
	if !out.ok(entriesPayoff, r.applied != yes) {
		out.breach(entriesPayoff, r.id, fmt.Sprintf("paid by the payoff at offset %d", r.applies[len(r.applies)-1].offset), found)
	}
	for _, rec := range r.applies {
		if rec.fate &^= isTaken; rec.fate == 0 { // said above already
			rec.fate = isTaken
		}
	}
	r.applied, r.applies = no, nil
}

// ended says how the impression must have ended, and what its learner was fed.
func (r *resolution) ended() {
	f, e := r.f, r.stored
	if e != nil && e.kind == pending {
		f.count(event.Impressions, isPending)
		return
	}
	if r.applied == yes || r.applied == maybe {
		r.takeFirst()
	}
	if e != nil {
		r.checkEnd(e)
		f.count(event.Impressions, 1<<(e.outcome-1))
		if e.outcome == defaulted {
			r.takeDefault(true)
		}
		return
	}
	r.forgottenEnd()
}

// forgottenEnd is for an impression that Redis has forgotten.
func (r *resolution) forgottenEnd() {
	f := r.f
	switch {
	case r.applied == yes:
		f.count(event.Impressions, wasPaid)
		return
	case !r.l.hasSelection:
		f.count(event.Impressions, r.ifPaid()|wasExpired)
		return
	}
	may := r.ifPaid()
	if r.joined != yes {
		may |= wasUnselected
	}
	if r.joined != no {
		drop, def := r.onExpiry()
		if drop {
			may |= wasExpired
		}
		if def {
			may |= wasDefaulted
			r.takeDefault(may == wasDefaulted)
		}
	}
	f.count(event.Impressions, may)
}

func (r *resolution) ifPaid() fate {
	if r.applied == maybe {
		return wasPaid
	}
	return 0
}

// onExpiry tells what may have become of a selection that was never paid, by all configurations.
func (r *resolution) onExpiry() (drop, def bool) {
	for _, v := range r.l.learner.variants {
		drop = drop || v.OnExpiry.Default == nil
		def = def || v.OnExpiry.Default != nil
	}
	return drop, def
}

// checkEnd: an impression ends by a payoff or because event time has passed its deadline, and as its selection says.
func (r *resolution) checkEnd(e *entry) {
	out, w := r.f.out, r.f.state.watermark
	deadline := int64(math.MinInt64)
	switch {
	case e.outcome == unselected:
		deadline = r.next
	case e.outcome != paid || r.cfg.Aggregate == config.Sum:
		deadline = r.l.payDeadline
	}
	if !out.ok(entriesEarly, w > deadline) {
		out.breach(entriesEarly, r.id, fmt.Sprintf("nothing ended before %d has passed", deadline),
			fmt.Sprintf("%s at watermark %d", e.outcome, w))
	}
	if r.l.hasSelection && !out.ok(entriesOutcome, (e.outcome != unselected) == e.wasSelected) {
		out.breach(entriesOutcome, r.id, "unselected, or something selected", fmt.Sprintf("%s, selected: %t", e.outcome, e.wasSelected))
	}
	drop, def := r.onExpiry()
	if !out.ok(entriesOutcome, e.outcome != defaulted || def) {
		out.breach(entriesOutcome, r.id, "no default, by any configuration", e.outcome.String())
	}
	if !out.ok(entriesOutcome, e.outcome != expired || drop || !r.l.hasSelection) {
		out.breach(entriesOutcome, r.id, "a default, by all configurations", e.outcome.String())
	}
}

// takeFirst tells the learner's fold of the payoff applied.
func (r *resolution) takeFirst() {
	lf := r.l.learner
	values, item := math.NaN(), r.item
	sure := r.applied == yes
	for i, rec := range r.applies {
		v := normalise(r.cfg, rec.value)
		at := r.item
		if !r.itemSure {
			at = rec.item
		}
		if i > 0 && (v != values || at != item) {
			sure = false
		}
		values, item = v, at
	}
	sure = sure && item != noItem && len(r.applies) > 0
	if sure {
		lf.take(r.l, item, values, r.order(), true)
		return
	}
	for _, rec := range r.applies {
		r.openTake(rec.item, normalise(r.cfg, rec.value))
	}
}

// openTake tells of a payoff that may have been taken in, of one item or of any.
func (r *resolution) openTake(item uint32, v float64) {
	switch {
	case r.itemSure:
		r.l.learner.take(r.l, r.item, v, takeOrder{-1, -1, -1}, false)
	case item != noItem:
		r.l.learner.take(r.l, item, v, takeOrder{-1, -1, -1}, false)
	default:
		seen := map[uint32]bool{}
		for _, s := range r.joins {
			if !seen[s.item] {
				seen[s.item] = true
				r.l.learner.take(r.l, s.item, v, takeOrder{-1, -1, -1}, false)
			}
		}
	}
}

// order is where impression, selection and payoff stand in their topics; none where several records come into question.
func (r *resolution) order() takeOrder {
	o := takeOrder{r.l.offset, -1, -1}
	if len(r.applies) == 1 {
		o.payoff = r.applies[0].offset
	}
	switch {
	case len(r.joins) == 1:
		o.selection = r.joins[0].offset
	case !r.l.hasSelection:
		o.selection = o.payoff
	}
	return o
}

// takeDefault tells of the payoff that stands for one that never came.
func (r *resolution) takeDefault(sure bool) {
	values := map[float64]bool{}
	for _, v := range r.l.learner.variants {
		if d := v.OnExpiry.Default; d != nil {
			values[normalise(v, *d)] = true
		}
	}
	for v := range values {
		if sure && len(values) == 1 && r.itemSure {
			r.l.learner.take(r.l, r.item, v, takeOrder{-1, -1, -1}, true)
		} else {
			r.openTake(noItem, v)
		}
	}
}

// normalise maps a payoff from raw units to [0,1].
func normalise(l *config.Learner, raw float64) float64 {
	low, high := l.PayoffRange.Min, l.PayoffRange.Max
	switch {
	case raw <= low:
		return 0
	case raw >= high:
		return 1
	}
	return math.Min(math.Max((raw-low)/(high-low), 0), 1)
}
