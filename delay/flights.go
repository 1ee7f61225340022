package delay

import (
	"slices"
	"strconv"

	"github.com/ranker-worker/ranker-worker/delay/history"
	"github.com/ranker-worker/ranker-worker/delay/inflight"
	"github.com/ranker-worker/ranker-worker/policy"
	"github.com/ranker-worker/ranker-worker/policy/words"
)

// hashFlights maps "<item>" to its number of selections in flight, if any. With SilenceAges their start times follow
// (inflight.Intervals), as far as they are known.
var hashFlights = named("flights")

// flights counts selections in flight by item, and computes the evidence that they and payoffs are.
type flights struct {
	column[itemFlights]
	awaiting *awaiting               // nil except with SilenceAges
	parts    column[history.Payoffs] // of partial payoffs; empty without them
	drift    *drift                  // nil without drift
	silence  Silence
	total    policy.Count                      // the sum of our own counts
	open     history.Payoffs                   // the sum of our own parts
	table    *policy.Table                     // nil with QPM-D
	weigh    func(policy.Item)                 // recomputes an item's evidence, after weighFlights
	evidence func(policy.Item) policy.Evidence // nil with QPM-D
}

// newFlights returns counts that no evidence depends on.
func newFlights() *flights {
	f := &flights{weigh: func(policy.Item) {}}
	var totals policy.Totals[itemFlights]
	totals.KeepApart() // start times weigh by source
	f.column = newColumn(&totals, format[itemFlights]{
		hash: hashFlights, carried: true,
		append: func(dst []byte, s itemFlights) []byte { return s.Spans.Append(strconv.AppendInt(dst, int64(s.N), 10)) },
		read:   f.read,
		equal:  itemFlights.equal,
	})
	f.mark = func(s itemFlights) int64 {
		if f.awaiting != nil { // start times change, too
			return unmarked
		}
		return int64(s.N)
	}
	return f
}

