package delay

import (
	"strconv"

	"github.com/ranker-worker/ranker-worker/delay/history"
	"github.com/ranker-worker/ranker-worker/delay/inflight"
	"github.com/ranker-worker/ranker-worker/policy"
)

// hashFlights maps "<item>" to its number of selections in flight, if any. With SilenceAges their start times follow
// (inflight.Intervals), as far as they are known.
const hashFlights = "flights"

// flights counts selections in flight by item: this partition's own, and other sources'. Our own count rises with a selection,
// falls when it ends, and never goes below 0. A payoff whose selection was not seen, after a reset of the learner, changes nothing.
type flights struct {
	policy.Totals[policy.Count]
	pools    bool            // other sources' counts are read
	awaiting *awaiting       // nil except with SilenceAges
	parts    *partialPayoffs // nil without partial payoffs
	drift    *drift          // nil without drift
	silence  Silence
	stored   policy.Pages[policy.Count] // our own counts at the last harvest
	total    policy.Count               // the sum of our own counts
	evidence func(policy.Item) policy.Evidence
}

// attach makes the table's evidence include selections in flight.
func (f *flights) attach(table *policy.Table, s Silence) {
	f.Totals = policy.NewTotals(func(i policy.Item, _, _ policy.Count) { table.Weigh(i) })
	f.pools, f.silence = s.Law != SilenceWaits, s
	come := func(policy.Item) (none history.Payoffs) { return none }
	if s.InParts {
		f.parts = &partialPayoffs{Totals: policy.NewTotals(func(i policy.Item, _, _ history.Payoffs) { table.Weigh(i) })}
		come = f.parts.Pooled
	}
	weight := func(policy.Item) (none inFlight) { return none }
	switch s.Law {
	case SilenceAtOnce:
		weight = func(i policy.Item) inFlight { return inFlight{Worth: inflight.Worth{Unpaid: float64(f.Pooled(i))}} }
	case SilenceAges:
		f.awaiting = newAwaiting(s)
		weight = func(i policy.Item) inFlight { return inFlight{f.awaiting.worthOf(i), f.awaiting.now().low} }
	}
	if s.Drift > 0 {
		f.drift = newDrift(s, table)
	}
	f.evidence = func(i policy.Item) policy.Evidence {
		w := weight(i)
		return s.begun(f.fed(table.Pooled(i), i, w), f.Pooled(i), w, come(i))
	}
	table.EvidenceBy(f.evidence)
}

// fed returns the evidence of an item's payoffs and selections in flight.
func (f *flights) fed(sums policy.Sums, i policy.Item, of inFlight) policy.Evidence {
	switch {
	case f.drift == nil:
		return f.silence.silent(sums.Evidence(), of)
	case f.awaiting != nil:
		return f.drift.evidence(i, sums, f.awaiting.unpaidOf(i), of.low)
	}
	return f.silence.silent(f.drift.evidence(i, sums, nil, 0), of)
}

// pooled returns the pooled hashes. Payoffs are pooled together with selections in flight, since without these they are biased.
func (f *flights) pooled() (all []Pooled) {
	if f.pools {
		all = append(all, Pooled{Hash: hashFlights, ByItem: true})
	}
	if f.pools && f.parts != nil {
		all = append(all, Pooled{Hash: hashOpen, ByItem: true})
	}
	if f.awaiting != nil {
		all = append(all, f.awaiting.pooled()...)
	}
	if f.drift != nil {
		all = append(all, Pooled{Hash: hashHistory, ByItem: true})
	}
	return all
}

// hashes returns the stored hashes besides "flights".
func (f *flights) hashes() []string {
	var all []string
	if f.parts != nil {
		all = append(all, hashOpen)
	}
	if f.awaiting != nil {
		for _, p := range f.awaiting.pooled() {
			all = append(all, p.Hash)
		}
	}
	if f.drift != nil {
		all = append(all, hashHistory)
	}
	return all
}

func (f *flights) grow(items int) {
	if f.awaiting != nil {
		f.awaiting.grow(items)
	}
	if f.parts != nil {
		f.parts.Grow(items)
	}
	if f.drift != nil {
		f.drift.Grow(items)
	}
	f.Grow(items)
}

func (f *flights) begin(fb *Feedback) {
	if f.awaiting != nil {
		f.awaiting.begin(fb)
	}
	f.add(fb.Item, 1)
}

func (f *flights) part(fb *Feedback) {
	if f.parts == nil {
		return
	}
	before, now := fb.previous(), history.PayoffsOf(fb.Payoff)
	f.parts.replace(fb.Item, before, now)
	if f.awaiting != nil {
		f.awaiting.part(fb, over(now, f.silence.Default)-over(before, f.silence.Default))
	}
}

