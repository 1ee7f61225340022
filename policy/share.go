package policy

import "iter"

// Share makes t part of a whole: Totals that are told what every source has, this partition among them, as source. Things may be
// numbered otherwise there: number gives the whole's number of one of ours. What other sources have is the whole's from then on, and
// is to be told to it alone; of t's own nothing changes. The whole must not change while t is used, and t never changes it.
func (t *Totals[S]) Share(whole *Totals[S], source int32, number func(i int32) int32) {
	t.whole, t.source, t.number = whole, source, number
}

// Shares tells whether t is part of a whole.
func (t *Totals[S]) Shares() bool { return t.whole != nil }

// Told is what the whole has been told of our own of i: what Own was when the last of our checkpoints that it knows was made.
func (t *Totals[S]) Told(i int32) S {
	s, _ := t.whole.From(t.source, t.number(i))
	return s
}

// without is what all sources but one have of i.
func (t *Totals[S]) without(source, i int32) (sum S) {
	from := t.others.Get(i).from
	for k := range from {
		if from[k].source != source {
			sum = sum.Add(from[k].sum)
		}
	}
	return sum
}

// Of gives the things that source has told of. The one that is given may be dropped meanwhile.
func (t *Totals[S]) Of(source int32) iter.Seq[int32] {
	return func(yield func(int32) bool) {
		for i, o := range t.others.All() {
			if _, told := find(o.from, source); told && !yield(i) {
				return
			}
		}
	}
}

// pooled is a Table's part of a whole. What is known of an item is what the whole knows, but for items of which this partition has
// something that the whole has not been told of yet, or not any more: of these, which are few, it is made here, from what others have
// told the whole and one's own.
type pooled struct {
	whole  *Table
	fresh  Sparse[fresh]
	loaded bool // until then nothing is made fresh
	// What fresh items add to the whole's sums over all items.
	fed, weight int64
	payoffs     wide
	moments     moments
	together    moments // with the whole's
	current     bool    // together is
}

// fresh is what is known of an item here.
type fresh struct {
	Evidence
	fed int64
}

// ShareTable makes t part of a whole, as Totals.Share does. Its evidence is the whole's but for items that Weigh has made fresh; when
// the whole, of which BeWhole has been called, has changed, Refresh is to be called. What is set before Loaded is not looked at one by one.
func (t *Table) ShareTable(whole *Table, source int32, number func(i int32) int32) {
	t.Share(&whole.Totals, source, number)
	t.shared = &pooled{whole: whole}
	t.moments, t.evidence, t.fed, t.weight, t.payoffs = nil, Pages[Evidence]{}, 0, 0, wide{}
}

// known is what is known of an item by the whole.
func (s *pooled) known(t *Table, i Item) fresh {
	n := t.number(i)
	return fresh{s.whole.evidence.Get(n), s.whole.Pooled(n).N}
}

// weigh makes the evidence of a fresh item anew, or makes an item fresh.
func (s *pooled) weigh(t *Table, i Item) {
	if !s.loaded {
		return
	}
	e, was := s.fresh.Get(i)
	if !was {
		e = s.known(t, i)
	}
	s.count(&e, -1)
	e = t.own(i)
	s.count(&e, 1)
	s.fresh.Set(i, e)
}

// forget makes an item one that is not fresh.
func (s *pooled) forget(t *Table, i Item) {
	e, was := s.fresh.Get(i)
	if !was {
		return
	}
	known := s.known(t, i)
	s.count(&e, -1)
	s.count(&known, 1)
	s.fresh.Remove(i)
}

// own is what is known of an item by what others have told, and our own as it is now.
func (t *Table) own(i Item) fresh { return fresh{t.made(i), t.Pooled(i).N} }

// count adds an item's evidence to the sums, or takes it out again.
func (s *pooled) count(e *fresh, sign int64) {
	s.current = false
	s.fed += sign * e.fed
	s.weight += sign * inUnits(e.W)
	if sign > 0 {
		s.payoffs.add(wideOf(e.R))
		s.moments.replace(&Evidence{}, &e.Evidence)
		return
	}
	s.payoffs.sub(wideOf(e.R))
	s.moments.replace(&e.Evidence, &Evidence{})
}

// Loaded says that of a part all is set that is stored: items of which differs is true are fresh.
func (t *Table) Loaded(differs func(i Item) bool) {
	t.shared.loaded = true
	for i := range Item(t.Totals.Len()) {
		if differs(i) {
			t.Weigh(i)
		}
	}
}

// Ready tells whether t is a part of a whole, and loaded.
func (t *Table) Ready() bool { return t.shared != nil && t.shared.loaded }

// Refresh reads the whole again, which has changed: the evidence of fresh items is made anew, and those are fresh no longer of which differs
// is not true. Of the other items those become fresh that arrived gives, as far as differs is true of them.
func (t *Table) Refresh(differs func(i Item) bool, arrived iter.Seq[Item]) {
	s := t.shared
	s.fed, s.weight, s.payoffs, s.moments, s.current = 0, 0, wide{}, moments{}, false
	for i := range s.fresh.All() {
		if !differs(i) {
			s.fresh.Remove(i)
			continue
		}
		e, known := t.own(i), s.known(t, i)
		s.count(&known, -1)
		s.count(&e, 1)
		s.fresh.Set(i, e)
	}
	for i := range arrived {
		if _, fresh := s.fresh.Get(i); !fresh && differs(i) {
			t.Weigh(i)
		}
	}
}

// Fresh is how many items are fresh; 0 where t is no part of a whole.
func (t *Table) Fresh() int {
	if t.shared == nil {
		return 0
	}
	return t.shared.fresh.Len()
}

// all are the moments of all items.
func (s *pooled) all() *moments {
	if !s.current {
		s.together, s.current = *s.whole.moments, true
		s.together.add(&s.moments)
	}
	return &s.together
}

// add adds up moments.
func (m *moments) add(o *moments) {
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
