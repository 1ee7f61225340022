package delay

import (
	"strconv"

	"github.com/ranker-worker/ranker-worker/delay/history"
	"github.com/ranker-worker/ranker-worker/delay/inflight"
	"github.com/ranker-worker/ranker-worker/policy"
)

// hashFlights maps "<item>" to the number of the item's selections in flight, where there are any. With SilenceAges it says
// behind that when they began (inflight.Intervals), where that is known.
const hashFlights = "flights"

// flights counts the selections in flight, those whose payoff is awaited, by item: this partition's own, and those that other
// sources have told of. A count of our own rises with a selection and falls with what becomes of it, its payoff or its
// expiry, and never below 0: a payoff whose selection was not seen (the learner was reset in between) changes nothing.
type flights struct {
	policy.Totals[policy.Count]
	pools    bool            // other sources' are wanted
	awaiting *awaiting       // nil but for SilenceAges
	parts    *partialPayoffs // nil where payoffs do not come in parts
	drift    *drift          // nil where means do not
	silence  Silence
	stored   policy.Pages[policy.Count] // of our own, as harvested last
	total    policy.Count               // of our own
	evidence func(policy.Item) policy.Evidence
}

// tell has the table be told of selections in flight, and what they amount to.
func (f *flights) tell(table *policy.Table, s Silence) {
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

// fed is what an item's payoffs are worth, and its awaited selections.
func (f *flights) fed(sums policy.Sums, i policy.Item, of inFlight) policy.Evidence {
	switch {
	case f.drift == nil:
		return f.silence.silent(sums.Evidence(), of)
	case f.awaiting != nil:
		return f.drift.evidence(i, sums, f.awaiting.quiet(i), of.low)
	}
	return f.silence.silent(f.drift.evidence(i, sums, nil, 0), of)
}

// pooled names the hashes that are: others' payoffs without their silence would mislead as one's own would.
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

// hashes names those that are stored besides the flights themselves.
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

// begin notes a selection.
func (f *flights) begin(fb *Feedback) {
	if f.awaiting != nil {
		f.awaiting.begin(fb)
	}
	f.add(fb.Item, 1)
}

// part notes that something of a payoff has come, or was taken back.
func (f *flights) part(fb *Feedback) {
	if f.parts == nil {
		return
	}
	before, now := fb.told(), history.PayoffsOf(fb.Payoff)
	f.parts.replace(fb.Item, before, now)
	if f.awaiting != nil {
		f.awaiting.part(fb, over(now, f.silence.Default)-over(before, f.silence.Default))
	}
}

// end notes what has become of a selection.
func (f *flights) end(fb *Feedback, what outcome) {
	if f.parts != nil {
		f.parts.replace(fb.Item, fb.told(), history.Payoffs{})
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

// advance takes event time on.
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
	if faded && !f.Shares() { // the whole makes it anew
		f.weigh(table)
	}
}

// weigh makes the evidence of all items anew.
func (f *flights) weigh(table *policy.Table) {
	for i := range policy.Item(f.Len()) {
		table.Weigh(i)
	}
}

// harvest writes what has changed of our own.
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
		*f.stored.At(i) = -1 // they do not hold any longer once something of the item changes, be it to the same count
	}
	f.Set(i, n)
	return nil
}

// loadEstimate restores how late payoffs are and how many come. Where silence does not age any more, it is left as it is.
func (f *flights) loadEstimate(value []byte) error {
	if f.awaiting == nil {
		return nil
	}
	return f.awaiting.loadEstimate(value)
}

// loadBelow restores that of payoffs below the default, likewise.
func (f *flights) loadBelow(value []byte) error {
	if f.awaiting == nil {
		return nil
	}
	return f.awaiting.loadBelow(value)
}

// loaded ends loading.
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

// setSourceField takes in what another source has in a field; nil where it has nothing. What makes no sense is passed over.
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
