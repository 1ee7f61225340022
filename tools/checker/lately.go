package checker

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/ranker-worker/ranker-worker/config"
	"github.com/ranker-worker/ranker-worker/delay/inflight"
	"github.com/ranker-worker/ranker-worker/stream/event"
)

// latelyFold is what a learner of policy robust must know: of each item what was paid, and how often it could have been selected; and of
// all items what was paid above what was expected; by the block of time in which selections began.
type latelyFold struct {
	grid   inflight.Scheme
	pass   int64 // the stored one
	front  int64 // when the newest selection began that was paid
	items  map[uint32]map[inflight.Bucket]recentRow
	levels map[inflight.Bucket]surpriseRow
}

// recentRow is what was paid, and Σ 1/max(propensity, 1/1000) in units of 2⁻¹⁰.
type recentRow struct {
	paidRow
	chances int64
}

func (r recentRow) Add(o recentRow) recentRow {
	return recentRow{r.paidRow.Add(o.paidRow), r.chances + o.chances}
}

// surpriseRow is how many payoffs there were of which something was expected, and in units of 2⁻³⁰ what they were above it.
type surpriseRow struct{ n, sum int64 }

func (r surpriseRow) Add(o surpriseRow) surpriseRow { return surpriseRow{r.n + o.n, r.sum + o.sum} }

// followLately begins to fold what is kept of payoffs lately, where that is determined: without
// what was taken in from elsewhere, of which it is not known in which blocks it stands by now.
func (lf *learnerFold) followLately() {
	if !lf.always || lf.reset != nil || lf.imported != nil || slices.ContainsFunc(lf.variants, func(v *config.Learner) bool {
		return v.Policy != config.Robust
	}) {
		return
	}
	const unit = 1 << 10 // milliseconds: about the shortest half-life, 1 s
	lf.lately = &latelyFold{grid: inflight.NewSchemeUpTo(1, unit), pass: lf.stored.latelyPass, front: math.MinInt64,
		items: map[uint32]map[inflight.Bucket]recentRow{}, levels: map[inflight.Bucket]surpriseRow{}}
}

// take tells of a normalised payoff, or a default in its place, of a selection that began at a time.
func (x *latelyFold) take(l *life, item uint32, began event.Millis, payoff float64) {
	x.front = max(x.front, began)
	b := x.grid.BucketOf(began, x.pass)
	row := recentRow{paidRow{1, inParts(payoff), inParts(payoff * payoff)}, 1 << 10}
	if len(l.propensities) > 0 {
		row.chances = int64(math.Round((1 << 10) / max(l.propensities[l.selected], 1./1000)))
	}
	addTo(&x.items, item, b, row)
	if len(l.expected) > 0 {
		x.levels[b] = x.levels[b].Add(surpriseRow{1, inParts(payoff) - inParts(l.expected[l.selected])})
	}
}

// addTo adds to a block of an item.
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

// checkLately compares what is stored, block by block. Those of an item are as of when one of its selections ended last, and merged
// here to those of the stored pass; those of all items are as of that.
func (lf *learnerFold) checkLately(f *fold) {
	x := lf.lately
	if x == nil || f.partial || lf.unknown || lf.loose {
		f.out.open(latelyItems)
		f.out.open(latelyLevels)
		return
	}
	if x.front > math.MinInt64 {
		equal(f.out, latelyLevels, lf.name+": pass", x.grid.Tick(x.front), x.pass)
	}
	compareRows(f.out, latelyLevels, lf.name, x.levels, lf.stored.levels)
	got := map[uint32]map[inflight.Bucket]recentRow{}
	for number, rows := range lf.stored.lately {
		for b, row := range rows {
			addTo(&got, lf.stored.fold(uint32(number)), x.grid.Merged(b, x.pass), row)
		}
	}
	compareItems(f, lf, latelyItems, x.items, got)
}

