package delay

import (
	"bytes"
	"slices"

	"github.com/ranker-worker/ranker-worker/policy"
)

// base is BASE, a policy for stochastic payoffs, with all that it decides from and what is stored of that. QPMD and
// Direct are one each; they differ in when they feed it.
//
// Its state is stored in hashes of its own, besides the items' sums: "flights" maps "<item>" to the number of its
// selections in flight, where there are any, and windows, if they are learned, are stored as BOLD stores them. Numbers
// are decimal.
type base struct {
	policy   policy.Policy   // nil where BASE explores
	explorer policy.Explorer // nil where it does not
	windows  windows         // those that explorer needs
	aim      []float64       // what explorer aims at with them, for lists of its length

	table   *policy.Table
	in      policy.Input // what of it does not change between decisions is set
	ws      policy.Workspace
	flights flights
	users   *contexts // nil where payoffs do not depend on features

	attraction *attraction // nil where payoff per selection is the aim

	changes *policy.Changes // of items: the table's, where all that is kept by item is noted

	forgotten []policy.Item // since the last harvest
	writer
}

// newBase makes one that knows no items.
func newBase(p policy.Policy) base {
	table := policy.NewTable(0)
	return base{policy: p, table: table, changes: table.Changes(), in: policy.Input{Table: table}}
}

// newExploring makes one that explores.
func newExploring(e policy.Explorer, w WindowsConfig) (base, error) {
	b := newBase(nil)
	b.explorer = e
	return b, b.windows.configure(w)
}

// Grow implements Learner.
func (b *base) Grow(items int) {
	b.table.Grow(items)
	if b.attraction != nil {
		b.attraction.table.Grow(items)
	}
	if items > b.flights.Len() {
		b.flights.grow(items)
		b.in.InFlight = &b.flights
	}
}

// Decide implements Learner.
func (b *base) Decide(candidates []policy.Item, about *policy.Context, key policy.Key, d *Decision) {
	n := len(candidates)
	d.Order = slices.Grow(d.Order[:0], n)[:n]
	d.Propensities, d.Expected = d.Propensities[:0], d.Expected[:0]
	d.Instance = -1
	d.Explored = false
	b.in.Items, b.in.Context, b.in.Key = candidates, about, key
	b.in.Known = b.know()
	if b.explorer == nil {
		b.policy.Rank(&b.in, &b.ws, d.Order)
	} else {
		b.explore(d, n)
	}
	b.in.Items, b.in.Context = nil, nil // they are the caller's
}

// know returns estimates of the candidates' payoffs; nil where the policy reads the table.
func (b *base) know() *policy.Known {
	known := b.perSelection()
	if b.aimsPerImpression() {
		return b.attraction.perImpression(b.in.Items, known)
	}
	return known
}

// perSelection returns estimates of the candidates' payoffs per selection; nil where the policy reads the table.
func (b *base) perSelection() *policy.Known {
	if b.users != nil {
		return b.users.know(b.table, &b.in)
	}
	if !b.aimsPerImpression() {
		return nil
	}
	b.ranker().(policy.Estimating).Estimate(&b.in, &b.attraction.estimates)
	return &b.attraction.estimates
}

// ranker is what ranks.
func (b *base) ranker() any {
	if b.explorer != nil {
		return b.explorer
	}
	return b.policy
}

// aimsPerImpression returns whether decisions go by payoff per impression. Another policy may decide, see DecideBy.
func (b *base) aimsPerImpression() bool {
	_, estimates := b.ranker().(policy.Estimating)
	return estimates && b.attraction.differs()
}

func (b *base) explore(d *Decision, n int) {
	q, changed := b.windows.fold(n)
	if changed {
		b.aim = slices.Grow(b.aim[:0], n)[:n]
		b.explorer.Aim(q, b.aim, &b.ws)
	}
	d.Propensities = slices.Grow(d.Propensities, n)[:n]
	d.Explored = b.explorer.Explore(&b.in, q, b.aim, &b.ws, d.Order, d.Propensities)
}

// Adopt implements Learner. A decision alone changes nothing.
func (b *base) Adopt(int64, *Decision) {}

// Needs implements Learner: what the feedback says of the item is all there is to know.
func (b *base) Needs() Needs { return Needs{Context: b.users != nil, Ranking: b.attraction != nil} }

// Unselected implements Learner. An impression without a selection teaches nothing but that.
func (b *base) Unselected(fb Feedback) {
	if b.attraction != nil {
		b.attraction.ended(&fb, false)
	}
}

// selected notes what every selection tells.
func (b *base) selected(fb *Feedback) {
	b.flights.begin(fb)
	b.windows.selected(fb)
	if b.attraction != nil {
		b.attraction.ended(fb, true)
	}
}

