package policy

import (
	"errors"
	"fmt"
	"math"
)

// ErrIntervals is wrapped by errors about interval counts.
var ErrIntervals = errors.New("policy: interval counts are faulty")

// MaxWindows is the longest window that Intervals distinguishes: there is a count for each of n²/2 intervals.
const MaxWindows = 1000

// Intervals counts selections by the interval of attention windows that they imply. A user with window w selects the highest
// utility among the first w shown. So a selection at position k implies w ∈ [k, m−1], where m is the next position with a higher
// utility, and w ≥ k if there is none.
//
// An item behind one of higher utility (blocked) is selected by no such user. Some users select any item within their window; their
// share of selections is the noise. A selection of a blocked item at position k counts in the interval [k, Blocked].
//
// Windows beyond Max count as Max. Counts are integers and add up over partitions. Memory is 17 bytes for each of the Max·(Max+3)/2
// intervals, 33 more once another source is set, and some 16 per count of a source. It is not safe for concurrent use.
type Intervals struct {
	max     int
	counts  Totals[Count] // by cell
	total   int64         // of all cells, over all sources
	blocked int64         // of blocked items
}

// Blocked is the upper end of intervals that count selections of blocked items.
const Blocked = 0

// NewIntervals returns empty counts over windows 1..max. It fails with ErrIntervals unless max is in 1..MaxWindows.
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

// leading returns the number of cells of items that are not blocked; those of blocked items follow.
func (t *Intervals) leading() int32 { return int32(t.max * (t.max + 1) / 2) }

func (t *Intervals) Max() int { return t.max }

// Total returns the number of selections, over all sources.
func (t *Intervals) Total() int64 { return t.total }

// cell returns the number of the interval [low, high] with 1 ≤ low ≤ high ≤ max, or high = Blocked.
func (t *Intervals) cell(low, high int) int32 {
	if high == Blocked {
		return t.leading() + int32(low) - 1
	}
	return int32(high*(high-1)/2 + low - 1)
}

func (t *Intervals) windowsOf(cell int32) (low, high int) {
	if cell >= t.leading() {
		return int(cell-t.leading()) + 1, Blocked
	}
	high = int((1 + math.Sqrt(1+8*float64(cell))) / 2)
	for high*(high-1)/2 > int(cell) { // the square root may be rounded up
		high--
	}
	for (high+1)*high/2 <= int(cell) {
		high++
	}
	return int(cell) - high*(high-1)/2 + 1, high
}

// Selected counts a selection at position at, from 0; order holds utility ranks as shown. It returns the interval.
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

// NextAbove returns the first position behind at and before end whose utility rank exceeds that at at; order holds utility ranks in
// the order shown. Without one it returns the smaller of end and the length, at least at+1.
func NextAbove(order []int32, at, end int) int {
	k := at + 1
	for k < min(end, len(order)) && order[k] < order[at] {
		k++
	}
	return k
}

// Own returns this partition's own count of an interval.
func (t *Intervals) Own(low, high int) int64 { return int64(t.counts.Own(t.cell(low, high))) }

// Check returns an error wrapping ErrIntervals if a count or interval is out of range.
func (t *Intervals) Check(low, high int, count int64) error {
	switch {
	case low < 1 || low > t.max || high > t.max || low > high && high != Blocked:
		return fmt.Errorf("%w: interval [%d, %d] of windows up to %d", ErrIntervals, low, high, t.max)
	case count < 0 || count > 1<<53:
		return fmt.Errorf("%w: %d selections", ErrIntervals, count)
	}
	return nil
}

// Load adds to this partition's own count of an interval, which must pass Check, without noting a change.
func (t *Intervals) Load(low, high int, n int64) {
	c := t.cell(low, high)
	t.counts.Set(c, t.counts.Own(c).Add(Count(n)))
}

// Touch marks an interval's count as changed.
func (t *Intervals) Touch(low, high int) { t.counts.Changes().Note(t.cell(low, high), 1) }

// SetSource replaces another source's count of an interval, which must pass Check.
func (t *Intervals) SetSource(source int32, low, high int, n int64) {
	c := t.cell(low, high)
	if n == 0 {
		t.counts.Drop(source, c)
		return
	}
	t.counts.SetSource(source, c, Count(n))
}

// EachOf calls f with each interval of which a source has a count. The source's count may be dropped meanwhile.
func (t *Intervals) EachOf(source int32, f func(low, high int)) {
	for c := range t.counts.Of(source) {
		f(t.windowsOf(c))
	}
}

// EachOwn calls f with each positive count of this partition.
func (t *Intervals) EachOwn(f func(low, high int, count int64)) {
	for c, n := range t.counts.AllOwn() {
		if n > 0 {
			low, high := t.windowsOf(int32(c))
			f(low, high, int64(n))
		}
	}
}

// Changed calls f with each of this partition's counts changed since the last call.
func (t *Intervals) Changed(f func(low, high int, count int64)) {
	changes := t.counts.Changes()
	for c := range changes.All() {
		low, high := t.windowsOf(c)
		f(low, high, int64(t.counts.Own(c)))
	}
	changes.Clear()
}

// PriorWeight is the weight in selections of the prior distribution of windows, PriorWindows.
const PriorWeight = 10.0

const (
	priorRatio = 0.7
	// mostNoise keeps the noise below 1 despite rounding.
	mostNoise = 1 - 0x1p-20
)

// PriorWindows fills q with the prior distribution of windows, q_w ∝ 0.7^w: lazy windows, as in the paper.
func PriorWindows(q []float64) {
	x, sum := 1.0, 0.0
	for w := range q {
		q[w] = x
		sum += x
		x = max(x*priorRatio, 1e-12) // no window is impossible
	}
	for w := range q {
		q[w] /= sum
	}
}

// EstimatePasses is the largest number of EM iterations of one Estimate.
const EstimatePasses = 100

// Estimate improves q, positive and of length Max, and the noise, in [0,1), towards the most likely given the pooled counts. They
// start as PriorWindows and 0, and then as the last estimate. It is EM for interval-censored data (B. W. Turnbull, "The empirical
// distribution function with arbitrarily grouped, censored and truncated data", JRSS B 1976) with one more latent cause. Each count
// is divided among its interval's windows in proportion to (1−noise)·q_w, and among all windows from its lower end on in proportion
// to noise·q_w/w. Noise selects each of w items with equal probability. PriorWindows counts as PriorWeight selections without
// noise. Without blocked selections noise is 0.
//
// It stops when an iteration moves less than 1e-9 of the mass, or after EstimatePasses, and returns their number. An iteration
// takes O(intervals).
func (t *Intervals) Estimate(q []float64, noise float64) (next float64, passes int) {
	prior := make([]float64, t.max)
	PriorWindows(prior)
	switch {
	case t.blocked == 0:
		noise = 0
	case noise == 0:
		noise = float64(t.blocked) / (float64(t.total) + PriorWeight) // at least a selection's share, since EM cannot leave 0
	}
	type seen struct {
		low, high int
		count     float64
	}
	var intervals []seen
	var informed float64
	for c := range t.counts.Len() {
		count := t.counts.Pooled(int32(c))
		// Without noise a count of [1, Max] has no information.
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
	density := make([]float64, t.max+2) // differences, then the weight per unit of q_w by utility
	chance := make([]float64, t.max+2)  // likewise, per unit of q_w/w by noise
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

// mass returns q_low+…+q_high; where the prefix sums' difference has lost its digits, it adds them up.
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

func normalise(q []float64) {
	var sum float64
	for _, x := range q {
		sum += x
	}
	for w := range q {
		q[w] /= sum
	}
}
