package delay

import (
	"github.com/ranker-worker/ranker-worker/delay/inflight"
	"github.com/ranker-worker/ranker-worker/policy"
)

// attach makes a learner's evidence include selections in flight.
func (b *base) attach(s Silence) {
	f, table := b.flights, b.table
	f.silence, f.table = s, table
	f.pooled = true
	if f.parts = openColumn(table); s.InParts {
		b.keepColumn(&f.parts)
	}
	f.weigh = table.Weigh
	f.replaced = func(i policy.Item, _, _ itemFlights) { f.changed(i) }
	if s.Law == SilenceAges {
		b.attachAwaiting(newAwaiting(s, &f.column))
	} else if !s.InParts { // those under SilenceAges stay as long as their items
		settled := settledColumn(new(inflight.Outcomes))
		b.keepColumn(&settled)
	}
	if s.Drift > 0 {
		f.drift = newDrift(s, table)
		b.keepColumn(f.drift)
	} else {
		b.hashes = append(b.hashes, endedDrift{newDrift(s, table), table})
	}
	f.evidence = func(i policy.Item) policy.Evidence {
		w := f.weight(i)
		e := f.fed(table.Pooled(i), i, w)
		if f.awaiting != nil {
			r, q := f.awaiting.now().valued(f.awaiting, i)
			e.R, e.Q = e.R+r, e.Q+q
		}
		return s.begun(e, f.Pooled(i), w, f.parts.Pooled(i))
	}
	table.EvidenceBy(f.evidence)
}

// attachAwaiting makes selections in flight weigh by their age.
func (b *base) attachAwaiting(a *awaiting) {
	f := b.flights
	f.awaiting = a
	b.hashes = append(b.hashes, a)
	if !a.law.InParts {
		b.keepColumn(&a.settled)
	}
	f.replaced = func(i policy.Item, before, after itemFlights) {
		a.replaceTheirs(i, before.Spans, after.Spans)
		f.changed(i)
	}
	b.singles[fieldSilence], b.singles[fieldBelow] = a.loadEstimate, a.loadBelow
	a.settled.replaced = func(i policy.Item, _, _ inflight.Outcomes) { f.changed(i) }
}

// keepContexts makes a contextual learner's sums part of the learner's state.
func (b *base) keepContexts(u *contexts) {
	b.contexts = u
	b.keepColumn(cellsHash{u, b.table})
	b.hashes = append(b.hashes, categoriesHash{u}, linearHash{u})
	b.singles[fieldFit], b.singles[fieldLooked] = u.loadFit, u.loadLooked
	if u.met.space.HasAge() {
		b.keepColumn(&u.met)
	}
}

func (b *base) learnAttraction(nothing float64) {
	b.attraction = newAttraction(nothing)
	b.keepColumn(&b.attraction.counts)
	b.singles[fieldFalls] = b.attraction.falls.load
}
