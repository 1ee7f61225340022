package checker

import (
	"fmt"
	"math"
	"slices"

	"github.com/ranker-worker/ranker-worker/config"
	"github.com/ranker-worker/ranker-worker/stream/event"
)

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
	switch {
	case r.never():
		may = isParked
	case max(rec.watermark, r.l.watermark) <= r.next: // it came before the end
		may = isOrphan
	default:
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