// weight returns the weight of an item's selections in flight.
func (f *flights) weight(i policy.Item) inFlight {
	switch f.silence.Law {
	case SilenceAtOnce:
		return inFlight{Worth: inflight.Worth{Unpaid: float64(f.Pooled(i))}}
	case SilenceAges:
		return inFlight{f.awaiting.worthOf(i), f.awaiting.now().low}
	}
	return inFlight{}
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

// Pooled implements policy.Counts: the number of an item's selections in flight, of all sources.
func (f *flights) Pooled(i policy.Item) policy.Count {
	if f.Shares() {
		return f.Global(i).N - f.Published(i).N + f.Own(i).N
	}
	return f.Others(i).N + f.Own(i).N
}

func (f *flights) begin(fb *Feedback) {
	own := f.At(fb.Item)
	if f.awaiting != nil {
		f.awaiting.begin(own, fb)
	}
	own.N++
	f.counted(fb.Item, 1)
	f.weigh(fb.Item)
}

func (f *flights) part(fb *Feedback) {
	if !f.silence.InParts {
		return
	}
	before, now := fb.previous(), history.PayoffsOf(fb.Payoff)
	f.replacePart(fb.Item, before, now)
	if f.awaiting != nil {
		f.awaiting.part(fb, over(now, f.silence.Default)-over(before, f.silence.Default))
	}
}

// replacePart replaces the partial payoff of a selection in flight.
func (f *flights) replacePart(i policy.Item, before, now history.Payoffs) {
	if f.silence.InParts && before != now {
		f.parts.AddOwn(i, now.Minus(before), 1)
		f.open = f.open.Add(now.Minus(before))
	}
}

// end removes a selection from those in flight.
func (f *flights) end(fb *Feedback, what outcome) {
	if f.take(fb, what) {
		f.weigh(fb.Item)
	}
}

// take removes a selection from those in flight, and returns whether it was there. The item must be weighed next.
func (f *flights) take(fb *Feedback, what outcome) bool {
	f.replacePart(fb.Item, fb.previous(), history.Payoffs{})
	if f.Own(fb.Item).N <= 0 {
		return false
	}
	own := f.At(fb.Item)
	if f.awaiting != nil {
		f.awaiting.end(own, fb, what)
	}
	own.N--
	f.counted(fb.Item, -1)
	return true
}

// counted notes that an item's own number has risen by n.
func (f *flights) counted(i policy.Item, n policy.Count) {
	f.total += n
	f.Changed(i, 1)
	f.weighFlights(i)
}

// weighFlights recomputes the weight of an item's selections in flight, after they have changed.
func (f *flights) weighFlights(i policy.Item) {
	if f.awaiting != nil {
		f.awaiting.reweigh(i)
	}
}

// changed recomputes the evidence of an item whose selections in flight have changed.
func (f *flights) changed(i policy.Item) {
	f.weighFlights(i)
	f.weigh(i)
}

// weighed returns the number of the estimate by which selections in flight have their weights.
func (f *flights) weighed() uint64 {
	if f.awaiting == nil {
		return 0
	}
	return f.awaiting.made.number
}

func (f *flights) advance(watermark int64) {
	faded := f.drift != nil && f.drift.advance(watermark)
	if f.awaiting != nil {
		f.awaiting.advance(watermark, func(i policy.Item, merged bool) {
			f.table.Weigh(i)
			if merged {
				f.Changes().Note(i, 1)
			}
		})
	}
	switch {
	case !faded:
	case !f.Shares():
		f.weighAll()
	case f.drift.global.tick == inflight.Never: // else the global learner does it
		f.table.WeighFresh()
	}
}

func (f *flights) weighAll() {
	for i := range policy.Item(f.Len()) {
		f.table.Weigh(i)
	}
}

// loaded ends loading.
func (f *flights) loaded() {
	for _, own := range f.EachOwn() {
		f.total += own.N
	}
	if f.silence.InParts {
		for _, own := range f.parts.EachOwn() {
			f.open = f.open.Add(*own)
		}
	}
	if f.awaiting != nil {
		f.awaiting.loaded()
	}
	if f.drift != nil {
		f.drift.loaded()
	}
	switch {
	case f.Shares(): // the table does it
	case f.awaiting != nil || f.drift != nil:
		f.weighAll()
	default:
		for i, own := range f.EachOwn() {
			if own.N > 0 {
				f.changed(i)
			}
		}
	}
}

func (f *flights) share(global statistic, source int32, number func(policy.Item) policy.Item) {
	f.column.share(global, source, number)
	if f.awaiting != nil {
		f.awaiting.global = global.(*flights).awaiting
	}
}

func (f *flights) forget(i policy.Item) {
	own := f.Own(i)
	f.total -= own.N
	if f.silence.InParts {
		f.open = f.open.Minus(f.parts.Own(i))
	}
	if f.awaiting != nil {
		f.awaiting.every.Remove(own.Spans)
		for _, source := range slices.Collect(f.Sources(i)) {
			f.drop(source, i)
		}
	}
	f.column.forget(i)
	f.changed(i)
}

func (f *flights) Release(i policy.Item) {
	f.column.Release(i)
	if a := f.awaiting; a != nil {
		a.worth.Remove(i)
		a.ownWeight.Remove(i)
		a.shares.Remove(i)
	}
}

// read reads an item's number of selections in flight, and their start times as far as they are known. Only SilenceAges keeps these.
func (f *flights) read(r *words.Reader) itemFlights {
	s := itemFlights{policy.Count(r.Int(1, 1<<53)), inflight.ReadIntervals(r)}
	if r.Check(s.Spans.Count() <= int64(s.N)); f.awaiting == nil {
		s.Spans = nil
	}
	return s
}

// refresh recomputes the weights of our selections in flight after a new global estimate.
func (f *flights) refresh() {
	if a := f.awaiting; a != nil && a.heeds != a.global.made.number {
		a.heeds = a.global.made.number
		a.updateShares()
		a.eachAwaited(a.reweigh)
	}
}

// readTicks reads the sources' ticks, and returns whether an estimate is due: when the latest tick or the earliest has moved.
func (f *flights) readTicks() (due bool) {
	due = f.awaiting != nil && f.awaiting.readTicks()
	if f.drift != nil && f.drift.readTicks() {
		f.weighAll()
	}
	return due
}

// estimate makes the global estimate.
func (f *flights) estimate() {
	f.awaiting.estimate(f.awaiting.until())
	f.reweigh()
}

func (f *flights) reweigh() { f.awaiting.eachAwaited(f.changed) }

func (f *flights) status() SilenceStatus {
	s := SilenceStatus{Law: f.silence.Law}
	switch a := f.awaiting; {
	case a != nil:
		s.Weight = float64(a.ownWeights.sum) / weightUnits
		below := float64(a.ownWeights.below) / weightUnits
		s.Payoffs = f.silence.Default*(s.Weight-below) + a.now().low*below
		e := a.now()
		if of := f.learnedFrom(); of != nil {
			s.Known, s.Delays, s.Covers = true, Delays{a.grid, e.late[sideAbove]}, max(0, a.tick-max(a.since, a.ages[sideAbove].Early.Before))
			s.Median, s.P90 = e.late[sideAbove].Age(&a.grid, 0.5), e.late[sideAbove].Age(&a.grid, 0.9)
			s.Seen = s.P90 <= inflight.Seen(&a.grid, e.until, of.agesOf(sideAbove)...)
			s.Returns = a.law.InParts && e.below > 0
			if !a.law.InParts { // partial payoffs do not show which selections are paid
				s.Share = e.share
			}
		}
	case f.silence.Law == SilenceAtOnce:
		s.Weight = float64(f.total)
		s.Payoffs = f.silence.Default * s.Weight
	}
	if s.Law != SilenceWaits {
		s.Payoffs += float64(over(f.open, f.silence.Default)) / history.Units
	}
	return s
}

// learnedFrom returns the selections in flight from which delays are estimated, of all partitions where they share; nil before the first
// payoff.
func (f *flights) learnedFrom() *awaiting {
	a := f.awaiting
	if a == nil || !a.now().late[sideAbove].Known() {
		return nil
	}
	if a.global != nil {
		a = a.global
	}
	if !a.law.InParts && a.all.Paid == 0 {
		return nil
	}
	return a
}

// coming returns the share of payoffs that come at the greatest ages seen so far (inflight.Coming); 0 before the first payoff.
func (f *flights) coming() float64 {
	a := f.learnedFrom()
	if a == nil {
		return 0
	}
	one := 1.0
	if a.law.InParts {
		one = history.Units
	}
	return inflight.Coming(&a.grid, a.now().until, one, a.agesOf(sideAbove)...)
}

// ownWeight returns the weight of this partition's selections in flight of an item.
func (f *flights) ownWeight(i policy.Item) float64 {
	switch {
	case f.awaiting != nil:
		return float64(f.awaiting.ownWeight.Get(i).sum) / weightUnits
	case f.silence.Law == SilenceAtOnce:
		return float64(f.Own(i).N)
	}
	return 0
}
