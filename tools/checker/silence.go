package checker

import (
	"fmt"
	"maps"
	"math"
	"math/big"
	"slices"

	"github.com/ranker-worker/ranker-worker/config"
	"github.com/ranker-worker/ranker-worker/delay/inflight"
	"github.com/ranker-worker/ranker-worker/stream/event"
)

// silenceFold is the expected state of a learner that weighs selections in flight by age: paid and
// unpaid selections by item, and payoffs' delays. It shares the blocks of time with the learner's code.
type silenceFold struct {
	grid    inflight.Scheme
	ends    []int64 // of the delay bins
	pass    int64   // the stored one
	settled map[uint32]settledCounts
	ages    map[ageCell]int64 // payoffs
	parts   bool              // partial payoffs, counted by size
	none    float64           // the default, normalised
	newest  int64             // time of the newest payoff
	began   bool              // it began with an import, whose blocks are not known
	first   int64             // earliest start of a selection, learned or not
}

// settledCounts counts paid and unpaid selections, the paid ones below the
// default, and the sum of these payoffs, in units of 1/partUnits.
type settledCounts struct{ paid, unpaid, below, low int64 }

func (n settledCounts) String() string {
	return fmt.Sprintf("%d paid, %d of them below the default, of %d together, %d never paid", n.paid, n.below, n.low, n.unpaid)
}

// ageCell is a bin of delays of payoffs below the default, or of the others, whose selections began in a block; the zero one: in any.
type ageCell struct {
	below bool
	block inflight.Bucket
	bin   int
}

func byBin(ages map[ageCell]int64) map[ageCell]int64 {
	all := map[ageCell]int64{}
	for at, n := range ages {
		at.block = inflight.Bucket{}
		all[at] += n
	}
	return all
}

// silenceAges reports whether a learner has weighed selections in flight by age all its life, with one horizon and one default.
func (lf *learnerFold) silenceAges() bool {
	horizon, none := lf.variants[0].PayoffHorizon, lf.variants[0].OnExpiry.Default
	return lf.always && lf.delay == delayDirect && lf.reset == nil && !slices.ContainsFunc(lf.variants, func(v *config.Learner) bool {
		return v.Silence != config.Ages || v.PayoffHorizon != horizon || *v.OnExpiry.Default != *none
	})
}

func (lf *learnerFold) followSilence() {
	if !lf.silenceAges() {
		return
	}
	horizon := max(1, lf.variants[0].PayoffHorizon.Milliseconds())
	s := &silenceFold{grid: inflight.NewScheme(horizon), pass: lf.stored.pass, first: math.MaxInt64, settled: map[uint32]settledCounts{}, ages: map[ageCell]int64{}}
	for k := 0; k == 0 || s.ends[k-1] < horizon; k++ {
		s.ends = append(s.ends, binEnd(k))
	}
	s.grid.Cover(0)
	if lf.stored.since != nil {
		s.grid.Cover(lf.stored.pass - *lf.stored.since)
	}
	s.parts = lf.variants[0].Aggregate == config.Sum
	s.none = normalise(lf.variants[0], *lf.variants[0].OnExpiry.Default)
	lf.silence = s
	if b := lf.imported; b != nil {
		s.began = len(b.ages) > 0
		s.settled = byFold(b, b.settled)
		maps.Copy(s.ages, b.ages)
	}
}

// binEnd returns the end of a delay bin: 1,024 ms·2^(k/4), rounded down.
func binEnd(k int) int64 {
	x := new(big.Int).Exp(big.NewInt(1024), big.NewInt(4), nil)
	x.Lsh(x, uint(k))
	return x.Sqrt(x).Sqrt(x).Int64()
}

// take adds an item's selection with a normalised payoff after a delay, or without one.
func (s *silenceFold) take(item uint32, began event.Millis, age int64, paid float64) {
	if s.parts {
		return
	}
	n := s.settled[item]
	if age == neverPaid {
		n.unpaid++
		s.settled[item] = n
		return
	}
	n.paid++
	below := paid < s.none
	if below {
		n.below++
		n.low += inParts(paid)
	}
	s.settled[item] = n
	s.late(began, age, 1, below)
}

