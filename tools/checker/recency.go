package checker

import (
	"math"
	"slices"

	"github.com/ranker-worker/ranker-worker/config"
	"github.com/ranker-worker/ranker-worker/delay/inflight"
	"github.com/ranker-worker/ranker-worker/stream/event"
)

// recencyFold is the expected state of a robust learner, by the bucket of time in which selections began. It has each item's payoffs and
// chances of a selection, and the residuals of all items' payoffs.
type recencyFold struct {
	grid   inflight.Scheme
	pass   int64 // the stored one
	front  int64 // beginning of the newest selection that was paid
	items  map[uint32]map[inflight.Bucket]recentRow
	levels map[inflight.Bucket]surpriseRow
}

// recentRow holds payoffs, and Σ 1/max(propensity, 1/1000) in units of 2⁻¹⁰.
type recentRow struct {
	paidRow
	chances int64
}

func (r recentRow) Add(o recentRow) recentRow {
	return recentRow{r.paidRow.Add(o.paidRow), r.chances + o.chances}
}

// surpriseRow holds the number of payoffs with an expected one, and the sum of residuals in units of 2⁻³⁰.
type surpriseRow struct{ n, sum int64 }

func (r surpriseRow) Add(o surpriseRow) surpriseRow { return surpriseRow{r.n + o.n, r.sum + o.sum} }

// followLately begins to fold recent payoffs, if that is determined: the blocks of imported ones are not known.
func (lf *learnerFold) followLately() {
	if !lf.always || lf.reset != nil || lf.imported != nil || slices.ContainsFunc(lf.variants, func(v *config.Learner) bool {
		return v.Policy != config.Robust
	}) {
		return
	}
	const unit = 1 << 10 // milliseconds: about the shortest half-life, 1 s
	lf.recency = &recencyFold{grid: inflight.NewSchemeUpTo(1, unit), pass: lf.stored.recentPass, front: math.MinInt64,
		items: map[uint32]map[inflight.Bucket]recentRow{}, levels: map[inflight.Bucket]surpriseRow{}}
}

// take adds a normalised payoff, or a default, of an impression's selection.
func (x *recencyFold) take(l *life, item uint32, payoff float64) {
	x.takeEnded(l, payoff)
	row := recentRow{paidRow{1, inParts(payoff), inParts(payoff * payoff)}, 1 << 10}
	if len(l.propensities) > 0 && l.propensities[l.selected] > 0 { // 0, of a candidate behind a pinned one, is as unknown
		row.chances = int64(math.Round((1 << 10) / max(l.propensities[l.selected], 1./1000)))
	}
	addTo(&x.items, item, x.grid.BucketOf(l.began, x.pass), row)
}

// takeEnded adds a payoff to the sums that are not by item.
func (x *recencyFold) takeEnded(l *life, payoff float64) {
	x.front = max(x.front, l.began)
	if len(l.expected) > 0 {
		b := x.grid.BucketOf(l.began, x.pass)
		x.levels[b] = x.levels[b].Add(surpriseRow{1, inParts(payoff) - inParts(l.expected[l.selected])})
	}
}

func addTo[K comparable, R interface{ Add(R) R }](all *map[K]map[inflight.Bucket]R, item K, b inflight.Bucket, row R) {
	if *all == nil {
		*all = map[K]map[inflight.Bucket]R{}
	}
	rows := (*all)[item]
	if rows == nil {
		rows = map[inflight.Bucket]R{}
		(*all)[item] = rows
	}
	rows[b] = rows[b].Add(row)
}

// checkLately compares the stored blocks. Those of an item are as of the end of its last
// selection, and are merged here to the stored pass; those of all items are as of the pass.
func (lf *learnerFold) checkLately(f *fold) {
	x := lf.recency
	if !lf.determined(f, x != nil && !lf.loose, recentItems, recentLevels) {
		return
	}
	if x.front > math.MinInt64 {
		equal(f.out, recentLevels, lf.name+": pass", x.grid.Tick(x.front), x.pass)
	}
	compareRows(f.out, recentLevels, lf.name, x.levels, lf.stored.levels)
	got := map[uint32]map[inflight.Bucket]recentRow{}
	for number, rows := range lf.stored.recency {
		for b, row := range rows {
			addTo(&got, lf.stored.fold(uint32(number)), x.grid.Merged(b, x.pass), row)
		}
	}
	compareItems(f, lf, recentItems, x.items, got)
}

