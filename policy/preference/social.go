package preference

import (
	"bytes"
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"

	"github.com/ranker-worker/ranker-worker/policy"
)

// SocialConfig is what a Social is made from. The zero value is the default.
type SocialConfig struct {
	// Sigma is the standard deviation of a single user's estimate (sub-Gaussian). 0: it is estimated from the estimates.
	Sigma float64
	// Delta bounds the probability that any interval ever misses. 0: DefaultDelta.
	Delta float64
	// Resolution is the half-width, in standard deviations of a single user's estimate, from which on an interval is
	// taken for a point, its mean. 0: DefaultResolution.
	Resolution float64
	// Budget is the number of estimates from which on an interval is taken for its mean whatever its width: good enough. 0: none.
	Budget int64
}

// Defaults of SocialConfig.
const (
	DefaultDelta      = 0.05
	DefaultResolution = 0.1
	// DefaultBudget is what learners have, though it is no default of SocialConfig: the mean of so many estimates has a standard
	// error of a tenth of their deviation.
	DefaultBudget = 100
)

// maxEstimate bounds an estimate of a utility: neither squares of those below it nor their sums overflow.
const maxEstimate = 0x1p256

// Social finds the order of users who learn from each other (the paper's appendix C.1). Each publishes, with what is
// selected, an own unbiased estimate of its utility; the mean of N of them, give or take σ·√(2·log(4nt²/δ)/N), is what
// everybody knows of it, for n items and t estimates: with probability at least 1-δ no such interval ever misses. Users
// take any value inside for the utility.
//
// An impression in which the intervals of two candidates overlap explores: it shows the least-selected item whose
// interval overlaps another's on top, then the others of which the same is true in the order of their selections, then
// the rest by their means. When all are disjoint the order is certain, and users agree with it whatever values they
// take. An interval that has shrunk to a half-width of Resolution·σ, which takes 2·log(4nt²/δ)/Resolution² estimates, is
// taken for a point: or two items that are liked alike would be explored for ever. Items that are closer than twice that
// may end up in either order. With a Budget so many estimates are good enough for any interval: the burn-in ends however much
// users' estimates vary, and items that are closer than some standard errors may end up in either order.
//
// The scale σ is estimated, unless it is given, by the variance of estimates within items, and enlarged by what keeps it
// from falling short of the true one with probability at least 1-δ/2 where estimates are Gaussian (B. Laurent, P. Massart,
// "Adaptive estimation of a quadratic functional by model selection", Annals of Statistics 2000, Lemma 1). Until there are
// enough, no interval is bounded.
//
// It is stored in the hash "utilities": "<item>" maps to "<N> <mean> <sum of squared deviations>" of its estimates. A
// selection without a utility teaches nothing, and is counted.
type Social struct {
	config SocialConfig
	sums   policy.Totals[moments] // by item
	unused int64

	total  int64     // estimates
	within []float64 // sums of squared deviations from the items' means, of so many items each
	met    int64     // items with an estimate

	undecided int64    // pairs, when they were counted last
	counted   [2]int64 // items and estimates, when they were
	nextCount int64    // watermark
	entries   []socialEntry
	field     []byte
	value     []byte
}

var _ Finder = (*Social)(nil)

// moments are those of an item's estimates: their number, mean, and sum of squared deviations from it.
type moments struct {
	n    int64
	mean float64
	dev  float64
}

type socialEntry struct {
	low, mean, high float64 // the interval
	n               int64
	tie             uint64
	rank            int32
}

// itemsPerSum is how many items are added up anew at each change, so that the sum of all, with one addition for so many
// items, is a function of what is known and not of how it came about.
const itemsPerSum = 64

// NewSocial makes one that knows no items yet. It fails where a number of the configuration is negative or not finite.
func NewSocial(c SocialConfig) (*Social, error) {
	for _, x := range []float64{c.Sigma, c.Delta, c.Resolution} {
		if !(x >= 0) || math.IsInf(x, 0) || c.Delta >= 1 {
			return nil, fmt.Errorf("preference: sigma %v, delta %v, resolution %v", c.Sigma, c.Delta, c.Resolution)
		}
	}
	if c.Delta == 0 {
		c.Delta = DefaultDelta
	}
	if c.Resolution == 0 {
		c.Resolution = DefaultResolution
	}
	s := &Social{config: c}
	s.sums = policy.NewTotals(s.keepUp)
	return s, nil
}