// end removes a selection from those in flight.
func (f *flights) end(fb *Feedback, what outcome) {
	if f.parts != nil {
		f.parts.replace(fb.Item, fb.previous(), history.Payoffs{})
	}
	n := f.Own(fb.Item)
	if n <= 0 {
		return
	}
	if f.awaiting != nil {
		f.awaiting.end(fb, what, n)
	}
	f.add(fb.Item, -1)
}

func (f *flights) add(i policy.Item, n policy.Count) {
	f.AddOwn(i, n, 1)
	f.total += n
}

func (f *flights) advance(watermark int64, table *policy.Table) {
	faded := f.drift != nil && f.drift.advance(watermark)
	if f.awaiting != nil {
		f.awaiting.advance(watermark, func(i policy.Item, merged bool) {
			table.Weigh(i)
			if merged {
				f.Changes().Note(i, 1)
			}
		})
	}
	if faded && !f.Shares() { // else the global learner does it
		f.weigh(table)
	}
}

func (f *flights) weigh(table *policy.Table) {
	for i := range policy.Item(f.Len()) {
		table.Weigh(i)
	}
}

func (f *flights) harvest(r Recorder, to *writer) {
	for i := range f.Changes().All() {
		n := f.Own(i)
		if f.stored.Get(i) == n && (n == 0 || f.awaiting == nil) {
			continue
		}
		to.field = strconv.AppendInt(to.field[:0], int64(i), 10)
		if n == 0 {
			f.stored.Remove(i)
			r.Field(hashFlights, to.field, nil)
			continue
		}
		*f.stored.At(i) = n
		to.value = strconv.AppendInt(to.value[:0], int64(n), 10)
		if f.awaiting != nil {
			to.value = f.awaiting.own.Get(i).Append(to.value)
		}
		r.Field(hashFlights, to.field, to.value)
	}
	f.Changes().Clear()
	if f.parts != nil {
		f.parts.harvest(r, to)
	}
	if f.awaiting != nil {
		f.awaiting.harvest(r, to)
	}
	if f.drift != nil {
		f.drift.harvest(r, to)
	}
}

func (f *flights) load(field, value []byte) error {
	i, err := parseItem(field, f.Len())
	if err != nil {
		return err
	}
	n, spans, err := parseFlights(value)
	if err != nil {
		return err
	}
	f.total += n - f.Own(i)
	*f.stored.At(i) = n
	if f.awaiting != nil {
		*f.awaiting.own.At(i) = spans
	} else if len(spans) > 0 {
		*f.stored.At(i) = -1 // start times are stored that are not kept any more: the field must be written even if the count stays the same
	}
	f.Set(i, n)
	return nil
}

// loadEstimate restores the estimate of SilenceAges; other laws ignore it.
func (f *flights) loadEstimate(value []byte) error {
	if f.awaiting == nil {
		return nil
	}
	return f.awaiting.loadEstimate(value)
}

// loadBelow does the same for payoffs below the default.
func (f *flights) loadBelow(value []byte) error {
	if f.awaiting == nil {
		return nil
	}
	return f.awaiting.loadBelow(value)
}

func (f *flights) loaded(table *policy.Table) {
	if f.awaiting != nil {
		f.awaiting.loaded()
	}
	if f.drift != nil {
		f.drift.loaded()
	}
	if (f.awaiting != nil || f.drift != nil) && !f.Shares() {
		f.weigh(table)
	}
}

// setSourceField sets a field of another source; a nil value removes it, and a malformed one is ignored.
func (f *flights) setSourceField(source int32, hash string, field, value []byte, items Translate, table *policy.Table) {
	if hash == hashOpen && f.parts != nil && f.pools {
		f.parts.setSource(source, field, value, items)
		return
	}
	if hash == hashHistory {
		if f.drift != nil {
			f.drift.setSource(source, field, value, items)
		}
		return
	}
	if hash != hashFlights {
		if f.awaiting == nil {
			return
		}
		if i, changed := f.awaiting.setSource(source, hash, field, value, items); changed {
			table.Weigh(i)
		}
		return
	}
	i, known := theirItem(field, items)
	if !known || !f.pools {
		return
	}
	n, spans, err := parseFlights(value)
	if err != nil && value != nil {
		return
	}
	if f.awaiting != nil {
		f.awaiting.setSpans(source, i, spans)
	}
	if value == nil {
		f.Drop(source, i)
	} else {
		f.SetSource(source, i, n)
	}
}