func compareItems[R comparable](f *fold, lf *learnerFold, by law, want, got map[uint32]map[inflight.Bucket]R) {
	for _, item := range certain(f, lf, by, want, got) {
		compareRows(f.out, by, lf.name+": "+f.items.name(item), want[item], got[item])
	}
}

func compareRows[R comparable](out *findings, by law, name string, want, got map[inflight.Bucket]R) {
	for b := range either(want, got) {
		equal(out, by, say("%s: selections between %d and %d", name, b.Start(), b.End()), want[b], got[b])
	}
}

// loadRecent reads an item's rows, each "<level>:<index>:<payoffs>:<sum>:<squares>:<chances>", in order of time.
func (s *storedLearner) loadRecent(k, w *words) {
	item := k.item()
	w.rows(func(b inflight.Bucket, row *words) {
		addTo(&s.recency, item, b, recentRow{paidRow{row.int(1), row.int(anyInt), row.int(0)}, row.int(0)})
	})
}

// loadLevels reads the pass; or a level's rows, each "<level>:<index>:<payoffs>:<residuals>".
func (s *storedLearner) loadLevels(k, w *words) {
	if k.next("pass") {
		s.recentPass = w.int(anyInt)
		return
	}
	level := k.int(0)
	w.rows(func(b inflight.Bucket, row *words) {
		if int64(b.Level) != level {
			row.fail("of another level")
		}
		put(&s.levels, b, surpriseRow{row.int(1), row.int(anyInt)})
	})
}

// driftFold is the expected state of a learner with drift: payoffs of an item's selections, by the block of time in which these began.
type driftFold struct {
	grid  inflight.Scheme
	pass  int64 // the stored one
	items map[uint32]map[inflight.Bucket]paidRow
}

// paidRow holds the number of payoffs, and the sums of them and of their squares in units of 2⁻³⁰.
type paidRow struct{ n, sum, squares int64 }

func (r paidRow) Add(o paidRow) paidRow {
	return paidRow{r.n + o.n, r.sum + o.sum, r.squares + o.squares}
}

// drifts reports whether a learner has had drift all its life, with one horizon.
func (lf *learnerFold) drifts() bool {
	horizon := lf.variants[0].PayoffHorizon
	return lf.always && lf.delay == delayDirect && lf.reset == nil && !slices.ContainsFunc(lf.variants, func(v *config.Learner) bool {
		return v.Drift == 0 || v.PayoffHorizon != horizon
	})
}

// followDrift begins to fold payoffs by block, if that is determined: the blocks of imported payoffs are not known.
func (lf *learnerFold) followDrift() {
	if lf.drifts() && lf.imported == nil {
		lf.drift = &driftFold{grid: inflight.NewScheme(max(1, lf.variants[0].PayoffHorizon.Milliseconds())), pass: lf.stored.faded,
			items: map[uint32]map[inflight.Bucket]paidRow{}}
	}
}

// take adds a normalised payoff, or a default, of a selection that began then.
func (d *driftFold) take(item uint32, began event.Millis, payoff float64) {
	addTo(&d.items, item, d.grid.BucketOf(began, d.pass), paidRow{1, inParts(payoff), inParts(payoff * payoff)})
}

// checkDrift compares the stored payoffs block by block.
func (lf *learnerFold) checkDrift(f *fold) {
	if !lf.determined(f, lf.drift != nil && !lf.loose, driftHistory) {
		return
	}
	latest := lf.drift.grid.Tick(f.state.watermark)
	same := len(f.past[lf.name]) == 0 // else it may be of another group, or none yet
	pass := lf.stored.faded
	f.out.must(driftHistory, lf.drift.grid.Tick(pass) == pass && (pass == latest || !same || lf.idle(pass)), lf.name+": pass", latest, pass)
	compareItems(f, lf, driftHistory, lf.drift.items, byFold(&lf.stored, lf.stored.history))
}

// loadHistory reads the pass and its beginning; or an item's rows, each "<level>:<index>:<payoffs>:<sum>:<squares>", in order of time.
func (s *storedLearner) loadHistory(k, w *words) {
	if k.next("pass") {
		if s.faded = w.int(anyInt); w.int(anyInt) > s.faded {
			w.fail("it ends before it begins")
		}
		return
	}
	item := k.item()
	w.rows(func(b inflight.Bucket, row *words) {
		addTo(&s.history, item, b, paidRow{row.int(1), row.int(anyInt), row.int(0)})
	})
}