// compareItems compares what there is of each item in each block.
func compareItems[R comparable](f *fold, lf *learnerFold, by law, want, got map[uint32]map[inflight.Bucket]R) {
	for item := range want {
		if _, stored := got[item]; !stored {
			got[item] = nil
		}
	}
	for item, rows := range got {
		if int(item) < len(lf.items) && lf.items[item].unknown {
			f.out.open(by)
			continue
		}
		compareRows(f.out, by, lf.name+": "+f.items.name(item), want[item], rows)
	}
}

// compareRows compares what there is in each block.
func compareRows[R comparable](out *findings, by law, name string, want, got map[inflight.Bucket]R) {
	var none R
	id := func(b inflight.Bucket) string {
		return fmt.Sprintf("%s: what began within %d and %d", name, b.Start(), b.End())
	}
	for b := range want {
		if _, stored := got[b]; !stored {
			equal(out, by, id(b), want[b], none)
		}
	}
	for b, row := range got {
		equal(out, by, id(b), want[b], row)
	}
}

// loadRecent reads the rows of an item, each as "<level>:<index>:<payoffs>:<sum>:<squares>:<chances>", in the order of time.
func (s *storedLearner) loadRecent(field, value string) error {
	item, err := strconv.ParseUint(field, 10, 31)
	if err != nil {
		return fmt.Errorf("field is no number: %w", err)
	}
	return eachRow(value, 4, func(b inflight.Bucket, x []int64) error {
		if x[0] <= 0 || x[2] < 0 || x[3] < 0 {
			return fmt.Errorf("%v is of no selections: %w", x, errSilence)
		}
		addTo(&s.lately, int64(item), b, recentRow{paidRow{x[0], x[1], x[2]}, x[3]})
		return nil
	})
}

// loadLevels reads up to when levels are kept; or of a level of blocks their rows, each as "<level>:<index>:<payoffs>:<surprise>".
func (s *storedLearner) loadLevels(field, value string) (err error) {
	if field == "pass" {
		s.latelyPass, err = strconv.ParseInt(value, 10, 64)
		return err
	}
	if s.levels == nil {
		s.levels = map[inflight.Bucket]surpriseRow{}
	}
	return eachRow(value, 2, func(b inflight.Bucket, x []int64) error {
		if x[0] <= 0 || fmt.Sprint(b.Level) != field {
			return fmt.Errorf("%v is of no payoffs, or not of level %s: %w", x, field, errSilence)
		}
		s.levels[b] = surpriseRow{x[0], x[1]}
		return nil
	})
}

// eachRow reads rows of a block and so many numbers each, in the order of time.
func eachRow(text string, numbers int, take func(inflight.Bucket, []int64) error) error {
	end := int64(math.MinInt64)
	for word := range strings.SplitSeq(text, " ") {
		parts := strings.Split(word, ":")
		if len(parts) != 2+numbers {
			return fmt.Errorf("%q is no row: %w", word, errSilence)
		}
		b, err := parseBlock(parts[0] + ":" + parts[1])
		if err != nil || b.Start() < end {
			return fmt.Errorf("%q is no block after the one before: %w", word, errSilence)
		}
		end = b.End()
		all := make([]int64, numbers)
		for k := range all {
			if all[k], err = strconv.ParseInt(parts[2+k], 10, 64); err != nil {
				return fmt.Errorf("%q: %w", word, err)
			}
		}
		if err := take(b, all); err != nil {
			return err
		}
	}
	return nil
}

// loadSpread reads what was last estimated of all items: the pass, payoffs, mean, σ and τ, a half-life, and levels by block.
func loadSpread(text string) error {
	words := strings.SplitN(text, " ", 7)
	if len(words) != 7 {
		return fmt.Errorf("%d words: %w", len(words), errSilence)
	}
	for _, word := range words[:6] {
		if x, err := strconv.ParseFloat(word, 64); err != nil || math.IsNaN(x) {
			return fmt.Errorf("%q is no number: %w", word, errSilence)
		}
	}
	return eachRow(words[6], 1, func(inflight.Bucket, []int64) error { return nil })
}
