package policy

import (
	"errors"
	"fmt"
	"math"
)

// ErrIntervals says that interval counts cannot be anybody's.
var ErrIntervals = errors.New("policy: interval counts are faulty")

// MaxWindows is the longest support that Intervals counts: a count for each interval takes n²/2 of them.
const MaxWindows = 1000

// Intervals counts what selections tell of the windows of users. A user with window w selects the item of the highest
// utility among the first w shown. So the selection of the item at position k says w ∈ [k, m−1] where the next item
// shown after it of a higher utility stands at m, and w ≥ k where there is none.
//
// An item shown behind one of a higher utility is selected by no such user. Some users select any item within their window: their
// share of selections is the noise. The selection of such an item at position k counts with the interval [k, Blocked].
//
// The support is 1..Max: a longer window counts as Max. Counts add up over partitions, exactly, for
// they are integers. The memory is 17 bytes for each of the Max·(Max+3)/2 intervals, 33 bytes more once another source has
// been heard of, and some 16 bytes for each count of a source. It is not safe for concurrent use.
type Intervals struct {
	max     int
	counts  Totals[Count] // by cell
	total   int64         // of all cells, pooled
	blocked int64         // of those of blocked items
}

// Blocked is the upper end of an interval that counts selections of items behind one of a higher utility.
const Blocked = 0

// NewIntervals makes counts over windows of 1..max, max within 1..MaxWindows.
func NewIntervals(max int) (*Intervals, error) {
	if max < 1 || max > MaxWindows {
		return nil, fmt.Errorf("%w: windows up to %d, must be within 1 and %d", ErrIntervals, max, MaxWindows)
	}
	t := &Intervals{max: max}
	t.counts = NewTotals(func(cell int32, before, after Count) {
		t.total += int64(after - before)
		if cell >= t.leading() {
			t.blocked += int64(after - before)
		}
	})
	t.counts.Grow(max * (max + 3) / 2)
	return t, nil
}

// leading is the number of cells of items with none of a higher utility above them. Those of blocked items follow.
func (t *Intervals) leading() int32 { return int32(t.max * (t.max + 1) / 2) }

// Max is the longest window told apart.
func (t *Intervals) Max() int { return t.max }

// Total is the number of selections counted, of all sources.
func (t *Intervals) Total() int64 { return t.total }

// cell is the place of the interval [low, high], 1 ≤ low ≤ high ≤ max, or high = Blocked.
func (t *Intervals) cell(low, high int) int32 {
	if high == Blocked {
		return t.leading() + int32(low) - 1
	}
	return int32(high*(high-1)/2 + low - 1)
}

// windowsOf is the inverse of cell.
func (t *Intervals) windowsOf(cell int32) (low, high int) {
	if cell >= t.leading() {
		return int(cell-t.leading()) + 1, Blocked
	}
	high = int((1 + math.Sqrt(1+8*float64(cell))) / 2)
	for high*(high-1)/2 > int(cell) { // the square root may be off by its rounding
		high--
	}
	for (high+1)*high/2 <= int(cell) {
		high++
	}
	return int(cell) - high*(high-1)/2 + 1, high
}

// Selected counts the selection of the item at position at (from 0) of a ranking: order holds utility ranks in the
// order shown. It returns the interval.
func (t *Intervals) Selected(order []int32, at int) (low, high int) {
	low, high = min(at+1, t.max), t.max
	if next := NextAbove(order, at, t.max); next < len(order) {
		high = min(next, t.max)
	}
	high = max(low, high)
	for _, rank := range order[:at] {
		if rank > order[at] {
			high = Blocked
			break
		}
	}
	t.counts.AddOwn(t.cell(low, high), 1, 1)
	return low, high
}

// NextAbove is the first position behind at, from 0, and before end, at which a ranking shows an item of a higher utility than there: order holds
// utility ranks in the order shown. Where there is none it is the smaller of end and the ranking's length, but none before at+1.
func NextAbove(order []int32, at, end int) int {
	k := at + 1
	for k < min(end, len(order)) && order[k] < order[at] {
		k++
	}
	return k
}

// Own is this partition's own count of an interval.
func (t *Intervals) Own(low, high int) int64 { return int64(t.counts.Own(t.cell(low, high))) }

// Check tells why a count cannot be anybody's.
func (t *Intervals) Check(low, high int, count int64) error {
	switch {
	case low < 1 || low > t.max || high > t.max || low > high && high != Blocked:
		return fmt.Errorf("%w: interval [%d, %d] of windows up to %d", ErrIntervals, low, high, t.max)
	case count < 0 || count > 1<<53:
		return fmt.Errorf("%w: %d selections", ErrIntervals, count)
	}
	return nil
}

// Load adds to this partition's own count of an interval, which must pass Check. It is no change.
func (t *Intervals) Load(low, high int, n int64) {
	c := t.cell(low, high)
	t.counts.Set(c, t.counts.Own(c).Add(Count(n)))
}

// Touch makes the count of an interval one that has changed.
func (t *Intervals) Touch(low, high int) { t.counts.Changes().Note(t.cell(low, high), 1) }

// SetSource sets what another source has of an interval, in place of what it had before. It must pass Check.
func (t *Intervals) SetSource(source int32, low, high int, n int64) {
	c := t.cell(low, high)
	if n == 0 {
		t.counts.Drop(source, c)
		return
	}
	t.counts.SetSource(source, c, Count(n))
}

