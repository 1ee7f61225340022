package checker

import (
	"fmt"
	"math"
	"strconv"

	"github.com/ranker-worker/ranker-worker/config"
)

// moments are a sample's size, mean, and sum of squared deviations.
type moments struct {
	n         int64
	mean, dev float64
}

// add adds a value (B. P. Welford, "Note on a method for calculating corrected sums of squares and products", Technometrics 1962).
func (m *moments) add(x float64) {
	m.n++
	d := x - m.mean
	m.mean += d / float64(m.n)
	m.dev += d * (x - m.mean)
}

// maxLearned bounds the items whose order a learner finds, by stored number; maxEstimate bounds an estimate.
const (
	maxLearned  = 8192
	maxEstimate = 0x1p256
)

// selected adds the selection of the item at a position: the interval of the
// window, and pairs of items. rec is its record; nil if a payoff selected.
func (lf *learnerFold) selected(l *life, at int, rec *record) {
	if lf.reset != nil { // its statistics are gone
		return
	}
	switch {
	case l.ordered && (len(l.propensities) > 0 || !lf.given):
		lf.intervals[interval(l.ranks, at, lf.decided[0].Windows.Max)]++
	case !l.ordered && lf.given && len(l.propensities) > 0:
		lf.anyInterval++
	}
	lf.attracted(l, at)
	if lf.given {
		return
	}
	item := l.items[at]
	if rec != nil && rec.hasUtility && math.Abs(rec.value) <= maxEstimate {
		made(&lf.rated, item).add(rec.value)
	}
	for _, worse := range l.worse(at) {
		lf.pairs[[2]uint32{item, worse}]++
		if len(l.ranks) > 0 && (len(l.undecided) == 0 || l.undecided[0] == 0) { // the policy's ranking
			lf.against[[2]uint32{item, worse}]++
		}
	}
}

// interval returns the stored form of the window's interval by the selection at a position, and of the length of its list. The window
// reached the position, and not the next item with a higher utility. Windows and lists beyond the longest window are one. A selection
// behind a higher utility has a class of its own. Of a length the four highest bits count.
func interval(ranks []int32, at, longest int) string {
	low, length := min(at+1, longest), ""
	if n := len(ranks); n < longest {
		step := 1
		for n/step >= 16 {
			step *= 2
		}
		length = strconv.Itoa(n / step * step)
	}
	for _, rank := range ranks[:at] {
		if rank > ranks[at] {
			return fmt.Sprintf("%d:0:%s", low, length)
		}
	}
	for k := at + 1; k < len(ranks) && k < longest; k++ {
		if ranks[k] > ranks[at] {
			return fmt.Sprintf("%d:%d:%s", low, k, length)
		}
	}
	return fmt.Sprintf("%d::%s", low, length)
}

// worse returns the items that the selected one is preferred to, as known at the decision. Ranks between two uncertain ones form a block
// whose order was certain. Of each block only the highest rank shown above counts. Of the selected item's own block only a contradicting
// one counts.
func (l *life) worse(at int) []uint32 {
	var all []uint32
	if len(l.ranks) == 0 { // the order was not known
		if len(l.propensities) > 0 || l.instance >= 0 {
			all = append(all, l.items[:at]...)
		}
		return all
	}
	block := func(rank int32) int {
		n := 0
		for _, r := range l.undecided {
			if r <= rank {
				n++
			}
		}
		return n
	}
	highest := map[int]int{} // by block: the position shown
	for k := range at {
		b := block(l.ranks[k])
		if best, some := highest[b]; !some || l.ranks[k] > l.ranks[best] {
			highest[b] = k
		}
	}
	for b, k := range highest {
		if b != block(l.ranks[at]) || l.ranks[k] > l.ranks[at] {
			all = append(all, l.items[k])
		}
	}
	return all
}

// checkWindows checks that each selection with a known order of utilities was counted for one
// window. Configurations decide whether windows are learned; if not always, there are fewer.
func (lf *learnerFold) checkWindows(f *fold) {
	if !lf.determined(f, !lf.loose, boldWindows) {
		return
	}
	always, same := lf.always, true
	for _, v := range lf.variants {
		always = always && v.Windows.Learned() && looksAtWindows(v)
		same = same && v.Windows.Max == lf.decided[0].Windows.Max
	}
	want, got := lf.intervals, lf.stored.windows
	if !same { // the longest window changed: only the number is certain
		want, got = map[string]int64{"all": sum(want)}, map[string]int64{"all": sum(got)}
	}
	compareCounts(f, boldWindows, want, got, func(at string) string { return lf.name + ": " + at }, always, lf.anyInterval)
}

