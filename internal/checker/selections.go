package checker

import "slices"

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
	lf := r.l.learner
	sure := r.joined == yes && r.itemSure && r.sameUtility()
	for i, rec := range r.joins {
		if i == 0 || !sure {
			lf.selected(r.l, rec.item, rec, sure)
		}
	}
}

// sameUtility tells whether it does not matter which of the selections in question was joined.
func (r *resolution) sameUtility() bool {
	return r.l.learner.given || !slices.ContainsFunc(r.joins, func(rec *record) bool {
		return rec.hasUtility != r.joins[0].hasUtility || rec.value != r.joins[0].value
	})
}

// selectedByPayoff tells of the selections that payoffs are, where there is no topic of them.
func (r *resolution) selectedByPayoff(records []record) {
	lf := r.l.learner
	switch {
	case r.l.hasSelection || r.applied == no:
	case r.applied == yes && r.itemSure:
		lf.selected(r.l, r.item, nil, true)
	case r.applied == yes && len(r.applies) > 0 && !slices.ContainsFunc(r.applies, func(rec *record) bool { return rec.item != r.applies[0].item }):
		lf.selected(r.l, r.applies[0].item, nil, true)
	default:
		for i := range records {
			if records[i].fate&isTaken != 0 {
				lf.selected(r.l, records[i].item, nil, false)
			}
		}
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