// part adds a partial payoff after a delay: before is the normalised sum of earlier ones, nil if none, and now the sum with it.
func (s *silenceFold) part(began event.Millis, age int64, before *float64, now float64) {
	if !s.parts {
		return
	}
	size := inParts(now) - inParts(s.none)
	if before != nil {
		size = inParts(now) - inParts(*before)
	}
	if size != 0 {
		s.late(began, age, max(size, -size), size < 0)
	}
}

// late counts a payoff, or a part of n units, by its delay.
func (s *silenceFold) late(began event.Millis, age, n int64, below bool) {
	s.newest = max(s.newest, began+age)
	horizon := s.grid.Horizon()
	if age > horizon {
		return
	}
	bin, _ := slices.BinarySearch(s.ends[:len(s.ends)-1], age+1) // the first bin that ends behind it
	s.ages[ageCell{below, s.grid.BucketOf(began, s.pass), bin}] += n
}

// checkSilence compares the statistics of selections in flight.
func (lf *learnerFold) checkSilence(f *fold) {
	lf.checkSpans(f)
	if lf.determined(f, lf.silence != nil, silenceSettled, silenceAges) {
		lf.checkSettled(f)
		lf.checkAges(f)
	}
}

// checkSpans checks that as many selections in flight began in each block as pending impressions.
func (lf *learnerFold) checkSpans(f *fold) {
	for item, spans := range lf.stored.spans {
		var total int64
		for _, x := range spans {
			total += x.n
		}
		n := lf.stored.flights[item]
		f.out.must(silenceFlights, total <= n, lf.name+": "+lf.stored.name(item), say("at most %d selections with a time", n), total)
	}
	switch {
	case !f.state.complete:
	case lf.silence == nil:
		f.out.open(silenceFlights)
	default:
		lf.compareSpans(f)
	}
}

func (lf *learnerFold) compareSpans(f *fold) {
	type inSpan struct{ n, expected int64 }
	want := map[int64][]inSpan{} // by item and span
	for item, spans := range lf.stored.spans {
		want[item] = make([]inSpan, len(spans))
	}
	for _, e := range lf.pending.selected {
		item, began := e.item(), e.began
		lf.silence.first = min(lf.silence.first, began)
		at := slices.IndexFunc(lf.stored.spans[item], func(x storedSpan) bool { return x.block.Start() <= began && began < x.block.End() })
		if at < 0 {
			f.out.broken(silenceFlights, lf.name+": "+lf.stored.name(item), say("a block around %d, when %x began", began, e.id), "none")
			continue
		}
		want[item][at].n++
		if lf.recency != nil {
			want[item][at].expected += lf.silence.expectedOf(e)
		}
	}
	for item, spans := range lf.stored.spans {
		for k, x := range spans {
			name := lf.name + ": " + lf.stored.name(item)
			equal(f.out, silenceFlights, say("%s: pending that began within %d and %d", name, x.block.Start(), x.block.End()),
				want[item][k], inSpan{x.n, x.expected})
			if f.partial || lf.imported != nil { // an import may have brought another pass
				f.out.open(silenceFlights)
				continue
			}
			equal(f.out, silenceFlights, name, lf.silence.grid.BucketOf(x.block.Start(), lf.silence.pass), x.block)
		}
	}
}

// expectedOf returns the selected item's expected payoff above the default, in units of 1/partUnits; 0 if not known.
func (s *silenceFold) expectedOf(e *entry) int64 {
	if len(e.expected) == 0 {
		return 0
	}
	return inParts(float64(e.expected[0])/1e6) - inParts(s.none)
}

// checkSettled compares each item's paid and unpaid selections with payoffs and defaults.
func (lf *learnerFold) checkSettled(f *fold) {
	got := byFold(&lf.stored, lf.stored.settled)
	for _, item := range certain(f, lf, silenceSettled, lf.silence.settled, got) {
		equal(f.out, silenceSettled, lf.name+": "+f.items.name(item), lf.silence.settled[item], got[item])
	}
}

// idle reports whether a learner has never ticked. One that was added knows no item until event time moves on.
func (lf *learnerFold) idle(pass int64) bool { return pass == 0 && len(lf.items) == 0 }