func looksAtWindows(v *config.Learner) bool {
	return v.Policy == config.FTRL || v.Policy == config.OSMD || v.Policy == config.Robust || v.Policy == config.EpsilonGreedy
}

func sum(all map[string]int64) (n int64) {
	for _, k := range all {
		n += k
	}
	return n
}

// compareCounts compares stored counts, 0 if missing, with expected ones. Some may be higher by more; unless always, some may be lower.
func compareCounts[K comparable](f *fold, by law, want, got map[K]int64, name func(K) string, always bool, more int64) {
	for key := range either(want, got) {
		b := bound{want[key], want[key] + more}
		if !always {
			b.lo = 0
		}
		f.out.within(by, name(key), b, got[key])
	}
}

// checkPreferences compares the counts of pairs, or the estimates with selections, of a learner
// that finds the order of utilities. The configuration chooses; if it has changed, there are fewer.
func (lf *learnerFold) checkPreferences(f *fold) {
	if lf.given || !lf.determined(f, !lf.loose, preferences) {
		return
	}
	found := map[config.Utilities]bool{}
	for _, v := range lf.variants {
		found[v.Utilities] = true
	}
	always := lf.always && len(found) == 1
	if found[config.Sorted] {
		got, against := map[[2]uint32]int64{}, map[[2]uint32]int64{}
		for p, n := range lf.stored.pairs {
			q := [2]uint32{lf.stored.fold(p[0]), lf.stored.fold(p[1])}
			got[q], against[q] = n, lf.stored.against[p]
		}
		for p := range lf.pairs {
			if lf.numbered(f, p[0]) >= maxLearned || lf.numbered(f, p[1]) >= maxLearned {
				delete(lf.pairs, p)
				delete(lf.against, p)
			}
		}
		name := func(p [2]uint32) string {
			return fmt.Sprintf("%s: %s selected below %s", lf.name, f.items.name(p[0]), f.items.name(p[1]))
		}
		compareCounts(f, preferences, lf.pairs, got, name, always, 0)
		compareCounts(f, preferences, lf.against, against, func(p [2]uint32) string { return name(p) + ", against the order" }, always, 0)
	}
	if found[config.Social] {
		lf.checkRatings(f, always)
	}
}

func (lf *learnerFold) numbered(f *fold, item uint32) int64 {
	if s, ok := lf.stored.items[f.items.name(item)]; ok {
		return s.number
	}
	return -1
}

// checkRatings compares each item's number, mean and deviations of estimates.
func (lf *learnerFold) checkRatings(f *fold, always bool) {
	got := byFold(&lf.stored, lf.stored.rated)
	counts, want := map[uint32]int64{}, map[uint32]int64{}
	for item, m := range got {
		counts[item] = m.n
	}
	for item, r := range lf.rated {
		want[item] = r.n
	}
	name := func(item uint32) string { return lf.name + ": estimates of item " + f.items.name(item) }
	compareCounts(f, preferences, want, counts, name, always, 0)
	for item, r := range lf.rated {
		m := got[item]
		if m.n != r.n || !always {
			f.out.open(preferences)
			continue
		}
		scale := float64(r.n) * (r.mean*r.mean + 1)
		ok := near(m.mean, r.mean, r.n) && math.Abs(m.dev-r.dev) <= 1e-12*(scale+r.dev)*float64(16+r.n)
		f.out.must(preferences, ok, name(item), say("mean %v, squared deviations %v", r.mean, r.dev),
			say("mean %v, squared deviations %v", m.mean, m.dev))
	}
}

// loadPair reads "<better>:<worse>": the number of selections of the first below the second,
// in impressions ranked to find the order and, after a blank, against a certain order.
func (s *storedLearner) loadPair(k, w *words) {
	p := [2]uint32{uint32(k.number(0)), uint32(k.number(0))}
	if p[0] == p[1] {
		k.fail("not two different numbers")
	}
	n, against := w.int(0), int64(0)
	if w.more() {
		against = w.int(0)
	}
	if n+against == 0 {
		w.fail("of no selections")
	}
	put(&s.pairs, p, n+against)
	put(&s.against, p, against)
}

// loadEstimate reads the last estimate of windows: period, selections, noise, and probabilities.
func loadEstimate(w *words) {
	w.int(0)
	w.int(0)
	if w.float(0, 1) == 1 {
		w.fail("all is noise")
	}
	total := 0.0
	for w.more() {
		total += w.float(math.SmallestNonzeroFloat64, 1)
	}
	if math.Abs(total-1) > 1e-9 {
		w.fail(fmt.Sprintf("probabilities that add up to %v", total))
	}
}