// paid notes that a selection is in flight no longer, since it was paid or stands for one that never will be.
func (b *base) paid(fb *Feedback) {
	if fb.Defaulted {
		b.flights.end(fb, isDefaulted)
	} else {
		b.flights.end(fb, isPaid)
	}
}

// dropped notes that a selection is in flight no longer, and that nothing is known of its payoff.
func (b *base) dropped(fb *Feedback) { b.flights.end(fb, isDropped) }

// feed gives BASE a payoff.
func (b *base) feed(i policy.Item, payoff float64) { b.table.Add(i, payoff) }

// Sums implements Learner.
func (b *base) Sums(i policy.Item) policy.Sums { return b.table.Own(i) }

// Evidence implements Learner.
func (b *base) Evidence(i policy.Item) policy.Evidence { return b.table.Evidence(i) }

// LoadSums implements Learner.
func (b *base) LoadSums(i policy.Item, s policy.Sums) { b.table.Set(i, s) }

// Pooled implements Learner: besides the sums, selections tell of windows wherever they were made, and so does silence of
// items.
func (b *base) Pooled() []Pooled {
	all := append(b.flights.pooled(), b.windows.pooled()...)
	if b.users != nil {
		all = append(all, b.users.pooledHashes()...)
	}
	if b.attraction != nil {
		all = append(all, Pooled{Hash: hashAttraction, ByItem: true})
	}
	return all
}

// SetSourceField implements Learner.
func (b *base) SetSourceField(source int32, hash string, field, value []byte, items Translate) {
	if b.users != nil && b.users.setSource(source, hash, field, value, items) {
		return
	}
	if hash == hashAttraction {
		if b.attraction != nil {
			b.attraction.setSource(source, field, value, items)
		}
		return
	}
	if hash == hashWindows {
		b.windows.setSourceField(source, hash, field, value)
		return
	}
	b.flights.setSourceField(source, hash, field, value, items, b.table)
}

// Advance implements Learner: learned windows are estimated anew in each period of EstimateEvery in which it is called,
// if there is something new to estimate from. Windows are no part of what a hold freezes. Silence that ages counts anew.
func (b *base) Advance(watermark int64) {
	b.windows.advance(watermark)
	b.flights.advance(watermark, b.table)
	if b.users != nil {
		b.users.advance(b.table)
	}
}

// Windows appends the distribution of windows that decisions are made for, from window 1 on, to dst, and tells how many
// selections, of all sources, it may be learned from. It appends nothing where BASE does not look at windows.
func (b *base) Windows(dst []float64) (q []float64, selections int64) { return b.windows.append(dst) }

// status is what is the same for both.
func (b *base) status() Status {
	s := Status{Fed: b.table.Fed(), Flights: int64(b.flights.total), Silence: b.flights.status()}
	s.Windows, s.Selections = b.windows.shown()
	if b.attraction != nil {
		s.Attraction = b.attraction.status(b.table.Mean())
	}
	if b.users != nil {
		s.Unfed, s.Personal = b.users.unfed, b.users.status()
	}
	return s
}

// harvest gives the changes that are not one learner's alone, and takes note of it.
func (b *base) harvest(r Recorder) {
	for i, what := range b.changes.All() {
		if what&sumsChanged != 0 {
			r.Item(i)
		}
	}
	b.changes.Clear()
	b.flights.harvest(r, &b.writer)
	b.windows.harvest(r, &b.writer)
	if b.attraction != nil {
		b.attraction.harvest(r, &b.writer)
	}
	b.release()
}

// loadField restores what harvest writes.
func (b *base) loadField(hash string, field, value []byte) error {
	if b.users != nil {
		if ok, err := b.users.load(hash, field, value, b.flights.Len()); ok {
			return err
		}
	}
	switch hash {
	case hashFlights:
		return b.flights.load(field, value)
	case hashWindows:
		return b.windows.loadCount(field, value)
	case hashLearner:
		if bytes.Equal(field, fieldSilence) {
			return b.flights.loadEstimate(value)
		}
		if bytes.Equal(field, fieldBelow) {
			return b.flights.loadBelow(value)
		}
		return b.windows.loadEstimate(field, value)
	}
	switch {
	case hash == hashAttraction && b.attraction != nil:
		return b.attraction.load(field, value)
	case hash == hashOpen && b.flights.parts != nil:
		return b.flights.parts.load(field, value)
	case hash == hashHistory && b.flights.drift != nil:
		return b.flights.drift.load(field, value)
	}
	if b.flights.awaiting != nil {
		return b.flights.awaiting.load(hash, field, value)
	}
	return errHash
}
