package delay

import (
	"slices"

	"github.com/ranker-worker/ranker-worker/policy"
	"github.com/ranker-worker/ranker-worker/policy/propensity"
)

// base is BASE, a policy for stochastic payoffs, with its statistics and their storage. QPMD and Direct embed it, and differ in when they
// feed it.
//
// Besides the items' sums it stores the hash "flights", which maps "<item>" to the number of its selections in flight, and learned windows
// as BOLD does. Numbers are decimal.
type base struct {
	Plain
	policy   policy.Policy         // nil if BASE explores
	explorer *policy.EpsilonGreedy // nil if it does not
	windows  *windows              // for explorer
	aim      []float64             // of explorer with windows folded to this length

	table    *policy.Table
	in       policy.Input // Table and InFlight are set once
	ws       policy.Workspace
	flights  *flights
	contexts *contexts // nil if payoffs do not depend on features

	attraction *attraction // nil if the aim is payoff per selection

	changes *policy.Changes // by item, of all statistics; the table's

	hashes    []storedHash                        // all but "learner"
	columns   []statistic                         // those of hashes that are by item
	singles   map[string]func(value []byte) error // by field of hash "learner": restores it
	forgotten []policy.Item                       // since the last harvest
	atRest    *atRest
	sent      map[int32]*policy.Set  // in a global learner, by source: items of which it has had a row from there, ended ones included
	published func(policy.Item) bool // below a global learner: it has had a row of the item from here
	writer
}

func newBase(p policy.Policy) base {
	table := policy.NewTable(0)
	b := base{policy: p, table: table, changes: table.Changes(), windows: &windows{}, flights: newFlights(),
		sent: make(map[int32]*policy.Set)}
	b.atRest = &atRest{values: []resting{restingSums{table}}}
	b.recorded = &b.atRest.recorded
	b.in = policy.Input{Table: table, InFlight: b.flights}
	b.keepColumn(b.flights)
	b.hashes = append(b.hashes, b.windows)
	ignored := func([]byte) error { return nil } // where SilenceAges or another policy was configured before
	b.singles = map[string]func([]byte) error{fieldWindows: b.windows.loadEstimate,
		fieldSilence: ignored, fieldBelow: ignored, fieldFalls: ignored}
	return b
}

func newExploring(e *policy.EpsilonGreedy, w WindowsConfig) (base, error) {
	b := newBase(nil)
	b.explorer = e
	return b, b.windows.configure(w)
}

// restingSums are a table's own sums.
type restingSums struct{ *policy.Table }

func (t restingSums) rest(i policy.Item) { t.Rest(i, same[policy.Sums]) }

// keepColumn makes a statistic part of the learner's state.
func (b *base) keepColumn(c statistic) {
	b.columns = append(b.columns, c)
	b.atRest.values = append(b.atRest.values, c)
	b.hashes = append(b.hashes, c)
}

// hash returns the state in a hash; nil where the learner has no such hash.
func (b *base) hash(name string) storedHash {
	for _, h := range b.hashes {
		if h.about().Hash == name {
			return h
		}
	}
	return nil
}

// eachTable calls do with each of the learner's tables, and whether the global learner has other state of an item in it than we have.
func (b *base) eachTable(do func(t *policy.Table, differs func(policy.Item) bool)) {
	do(b.table, b.differs)
	if b.attraction != nil {
		do(b.attraction.table, b.attraction.table.Differs)
	}
}

// tablesLoaded ends loading of tables below a global learner's.
func (b *base) tablesLoaded() {
	if !b.table.Shares() {
		return
	}
	b.eachTable(func(t *policy.Table, differs func(policy.Item) bool) { t.Loaded(differs) })
	for i := range policy.Item(b.flights.Len()) {
		if b.table.Evidence(i) != (policy.Evidence{}) || b.attraction != nil && b.attraction.table.Evidence(i) != (policy.Evidence{}) {
			b.atRest.published.Note(i, 1)
		}
	}
}

// differs returns whether the global learner has other state of an item's payoffs from us than we have now. Each change of that state
// weighs the item (Table.Weigh), so an item that differs is fresh at any time, whenever Refresh is called.
func (b *base) differs(i policy.Item) bool {
	for _, c := range b.columns {
		if c.differs(i) {
			return true
		}
	}
	return b.table.Differs(i)
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
	if !b.aimsPerImpression() {
		if b.contexts != nil {
			return b.contexts.know(b.table, &b.in)
		}
		return nil
	}
	factors := b.ranker().(policy.Estimating).Belief() == policy.Unbelieving
	return b.attraction.perImpression(b.in.Items, b.perSelection(), factors)
}