// Add is the moments of both samples together (T. Chan, G. Golub, R. LeVeque, "Updating formulae and a pairwise algorithm
// for computing sample variances", 1979).
func (m moments) Add(o moments) moments {
	switch {
	case o.n == 0:
		return m
	case m.n == 0:
		return o
	}
	n := float64(m.n + o.n)
	d := o.mean - m.mean
	return moments{
		n: m.n + o.n, mean: m.mean + float64(d*(float64(o.n)/n)),
		dev: m.dev + o.dev + float64(float64(d*d)*(float64(m.n)*float64(o.n)/n)),
	}
}

// Grow implements Finder.
func (s *Social) Grow(items int) {
	s.sums.Grow(items)
	s.within = extend(s.within, (s.sums.Len()+itemsPerSum-1)/itemsPerSum-len(s.within))
}

// keepUp keeps up what hangs on the pooled moments of all items.
func (s *Social) keepUp(i policy.Item, before, after moments) {
	s.total += after.n - before.n
	first := int(i) / itemsPerSum * itemsPerSum
	var within float64
	for k := first; k < min(first+itemsPerSum, s.sums.Len()); k++ {
		within += s.sums.Pooled(policy.Item(k)).dev
	}
	s.within[first/itemsPerSum] = within
	switch {
	case before.n == 0 && after.n > 0:
		s.met++
	case before.n > 0 && after.n == 0:
		s.met--
	}
}

// scale is σ², or more; infinite while that is not known.
func (s *Social) scale() float64 {
	if s.config.Sigma > 0 {
		return s.config.Sigma * s.config.Sigma
	}
	// Of d squared Gaussians the sum is below d − 2√(d·x) with probability at most e^−x.
	d, x := float64(s.total-s.met), math.Log(2/s.config.Delta)
	if least := d - 2*math.Sqrt(d*x); least > 0 {
		var within float64
		for _, x := range s.within {
			within += x
		}
		return within / least
	}
	return math.Inf(1)
}

// log is log(4nt²/δ), of its parts, for t² may have more digits than there are.
func (s *Social) log() float64 {
	delta := s.config.Delta
	if s.config.Sigma == 0 {
		delta /= 2 // the other half is the scale's
	}
	return math.Log(4*float64(max(s.sums.Len(), 1))/delta) + 2*math.Log(float64(max(s.total, 1)))
}

// radius of an item's interval, given 2·σ²·log(4nt²/δ).
func radius(width float64, n int64) float64 {
	if n == 0 {
		return math.Inf(1)
	}
	return math.Sqrt(width / float64(n))
}

// point is the number of estimates from which on an interval is taken for its mean.
func (s *Social) point(log float64) float64 {
	most := 2 * log / (s.config.Resolution * s.config.Resolution)
	if s.config.Budget > 0 {
		most = min(most, float64(s.config.Budget))
	}
	return most
}

// Sort implements Finder.
func (s *Social) Sort(candidates []policy.Item, key policy.Key, order, undecided []int32) []int32 {
	s.measure(candidates, key)
	slices.SortFunc(s.entries, func(a, b socialEntry) int {
		// Of those that were never selected the mean, 0, means nothing; their interval says so.
		return cmp.Or(cmp.Compare(a.mean, b.mean), cmp.Compare(a.tie, b.tie), cmp.Compare(a.rank, b.rank))
	})
	for r, e := range s.entries {
		order[r] = e.rank
		// Where the intervals of two overlap, those of two neighbours between them do.
		if r > 0 && overlap(&s.entries[r-1], &e) {
			undecided = append(undecided, int32(r))
		}
	}
	return undecided
}