// EachOwn calls f with each of this partition's own counts above 0.
func (t *Intervals) EachOwn(f func(low, high int, count int64)) {
	for c, n := range t.counts.AllOwn() {
		if n > 0 {
			low, high := t.windowsOf(int32(c))
			f(low, high, int64(n))
		}
	}
}

// Changed calls f with each of this partition's own counts that has changed since the last call.
func (t *Intervals) Changed(f func(low, high int, count int64)) {
	changes := t.counts.Changes()
	for c := range changes.All() {
		low, high := t.windowsOf(c)
		f(low, high, int64(t.counts.Own(c)))
	}
	changes.Clear()
}

// PriorWeight is how many selections the distribution is worth that an estimate of the windows starts from, PriorWindows.
const PriorWeight = 10.0

const (
	priorRatio = 0.7
	// mostNoise keeps the noise below 1 where rounding would not.
	mostNoise = 1 - 0x1p-20
)

// PriorWindows fills q with the window distribution assumed before anything is known: q_w ∝ 0.7^w. Users who look less
// far are more, as the paper's lazy windows have it.
func PriorWindows(q []float64) {
	x, sum := 1.0, 0.0
	for w := range q {
		q[w] = x
		sum += x
		x = max(x*priorRatio, 1e-12) // far out, too, nothing is impossible
	}
	for w := range q {
		q[w] /= sum
	}
}

// EstimatePasses is the most passes that one Estimate makes.
const EstimatePasses = 100

// Estimate improves q, of length Max and positive, PriorWindows at first and then the last estimate, and the noise, within 0 and 1, 0 at
// first, towards those that the pooled counts make the most likely, by EM for interval-censored data (B. W. Turnbull, "The empirical
// distribution function with arbitrarily grouped, censored and truncated data", JRSS B 1976) with one more latent cause: each count is
// shared out among the windows of its interval in proportion to (1−noise)·q_w, and among all from its lower end on, in which noise selects
// each of w items alike, in proportion to noise·q_w/w. PriorWindows counts as ten selections more, so that every window keeps a chance,
// and what no interval tells apart stays in the prior's proportions; none of the ten is by noise. Without a blocked selection noise is 0.
//
// It stops when a pass moves less than 1e-9 of the mass, or after EstimatePasses, each of which takes as many steps as there
// are different intervals, and returns their number. Where they do not suffice the next estimate goes on from there.
func (t *Intervals) Estimate(q []float64, noise float64) (next float64, passes int) {
	prior := make([]float64, t.max)
	PriorWindows(prior)
	switch {
	case t.blocked == 0:
		noise = 0
	case noise == 0:
		noise = float64(t.blocked) / (float64(t.total) + PriorWeight) // no less than a selection, which EM could not leave 0 with
	}
	type seen struct {
		low, high int
		count     float64
	}
	var intervals []seen
	var informed float64
	for c := range t.counts.Len() {
		count := t.counts.Pooled(int32(c))
		// Without noise a count that says nothing but 1 ≤ w ≤ Max moves nothing.
		if low, high := t.windowsOf(int32(c)); count > 0 && (noise > 0 || high-low+1 < t.max) {
			intervals = append(intervals, seen{low, high, float64(count)})
			informed += float64(count)
		}
	}
	if len(intervals) == 0 {
		copy(q, prior)
		return 0, 0
	}
	const tolerance = 1e-9
	upTo := make([]float64, t.max+1)    // q_1+…+q_w
	any := make([]float64, t.max+2)     // Σ q_v/v from w on
	density := make([]float64, t.max+2) // differences, then what each unit of q_w is given by utility
	chance := make([]float64, t.max+2)  // likewise, what each unit of q_w/w is given by noise
	for passes < EstimatePasses {
		passes++
		for w, x := range q {
			upTo[w+1] = upTo[w] + x
		}
		for w := t.max; w > 0; w-- {
			any[w] = any[w+1] + q[w-1]/float64(w)
		}
		clear(density)
		clear(chance)
		var byNoise float64
		for _, s := range intervals {
			likely := float64(noise * any[s.low])
			if s.high != Blocked {
				likely += float64((1 - noise) * mass(q, upTo, s.low, s.high))
			}
			share := s.count / likely
			byNoise += float64(share * noise * any[s.low])
			chance[s.low] += float64(share * noise)
			if s.high != Blocked {
				density[s.low] += float64(share * (1 - noise))
				density[s.high+1] -= float64(share * (1 - noise))
			}
		}
		var moved, d, c float64
		for w, x := range q {
			d += density[w+1]
			c += chance[w+1]
			next := (float64(PriorWeight*prior[w]) + float64(x*(max(d, 0)+c/float64(w+1)))) / (PriorWeight + informed)
			moved += math.Abs(next - x)
			q[w] = next
		}
		normalise(q)
		after := min(byNoise/(PriorWeight+informed), mostNoise)
		moved += math.Abs(after - noise)
		noise = after
		if moved < tolerance {
			break
		}
	}
	return noise, passes
}

// mass is q_low+…+q_high. Where the difference of the prefix sums has lost its digits, it is added up anew.
func mass(q, upTo []float64, low, high int) float64 {
	if difference := upTo[high] - upTo[low-1]; difference > 1e-6*upTo[high] {
		return difference
	}
	var sum float64
	for _, x := range q[low-1 : high] {
		sum += x
	}
	return sum
}

// normalise makes q add up to 1.
func normalise(q []float64) {
	var sum float64
	for _, x := range q {
		sum += x
	}
	for w := range q {
		q[w] /= sum
	}
}
