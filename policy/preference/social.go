package preference

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"

	"github.com/ranker-worker/ranker-worker/policy"
	"github.com/ranker-worker/ranker-worker/policy/words"
)

// SocialConfig configures NewSocial. The zero value is the default.
type SocialConfig struct {
	// Sigma is the standard deviation of a user's rating (sub-Gaussian); 0 estimates it.
	Sigma float64
	// Delta bounds the probability that any interval ever misses; 0 is DefaultDelta.
	Delta float64
	// Resolution is the half-width, in standard deviations of a rating, at which an interval counts as its mean; 0 is DefaultResolution.
	Resolution float64
	// Budget is the number of ratings at which an interval counts as its mean whatever its width; 0 is none.
	Budget int64
}

const (
	DefaultDelta      = 0.05
	DefaultResolution = 0.1
	// DefaultBudget is the learners' default, not SocialConfig's: it gives a standard error of a tenth of the ratings' deviation.
	DefaultBudget = 100
)

// maxEstimate bounds a rating: squares below it and their sums do not overflow.
const maxEstimate = 0x1p256

// Social learns the order of utilities from users who learn from each other (paper, appendix C.1). Each publishes with a selection
// an unbiased rating of its utility. The interval of a mean of N ratings is ±σ·√(2·log(4nt²/δ)/N), for n items and t ratings: with
// probability at least 1-δ none ever misses. Users may take any value inside.
//
// An impression in which two intervals overlap explores: on top the least-selected item whose interval overlaps, then the other
// overlapping ones by number of selections, then the rest by mean. Once all are disjoint the order is certain. An interval of
// half-width Resolution·σ, after 2·log(4nt²/δ)/Resolution² ratings, counts as a point, or equal items would be explored for ever;
// closer items may end in either order. A Budget ends the burn-in earlier, at the same price.
//
// σ, unless given, is the standard deviation of ratings within items, enlarged. It is ever too small with probability at most δ/2
// for Gaussian ratings (B. Laurent, P. Massart, "Adaptive estimation of a quadratic functional by model selection", Annals of
// Statistics 2000, Lemma 1). Until there are enough ratings, intervals are unbounded.
//
// Hash "utilities" maps "<item>" to "<N> <mean> <sum of squared deviations>" of its ratings. Selections without a rating are
// counted as unused.
type Social struct {
	config SocialConfig
	sums   policy.Totals[moments] // by item
	unused int64

	read     *Social // decisions read this one: itself, or the global one
	number   func(policy.Item) policy.Item
	isGlobal bool
	items    int  // number of items, those without ratings included
	stale    bool // in a global one: ratings have changed since Commit

	total  int64     // number of ratings
	within []float64 // sums of squared deviations from items' means, one for each itemsPerSum items
	met    int64     // items with a rating

	undecided int64    // pairs at the last count
	counted   [2]int64 // items and ratings at the last count
	nextCount int64    // watermark of the next count
	entries   []socialEntry
	field     []byte
	value     []byte
}

var _ Finder = (*Social)(nil)

// moments are an item's ratings: number, mean, and sum of squared deviations.
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

// itemsPerSum is the number of items summed again at each change, so that the total is a function of the state, not of its history.
const itemsPerSum = 64

// NewSocial returns one without items. It fails if a number is negative or not finite, or Delta is 1 or more.
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
	s.read = s
	return s, nil
}

// Add returns the moments of both samples (T. Chan, G. Golub, R. LeVeque, "Updating formulae and a pairwise algorithm for computing
// sample variances", 1979).
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

func (s *Social) Grow(items int) {
	s.sums.Grow(items)
	if s.isGlobal {
		return // Commit sets both
	}
	s.items = s.sums.Len()
	s.within = policy.Extend(s.within, (s.sums.Len()+itemsPerSum-1)/itemsPerSum-len(s.within))
}

func (s *Social) keepUp(i policy.Item, before, after moments) {
	s.total += after.n - before.n
	switch {
	case before.n == 0 && after.n > 0:
		s.met++
	case before.n > 0 && after.n == 0:
		s.met--
	}
	if s.isGlobal {
		s.stale = true
		return
	}
	first := int(i) / itemsPerSum * itemsPerSum
	var within float64
	for k := first; k < min(first+itemsPerSum, s.sums.Len()); k++ {
		within += s.sums.Pooled(policy.Item(k)).dev
	}
	s.within[first/itemsPerSum] = within
}