// measure fills s.entries with the candidates' intervals, in their order.
func (s *Social) measure(candidates []policy.Item, key policy.Key) {
	log := s.log()
	width := 2 * s.scale() * log
	point := s.point(log)
	s.entries = slices.Grow(s.entries[:0], len(candidates))
	for k, i := range candidates {
		m := s.sums.Pooled(i)
		r := radius(width, m.n)
		if float64(m.n) >= point {
			r = 0
		}
		s.entries = append(s.entries, socialEntry{
			low: m.mean - r, mean: m.mean, high: m.mean + r, n: m.n, tie: key.Uint64(uint64(k)), rank: int32(k),
		})
	}
}

// overlap tells whether it is not certain which of two is liked better, a's mean being no higher than b's. Two points are
// in the order that they have.
func overlap(a, b *socialEntry) bool {
	return !(a.high < b.low) && (a.low < a.high || b.low < b.high)
}

// Explore implements Finder.
func (s *Social) Explore(items []policy.Item, _ []int32, key policy.Key, shown []int32) {
	s.measure(items, key)
	// Items are in the order of their means: an item overlaps others in front of it if it does the one of them that
	// reaches highest, and others behind it if it does the one that reaches lowest.
	e := s.entries
	reach := &e[0]
	for k := range e {
		e[k].tie = key.Uint64(drawStart + uint64(k))
		if k > 0 && overlap(reach, &e[k]) {
			shown[k] = 1
		} else {
			shown[k] = 0
		}
		if e[k].high >= reach.high {
			reach = &e[k]
		}
	}
	reach = &e[len(e)-1]
	for k := len(e) - 2; k >= 0; k-- {
		if overlap(&e[k], reach) {
			shown[k] = 1
		}
		if e[k].low <= reach.low {
			reach = &e[k]
		}
	}
	slices.SortFunc(e, func(a, b socialEntry) int {
		openA, openB := shown[a.rank], shown[b.rank]
		if openA != openB || openA == 0 {
			return cmp.Or(cmp.Compare(openB, openA), cmp.Compare(a.rank, b.rank))
		}
		return cmp.Or(cmp.Compare(a.n, b.n), cmp.Compare(a.tie, b.tie), cmp.Compare(a.rank, b.rank))
	})
	for k := range e {
		shown[k] = e[k].rank
	}
}

// Selected implements Finder.
func (s *Social) Selected(sel *Selection) {
	if !sel.HasUtility || !(math.Abs(sel.Utility) <= maxEstimate) {
		s.unused++
		return
	}
	s.sums.AddOwn(sel.selected(), moments{n: 1, mean: sel.Utility}, 1)
}

// countEvery is how often, in milliseconds of event time, the pairs that are undecided are counted, for people.
const countEvery = 1000

// Advance implements Finder.
func (s *Social) Advance(watermark int64) {
	if watermark >= s.nextCount && s.counted != [2]int64{int64(s.sums.Len()), s.total} {
		s.nextCount = watermark + countEvery
		s.count()
	}
}

// count counts the pairs whose intervals overlap.
func (s *Social) count() {
	s.counted = [2]int64{int64(s.sums.Len()), s.total}
	e := s.sorted()
	lows, highs := make([]float64, len(e)), make([]float64, len(e))
	equal := int64(0) // pairs of points with the same mean
	for k := range e {
		lows[k], highs[k] = e[k].low, e[k].high
	}
	slices.Sort(lows)
	slices.Sort(highs)
	for k, run := 0, int64(0); k < len(e); k++ {
		switch point := e[k].low == e[k].high; {
		case point && k > 0 && run > 0 && e[k].mean == e[k-1].mean:
			equal += run
			run++
		case point:
			run = 1
		default:
			run = 0
		}
	}
	// An interval that ends before another begins is disjoint from it.
	var disjoint int64
	ended := 0
	for _, low := range lows {
		for ended < len(highs) && highs[ended] < low {
			ended++
		}
		disjoint += int64(ended)
	}
	n := int64(len(e))
	s.undecided = n*(n-1)/2 - disjoint - equal
}

// Hash implements Finder.
func (s *Social) Hash() string { return "utilities" }