// perSelection returns estimates of payoff per selection, of a policy.Estimating.
func (b *base) perSelection() *policy.Known {
	if b.contexts != nil {
		return b.contexts.know(b.table, &b.in)
	}
	b.ranker().(policy.Estimating).Belief().Estimate(&b.in, &b.attraction.estimates)
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

// Reweigh implements Optional, for learners with windows. Robust counts a selection as 1/propensity impressions in which its item could have
// been selected. Given the ranking, these are impressions in which the item leads.
func (b *base) Reweigh(d *Decision) {
	if b.windows.now == nil {
		return
	}
	q, _ := b.windows.fold(len(d.Order))
	d.Propensities = propensity.Of(d.Propensities[:0], d.Order, q, b.windows.noise)
}

func (b *base) Adopt(int64, *Decision) {}

func (b *base) Needs() Needs { return Needs{Context: b.contexts != nil, Ranking: b.attraction != nil} }

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

// paid ends a selection in flight that was paid, or that expired with the payoff assumed for unpaid ones. The payoff must be fed next, which
// weighs the item.
func (b *base) paid(fb *Feedback) {
	if fb.Defaulted {
		b.flights.take(fb, isDefaulted)
	} else {
		b.flights.take(fb, isPaid)
	}
}

func (b *base) Sums(i policy.Item) policy.Sums { return b.table.Own(i) }

func (b *base) Evidence(i policy.Item) policy.Evidence { return b.table.Evidence(i) }

func (b *base) LoadSums(i policy.Item, s policy.Sums) { b.table.Set(i, s) }

func (b *base) Hashes() []string {
	all := []string{HashLearner}
	for _, h := range b.hashes {
		all = append(all, h.about().Hash)
	}
	return all
}

func (b *base) Pooled() (all []Pooled) {
	for _, h := range b.hashes {
		if about := h.about(); about.pooled {
			all = append(all, about.Pooled)
		}
	}
	return all
}

func (b *base) SetSource(source int32, i policy.Item, s policy.Sums) {
	if b.sent[source] == nil {
		b.sent[source] = &policy.Set{}
	}
	b.sent[source].Add(i)
	if _, found := b.table.From(source, i); found || s != (policy.Sums{}) { // most items of a large catalogue have none
		b.table.SetSource(source, i, s)
	}
}

func (b *base) SetSourceField(source int32, hash string, field, value []byte, items Translate) {
	if h := b.hash(hash); h != nil && h.about().pooled {
		h.setSource(source, field, value, items)
	}
}

// Advance implements Learner. Learned windows are estimated once per EstimateEvery, if selections were added. A hold does not freeze
// windows. Weights of selections in flight follow their age.
func (b *base) Advance(watermark int64) {
	b.windows.advance(watermark)
	b.flights.advance(watermark)
	if b.contexts != nil {
		b.contexts.advance(b.table)
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
	if b.contexts != nil {
		s.Unfed, s.Contextual = b.contexts.unfed, b.contexts.status()
	}
	return s
}

func (b *base) Harvest(r Recorder) {
	known := r.Known()
	if known && b.table.Shares() {
		b.atRest.rest()
	}
	for i, what := range b.changes.All() {
		if what&sumsChanged != 0 {
			b.atRest.recorded.Note(i, 1)
			r.Item(i)
		}
	}
	b.changes.Clear()
	for _, h := range b.hashes {
		h.harvest(r, &b.writer)
	}
	if b.attraction != nil {
		b.attraction.falls.harvest(r, &b.writer)
	}
	if b.contexts != nil {
		b.contexts.harvestFit(r, &b.writer)
	}
	b.release()
	b.atRest.harvested(known, b.table.Shares())
}

func (b *base) LoadField(hash string, field, value []byte) error {
	err := errHash
	if h := b.hash(hash); h != nil {
		err = h.load(field, value, b.flights.Len())
	} else if hash == HashLearner {
		err = errField
		if load := b.singles[string(field)]; load != nil {
			err = load(value)
		}
	}
	return faulty(err, hash, field, value)
}

// release frees the memory of forgotten items after their last harvest.
func (b *base) release() {
	for _, i := range b.forgotten {
		b.Release(i)
	}
	b.forgotten = b.forgotten[:0]
}

// Release implements Pooling.
func (b *base) Release(i policy.Item) {
	for _, c := range b.columns {
		c.Release(i)
	}
	b.table.Release(i)
}

// forget drops an item. The table comes last, since the other steps recompute the item's evidence.
func (b *base) forget(i policy.Item) {
	for _, c := range b.columns {
		c.forget(i)
	}
	b.table.Forget(i)
	if b.contexts != nil {
		b.contexts.forgotten(b.table, i)
	}
	b.forgotten = append(b.forgotten, i)
}

func (b *base) Count(items int) {
	b.eachTable(func(t *policy.Table, _ func(policy.Item) bool) { t.CountItems(items) })
}

func (b *base) ShareOnTop(i policy.Item) (share float64, ok bool) {
	a := b.attraction
	if a == nil || a.table.Fed() == 0 {
		return 0, false
	}
	c := a.belief.Components(a.table)
	return a.share(i, c.Mean, c.Kappa()).Mean, true
}