func (s *Social) Share(global Finder, number func(policy.Item) policy.Item) {
	s.read, s.number = global.(*Social), number
}

func (s *Social) BeGlobal(func(policy.Item) uint64) { s.isGlobal = true }

// Commit implements Pooling. It adds deviations up in ascending order, since numbers mean nothing outside of the process.
func (s *Social) Commit(items int) {
	if s.items = items; !s.stale {
		return
	}
	s.stale = false
	all := make([]float64, 0, s.met)
	for i := range policy.Item(s.sums.Len()) {
		if m := s.sums.Pooled(i); m.n > 0 {
			all = append(all, m.dev)
		}
	}
	slices.Sort(all)
	s.within = all
}

func (s *Social) BeginResync(int32) {}

func (s *Social) EndResync(source int32, read func(policy.Item) bool) {
	for i := range s.sums.Of(source) {
		if !read(i) {
			s.sums.Drop(source, i)
		}
	}
}

// pooled returns the ratings of an item, of all sources.
func (s *Social) pooled(i policy.Item) moments {
	if s.read != s {
		i = s.number(i)
	}
	return s.read.sums.Pooled(i)
}

// scale returns an upper estimate of σ²; infinite while unknown.
func (s *Social) scale() float64 {
	if s.config.Sigma > 0 {
		return s.config.Sigma * s.config.Sigma
	}
	// A sum of d squared Gaussians is below d − 2√(d·x) with probability at most e^−x, here δ/4d². Over all d these add up to less than
	// δ/2. Each rating of a rated item adds one square, independent of those before, whatever made the item be rated.
	d := float64(s.total - s.met)
	x := math.Log(4 * d * d / s.config.Delta)
	if least := d - 2*math.Sqrt(d*x); least > 0 {
		var within float64
		for _, x := range s.within {
			within += x
		}
		return within / least
	}
	return math.Inf(1)
}

// log returns log(4nt²/δ), by parts, since t² may exceed a float64's digits.
func (s *Social) log() float64 {
	delta := s.config.Delta
	if s.config.Sigma == 0 {
		delta /= 2 // the other half is the scale's
	}
	return math.Log(4*float64(max(s.items, 1))/delta) + 2*math.Log(float64(max(s.total, 1)))
}

// radius returns an interval's half-width, given 2·σ²·log(4nt²/δ).
func radius(width float64, n int64) float64 {
	if n == 0 {
		return math.Inf(1)
	}
	return math.Sqrt(width / float64(n))
}

// point returns the number of ratings at which an interval counts as its mean.
func (s *Social) point(log float64) float64 {
	most := 2 * log / (s.config.Resolution * s.config.Resolution)
	if s.config.Budget > 0 {
		most = min(most, float64(s.config.Budget))
	}
	return most
}

func (s *Social) Sort(candidates []policy.Item, key policy.Key, order, undecided []int32) []int32 {
	s.measure(candidates, key)
	slices.SortFunc(s.entries, func(a, b socialEntry) int {
		// Unrated items have a meaningless mean of 0; their intervals are unbounded.
		return cmp.Or(cmp.Compare(a.mean, b.mean), cmp.Compare(a.tie, b.tie), cmp.Compare(a.rank, b.rank))
	})
	for r, e := range s.entries {
		order[r] = e.rank
		// If two intervals overlap, two neighbours between them do.
		if r > 0 && overlap(&s.entries[r-1], &e) {
			undecided = append(undecided, int32(r))
		}
	}
	return undecided
}

func (s *Social) measure(candidates []policy.Item, key policy.Key) {
	log := s.read.log()
	width := 2 * s.read.scale() * log
	point := s.point(log)
	s.entries = slices.Grow(s.entries[:0], len(candidates))
	for k, i := range candidates {
		m := s.pooled(i)
		r := radius(width, m.n)
		if float64(m.n) >= point {
			r = 0
		}
		s.entries = append(s.entries, socialEntry{
			low: m.mean - r, mean: m.mean, high: m.mean + r, n: m.n, tie: key.Uint64(drawTie + uint64(k)), rank: int32(k),
		})
	}
}