// Harvest implements Finder.
func (s *Social) Harvest(f func(field, value []byte)) {
	changes := s.sums.Changes()
	for i := range changes.All() {
		m := s.sums.Own(i)
		s.field = strconv.AppendInt(s.field[:0], int64(i), 10)
		s.value = strconv.AppendInt(s.value[:0], m.n, 10)
		s.value = append(s.value, ' ')
		s.value = strconv.AppendFloat(s.value, m.mean, 'g', -1, 64)
		s.value = append(s.value, ' ')
		s.value = strconv.AppendFloat(s.value, m.dev, 'g', -1, 64)
		f(s.field, s.value)
	}
	changes.Clear()
}

// parseMoments reads a value that Harvest wrote.
func parseMoments(value []byte) (m moments, ok bool) {
	parts := bytes.Split(value, []byte{' '})
	if len(parts) != 3 {
		return m, false
	}
	n, errN := parseCount(parts[0])
	mean, errMean := strconv.ParseFloat(string(parts[1]), 64)
	dev, errDev := strconv.ParseFloat(string(parts[2]), 64)
	ok = errN == nil && errMean == nil && errDev == nil && n > 0 && math.Abs(mean) <= maxEstimate &&
		dev >= 0 && dev <= math.MaxFloat64/maxSources
	return moments{n, mean, dev}, ok
}

// maxSources is how many sources' deviations can be added without an overflow.
const maxSources = 1 << 20

// Load implements Finder.
func (s *Social) Load(field, value []byte) error {
	i, err := parseItem(field)
	m, ok := parseMoments(value)
	if err != nil || !ok || int(i) >= s.sums.Len() {
		return fmt.Errorf("%w: hash %q, field %.64q, value %.64q: not an item below %d with its moments", ErrState, s.Hash(),
			field, value, s.sums.Len())
	}
	s.sums.Set(i, m)
	return nil
}

// Loaded implements Finder.
func (s *Social) Loaded() {}

// SetSource implements Finder.
func (s *Social) SetSource(source int32, field, value []byte, items func(policy.Item) (policy.Item, bool)) {
	theirs, err := parseItem(field)
	if err != nil {
		return
	}
	var m moments
	if value != nil {
		var ok bool
		if m, ok = parseMoments(value); !ok {
			return
		}
	}
	i, ok := items(theirs)
	if !ok || i < 0 || int(i) >= s.sums.Len() {
		return
	}
	if m.n == 0 {
		s.sums.Drop(source, i)
		return
	}
	s.sums.SetSource(source, i, m)
}

// Status implements Finder. Undecided pairs are as they were counted last: that takes more than a look.
func (s *Social) Status() Status { return Status{Undecided: s.undecided, Unused: s.unused} }

// sorted are the intervals of all items in the order of their means.
func (s *Social) sorted() []socialEntry {
	all := make([]policy.Item, s.sums.Len())
	for i := range all {
		all[i] = policy.Item(i)
	}
	s.measure(all, 0)
	e := slices.Clone(s.entries)
	slices.SortFunc(e, func(a, b socialEntry) int {
		return cmp.Or(cmp.Compare(a.mean, b.mean), cmp.Compare(a.low, b.low), cmp.Compare(a.rank, b.rank))
	})
	return e
}

// Report implements Finder.
func (s *Social) Report(r *Report) {
	s.count()
	r.Items, r.Undecided, r.Expected, r.Status = r.Items[:0], r.Undecided[:0], 0, s.Status()
	order := s.sorted()
	for k := range order {
		r.Items = append(r.Items, order[k].rank)
		if k > 0 && overlap(&order[k-1], &order[k]) {
			r.Undecided = append(r.Undecided, int32(k))
		}
		r.Expected += s.missing(order, k)
	}
}

// missing is about how many more selections an item needs until its interval is apart from its neighbours': as many as
// shrink it to half the distance.
func (s *Social) missing(order []socialEntry, k int) float64 {
	e := &order[k]
	most := s.point(s.log())
	var want float64
	for _, j := range []int{k - 1, k + 1} {
		if j < 0 || j >= len(order) || !overlap(&order[min(j, k)], &order[max(j, k)]) {
			continue
		}
		shrink := (e.high - e.low) / math.Abs(e.mean-order[j].mean)
		need := most
		if n := float64(e.n) * shrink * shrink; n < most { // false where it is not a number
			need = n
		}
		want = max(want, need)
	}
	return max(want-float64(e.n), 0)
}
