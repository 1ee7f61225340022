package policy

import "iter"

// Share puts t below a global Totals that reads every source, this partition included as source; number maps entries to global
// numbers. From then on other sources are set in the global one only. It must not change while t is used; t never changes it.
func (t *Totals[S]) Share(global *Totals[S], source int32, number func(i int32) int32) {
	t.global, t.source, t.number = global, source, number
	t.latest.i = -1
}

// Shares returns whether t is below a global Totals.
func (t *Totals[S]) Shares() bool { return t.global != nil }

// Published returns the global value of our own of i: Own as of our last checkpoint that the global one has read.
func (t *Totals[S]) Published(i int32) S {
	s, _ := t.global.From(t.source, t.number(i))
	return s
}

// Global returns the total of i over all sources that the global Totals has read, this partition included.
func (t *Totals[S]) Global(i int32) S { return t.global.others.Get(t.number(i)).sum }

// without returns the sum of i over all sources but one.
func (t *Totals[S]) without(source, i int32) (sum S) {
	o := t.others.Get(i)
	for from, s := range o.each(t.packing) {
		if from != source {
			sum = sum.Add(s)
		}
	}
	return sum
}

// Rest frees the memory of this partition's own value of i if the global Totals has the same one from it. Own returns that one then, until
// our next change of i. The global one must have read every value of i that we have published: an earlier one must not come to pass for
// the present one.
func (t *Totals[S]) Rest(i int32, equal func(a, b S) bool) {
	if t.global == nil || t.rests.Has(i) || !t.own.has(i) || !equal(t.own.Get(i), t.Published(i)) {
		return
	}
	t.own.Remove(i)
	t.rests.Add(i)
}

// Wake makes each value at rest our own again, and notes it. It must precede a change of the global Totals that is none of our publications:
// the store of a partition may have gone back.
func (t *Totals[S]) Wake(woken *Changes) {
	for i := range t.rests.All() {
		t.At(i)
		woken.Note(i, 1)
	}
}

// Rests returns whether our own value of i is the one that the global Totals has from us, by Rest.
func (t *Totals[S]) Rests(i int32) bool { return t.rests.Has(i) }

// pooled links a partition's Table to the global one. An item's evidence is the global one, except for fresh items: those few of which
// this partition has other values than it has published. Their evidence is computed here, from other sources' values and our own.
type pooled struct {
	global *Table
	at     *reading // the global table's present one, or the one held
	fresh  Pages[fresh]
	count  int  // of fresh items
	loaded bool // no item is fresh before
	// Differences that fresh items make to the global sums over all items.
	fed, weight int64
	payoffs     wide
	moments     moments
	together    moments // with the global ones
	current     bool    // together is up to date
}

type fresh struct {
	Evidence
	fed int64
}

// ShareTable puts t below a global table, as Totals.Share does. Refresh must be called when the global table, on which BeGlobal was
// called, has changed. Values set before Loaded make no item fresh.
func (t *Table) ShareTable(global *Table, source int32, number func(i int32) int32) {
	t.Share(&global.Totals, source, number)
	t.shared = &pooled{global: global, at: &global.reading}
	t.reading = reading{}
}

// Snapshot keeps a global table's present evidence, and the sums over all items, for Hold. It must be called after each batch of changes.
func (t *Table) Snapshot() {
	s := t.reading
	s.evidence, s.moments = t.evidence.Snapshot(), &moments{}
	*s.moments = *t.keepMoments()
	t.snapshot = &s
}

// Hold lets a table below a global one stay at the latest Snapshot, until Unhold. Refresh must follow it, and not come before.
func (t *Table) Hold() {
	if t.shared != nil {
		t.shared.at = t.shared.global.snapshot
	}
}

// Unhold ends a Hold.
func (t *Table) Unhold() {
	if t.shared != nil {
		t.shared.at = &t.shared.global.reading
	}
}

func (s *pooled) known(t *Table, i Item) fresh {
	n := t.number(i)
	return fresh{s.at.evidence.Get(n), s.global.Pooled(n).N}
}

// weigh makes an item fresh, or recomputes its evidence.
func (s *pooled) weigh(t *Table, i Item) {
	if !s.loaded {
		return
	}
	after := t.own(i)
	if now := s.fresh.find(i); now != nil {
		s.replace(now, &after)
	} else {
		known := s.known(t, i)
		s.replace(&known, &after)
		s.count++
	}
	*s.fresh.At(i) = after
}

func (s *pooled) forget(t *Table, i Item) {
	if now := s.fresh.find(i); now != nil {
		known := s.known(t, i)
		s.replace(now, &known)
		s.drop(i)
	}
}

// drop makes an item fresh no longer.
func (s *pooled) drop(i Item) {
	s.fresh.Remove(i)
	s.count--
}

// own returns an item's evidence from other sources' values and our present own.
func (t *Table) own(i Item) fresh { return fresh{t.made(i), t.Pooled(i).N} }

// replace replaces an item's evidence in the differences.
func (s *pooled) replace(before, after *fresh) {
	s.current = false
	s.fed += after.fed - before.fed
	s.weight += inUnits(after.W) - inUnits(before.W)
	s.payoffs.sub(wideOf(before.R))
	s.payoffs.add(wideOf(after.R))
	s.moments.replace(&before.Evidence, &after.Evidence)
}

// Loaded ends loading: items for which differs is true become fresh.
func (t *Table) Loaded(differs func(i Item) bool) {
	t.shared.loaded = true
	for i := range Item(t.Totals.Len()) {
		if differs(i) {
			t.Weigh(i)
		}
	}
}

// Ready returns whether t is below a global table, and loaded.
func (t *Table) Ready() bool { return t.shared != nil && t.shared.loaded }

// Refresh reads the changed global table. Fresh items are recomputed, or fresh no longer if differs is false; of arrived items
// those become fresh for which it is true.
func (t *Table) Refresh(differs func(i Item) bool, arrived iter.Seq[Item]) {
	s := t.shared
	s.fed, s.weight, s.payoffs, s.moments, s.current = 0, 0, wide{}, moments{}, false
	for i := range s.fresh.All() {
		if !differs(i) {
			s.drop(i)
			continue
		}
		known, own := s.known(t, i), t.own(i)
		s.replace(&known, &own)
		*s.fresh.At(i) = own
	}
	for i := range arrived {
		if !s.fresh.has(i) && differs(i) {
			t.Weigh(i)
		}
	}
}

// WeighFresh recomputes the evidence of fresh items.
func (t *Table) WeighFresh() {
	for i := range t.shared.fresh.All() {
		t.Weigh(i)
	}
}

// Differs returns whether the global table has other sums of an item from this partition than it has now.
func (t *Table) Differs(i Item) bool { return !t.Rests(i) && t.Own(i) != t.Published(i) }

// IsFresh returns whether an item's evidence is made here, below a global table.
func (t *Table) IsFresh(i Item) bool { return t.shared.fresh.has(i) }

// Fresh returns the number of fresh items; 0 without a global table.
func (t *Table) Fresh() int {
	if t.shared == nil {
		return 0
	}
	return t.shared.count
}

func (s *pooled) all() *moments {
	if !s.current {
		s.together, s.current = *s.at.moments, true
		s.together.add(&s.moments)
	}
	return &s.together
}

func (m *moments) add(o *moments) {
	m.prior = prior{}
	m.items += o.items
	m.within.add(o.within)
	for j := range m.at {
		c, p := &m.at[j], &o.at[j]
		c.w.add(p.w)
		c.ww.add(p.ww)
		c.v.add(p.v)
		c.wv.add(p.wv)
		c.vv.add(p.vv)
	}
}
