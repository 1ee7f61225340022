package delay

import (
	"bytes"
	"slices"

	"github.com/ranker-worker/ranker-worker/policy"
)

// base is BASE, a policy for stochastic payoffs, with its statistics and their storage. QPMD and Direct embed it, and differ in when they
// feed it.
//
// Besides the items' sums it stores the hash "flights", which maps "<item>" to the number of its selections in flight, and learned windows
// as BOLD does. Numbers are decimal.
type base struct {
	policy   policy.Policy   // nil if BASE explores
	explorer policy.Explorer // nil if it does not
	windows  windows         // for explorer
	aim      []float64       // of explorer with windows folded to this length

	table   *policy.Table
	in      policy.Input // Table and InFlight are set once
	ws      policy.Workspace
	flights flights
	users   *contexts // nil if payoffs do not depend on features

	attraction *attraction // nil if the aim is payoff per selection

	changes *policy.Changes // by item, of all statistics; the table's

	forgotten []policy.Item // since the last harvest
	writer
}

func newBase(p policy.Policy) base {
	table := policy.NewTable(0)
	return base{policy: p, table: table, changes: table.Changes(), in: policy.Input{Table: table}}
}

func newExploring(e policy.Explorer, w WindowsConfig) (base, error) {
	b := newBase(nil)
	b.explorer = e
	return b, b.windows.configure(w)
}

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

// know returns estimates of the candidates' payoffs, or nil if the policy reads the table.
func (b *base) know() *policy.Known {
	known := b.perSelection()
	if b.aimsPerImpression() {
		return b.attraction.perImpression(b.in.Items, known)
	}
	return known
}

// perSelection returns estimates of payoff per selection, or nil if the policy reads the table.
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

func (b *base) ranker() any {
	if b.explorer != nil {
		return b.explorer
	}
	return b.policy
}

// aimsPerImpression reports whether decisions go by payoff per impression. DecideBy may set a policy that does not.
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

func (b *base) Adopt(int64, *Decision) {}

func (b *base) Needs() Needs { return Needs{Context: b.users != nil, Ranking: b.attraction != nil} }

// Unselected implements Learner. Only shares of selections learn from it.
func (b *base) Unselected(fb Feedback) {
	if b.attraction != nil {
		b.attraction.ended(&fb, false)
	}
}

func (b *base) selected(fb *Feedback) {
	b.flights.begin(fb)
	b.windows.selected(fb)
	if b.attraction != nil {
		b.attraction.ended(fb, true)
	}
}

// paid ends a selection in flight that was paid, or that expired with the payoff assumed for unpaid ones.
func (b *base) paid(fb *Feedback) {
	if fb.Defaulted {
		b.flights.end(fb, isDefaulted)
	} else {
		b.flights.end(fb, isPaid)
	}
}

// dropped ends a selection in flight whose payoff stays unknown.
func (b *base) dropped(fb *Feedback) { b.flights.end(fb, isDropped) }

func (b *base) feed(i policy.Item, payoff float64) { b.table.Add(i, payoff) }

func (b *base) Sums(i policy.Item) policy.Sums { return b.table.Own(i) }

func (b *base) Evidence(i policy.Item) policy.Evidence { return b.table.Evidence(i) }

func (b *base) LoadSums(i policy.Item, s policy.Sums) { b.table.Set(i, s) }

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

// Advance implements Learner. Learned windows are estimated once per EstimateEvery, if selections were added. A hold does not freeze
// windows. Weights of selections in flight follow their age.
func (b *base) Advance(watermark int64) {
	b.windows.advance(watermark)
	b.flights.advance(watermark, b.table)
	if b.users != nil {
		b.users.advance(b.table)
	}
}

// Windows appends the distribution of windows used by decisions to dst, from window 1 on. selections counts those of all sources that it is
// learned from. Without an explorer it appends nothing.
func (b *base) Windows(dst []float64) (q []float64, selections int64) { return b.windows.append(dst) }

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

// harvest writes the changes of the fields common to QPMD and Direct, and clears them.
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