// checkAges compares payoffs' delays, each in the block in which its selection began, as of the pass.
func (lf *learnerFold) checkAges(f *fold) {
	s, pass := lf.silence, lf.stored.pass
	latest := s.grid.Tick(f.state.watermark)
	same := lf.imported == nil && len(f.past[lf.name]) == 0 // else it may be of another group, or none yet
	// The length of a tick may have grown at the last one.
	f.out.must(silenceAges, pass%(4*inflight.Shortest) == 0 && (latest <= pass && pass <= f.state.watermark || !same || lf.idle(pass)), lf.name+": pass",
		say("%d to %d", latest, f.state.watermark), pass)
	if since := lf.stored.since; since != nil && same && s.first != math.MaxInt64 {
		least := s.grid.BucketOf(s.first, pass).Start()
		f.out.must(silenceAges, *since >= least, lf.name+": start of the earliest bucket", say("%d or later", least), *since)
	}
	if lf.stored.estimated != nil {
		equal(f.out, silenceAges, lf.name+": pass of the estimate", pass, *lf.stored.estimated)
	}
	if lf.loose {
		f.out.open(silenceAges)
		return
	}
	// The newest payoff counts with its own time, or with the pass at which it was read if that is earlier.
	if newest := lf.stored.newest; same && newest != 0 {
		most := s.grid.Tick(s.newest) + s.grid.TickLength()
		f.out.must(silenceAges, newest%(4*inflight.Shortest) == 0 && newest <= most, lf.name+": newest payoff", say("up to %d", most), newest)
	}
	want, got := byBin(s.ages), byBin(lf.stored.ages)
	for bin := range s.ends {
		for _, at := range []ageCell{{bin: bin}, {bin: bin, below: true}} {
			equal(f.out, silenceAges, say("%s: payoffs in bin %d, below the default: %t", lf.name, bin, at.below), want[at], got[at])
		}
	}
	if s.began {
		f.out.open(silenceAges)
		return
	}
	for at := range either(s.ages, lf.stored.ages) {
		equal(f.out, silenceAges, say("%s: payoffs in bin %d of selections that began within %d and %d, below the default: %t", lf.name, at.bin,
			at.block.Start(), at.block.End(), at.below), s.ages[at], lf.stored.ages[at])
	}
}

// storedSpan counts selections in flight that began in a block.
type storedSpan struct {
	block    inflight.Bucket
	n        int64
	expected int64 // expected payoffs above the default, in units of 1/partUnits
}

// loadFlights reads an item's number of selections in flight, and their spans, each "<level>:<index>:<n>", with ":<expected>" if there is one.
func (s *storedLearner) loadFlights(k, w *words) {
	item := k.item()
	put(&s.flights, item, w.int(1))
	if !w.more() {
		return
	}
	var spans []storedSpan
	w.rows(func(b inflight.Bucket, row *words) {
		x := storedSpan{block: b, n: row.int(1)}
		if row.more() {
			if x.expected = row.int(anyInt); x.expected == 0 {
				row.fail("an expectation of 0")
			}
		}
		spans = append(spans, x)
	})
	put(&s.spans, item, spans)
}

// loadSettled reads an item's "<paid> <unpaid>", with "<below> <low>" if there are any.
func (s *storedLearner) loadSettled(k, w *words) {
	n := settledCounts{paid: w.int(0), unpaid: w.int(0)}
	if w.more() {
		n.below, n.low = w.int(1), w.int(0)
	}
	if max(n.paid, n.unpaid, n.below) >= 1<<53 {
		w.fail("too large")
	}
	put(&s.settled, k.item(), n)
}

// loadAges reads a time, or a row: "<bin>:<count>" for each bin with payoffs.
func (s *storedLearner) loadAges(k, w *words) {
	switch {
	case k.next("pass"):
		s.pass = w.int(anyInt)
	case k.next("newest"):
		s.newest = w.int(anyInt)
	case k.next("since"): // the horizon is that of all its life, see silenceAges
		s.since = &w.ints(4)[0]
	default:
		at := ageCell{below: k.next("below"), block: k.bucket()}
		w.each(func(w *words) {
			at.bin = int(w.number(0))
			if s.ages[at] > 0 {
				w.fail("the same bin twice")
			}
			put(&s.ages, at, w.int(1))
		})
	}
}

// loadDelayDistribution reads the last delay distribution: pass, time of the last selection
// included, and shares. These are the share of selections that are paid, the mean of payoffs
// not below the default, two credibilities, and cumulative shares of payoffs by bin.
func (s *storedLearner) loadDelayDistribution(w *words) {
	pass := w.int(anyInt)
	if w.int(anyInt) > pass {
		w.fail("a selection after the pass")
	}
	w.shares(4)
	s.estimated = &pass
}