// overlap returns whether the order of two items is not certain, where a's mean is at most b's. Two points are ordered.
func overlap(a, b *socialEntry) bool {
	return !(a.high < b.low) && (a.low < a.high || b.low < b.high)
}

func (s *Social) Explore(items []policy.Item, _ []int32, key policy.Key, shown []int32) {
	s.measure(items, key)
	// Items are ordered by mean. An item overlaps one before it if it overlaps the one that reaches highest. It overlaps one behind it if
	// it overlaps the one that reaches lowest.
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

func (s *Social) Selected(sel *Selection) {
	if !sel.HasUtility || !(math.Abs(sel.Utility) <= maxEstimate) {
		s.unused++
		return
	}
	s.sums.AddOwn(sel.selected(), moments{n: 1, mean: sel.Utility}, 1)
}

// countEvery is the time between counts of undecided pairs, in milliseconds of event time.
const countEvery = 1000

func (s *Social) Advance(watermark int64) {
	if watermark >= s.nextCount && s.counted != [2]int64{int64(s.sums.Len()), s.read.total} {
		s.nextCount = watermark + countEvery
		s.count()
	}
}

func (s *Social) count() {
	s.counted = [2]int64{int64(s.sums.Len()), s.read.total}
	e := s.sorted()
	lows, highs := make([]float64, len(e)), make([]float64, len(e))
	equal := int64(0) // pairs of points with equal means
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
	// An interval is disjoint from all that begin after its end.
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

func (s *Social) Hash() string { return "utilities" }

func (s *Social) Harvest(f func(field, value []byte)) {
	changes := s.sums.Changes()
	for i := range changes.All() {
		m := s.sums.Own(i)
		s.field = strconv.AppendInt(s.field[:0], int64(i), 10)
		s.value = words.AppendFloats(words.Append(s.value[:0], ' ', m.n), ' ', m.mean, m.dev)
		f(s.field, s.value)
	}
	changes.Clear()
}

var errMoments = errors.New("the field is no item, or the value no moments")

// parseItem reads the number of one of so many items.
func parseItem(field []byte, items int) (policy.Item, error) {
	r := words.Of(field, ' ')
	i := readItem(&r, items)
	return i, r.End(errMoments)
}

func readItem(r *words.Reader, items int) policy.Item { return policy.Item(r.Int(0, int64(items)-1)) }

func parseMoments(value []byte) (moments, error) {
	r := words.Of(value, ' ')
	m := moments{r.Int(1, maxCount), r.Float(-maxEstimate, maxEstimate), r.Float(0, math.MaxFloat64/maxSources)}
	return m, r.End(errMoments)
}

// maxSources is the number of deviations that can be added without overflow.
const maxSources = 1 << 20

func (s *Social) Load(field, value []byte) error {
	i, errItem := parseItem(field, s.sums.Len())
	m, errValue := parseMoments(value)
	if errItem != nil || errValue != nil {
		return fmt.Errorf("%w: hash %q, field %.64q, value %.64q: not an item below %d with its moments", ErrState, s.Hash(),
			field, value, s.sums.Len())
	}
	s.sums.Set(i, m)
	return nil
}

func (s *Social) Loaded() {}

func (s *Social) SetSource(source int32, field, value []byte, items func(policy.Item) (policy.Item, bool)) {
	theirs, err := parseItem(field, math.MaxInt32)
	if err != nil {
		return
	}
	var m moments
	if value != nil {
		if m, err = parseMoments(value); err != nil {
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

// Status implements Finder. Undecided is as of the last count.
func (s *Social) Status() Status { return Status{Undecided: s.undecided, Unused: s.unused} }

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

// missing returns the rough number of selections that shrink an item's interval to half the distance to its neighbours.
func (s *Social) missing(order []socialEntry, k int) float64 {
	e := &order[k]
	most := s.point(s.read.log())
	var want float64
	for _, j := range []int{k - 1, k + 1} {
		if j < 0 || j >= len(order) || !overlap(&order[min(j, k)], &order[max(j, k)]) {
			continue
		}
		shrink := (e.high - e.low) / math.Abs(e.mean-order[j].mean)
		need := most
		if n := float64(e.n) * shrink * shrink; n < most { // false for NaN
			need = n
		}
		want = max(want, need)
	}
	return max(want-float64(e.n), 0)
}
