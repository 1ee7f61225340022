package policy

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"math/bits"
	"slices"
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
// Noise depends on the length of the list, too, so counts are kept apart by it. Lengths are rounded to four bits, so that there are few.
//
// Windows and lengths beyond Max count as Max. Counts are integers and add up over partitions. Memory is some 60 bytes for each interval
// counted, 33 more once another source is set, and some 16 per count of a source. It is not safe for concurrent use.
type Intervals struct {
	max       int
	counts    Totals[Count] // by number of interval
	intervals []Interval    // by number
	numbers   map[Interval]int32
	total     int64 // of all intervals, over all sources
	blocked   int64 // of blocked items
}

// Interval holds the windows that a selection implies, Low to High, and the length of its list, which Selected has rounded down.
type Interval struct{ Low, High, Length int }

// Blocked is the upper end of intervals that count selections of blocked items.
const Blocked = 0

// NewIntervals returns empty counts over windows 1..max. It fails with ErrIntervals unless max is in 1..MaxWindows.
func NewIntervals(max int) (*Intervals, error) {
	if max < 1 || max > MaxWindows {
		return nil, fmt.Errorf("%w: windows up to %d, must be within 1 and %d", ErrIntervals, max, MaxWindows)
	}
	t := &Intervals{max: max, numbers: map[Interval]int32{}}
	t.counts = NewTotals(func(n int32, before, after Count) {
		t.total += int64(after - before)
		if t.intervals[n].High == Blocked {
			t.blocked += int64(after - before)
		}
	})
	return t, nil
}

func (t *Intervals) Max() int { return t.max }

// Total returns the number of selections, over all sources.
func (t *Intervals) Total() int64 { return t.total }

// number returns an interval's, from now on.
func (t *Intervals) number(i Interval) int32 {
	n, found := t.numbers[i]
	if !found {
		n = int32(len(t.intervals))
		t.numbers[i], t.intervals = n, append(t.intervals, i)
		t.counts.Grow(len(t.intervals))
	}
	return n
}

// Selected counts a selection at position at, from 0; order holds utility ranks as shown. It returns the interval.
func (t *Intervals) Selected(order []int32, at int) Interval {
	i := Interval{min(at+1, t.max), t.max, t.round(len(order))}
	if next := NextAbove(order, at, t.max); next < len(order) {
		i.High = min(next, t.max)
	}
	i.High = max(i.Low, i.High)
	for _, rank := range order[:at] {
		if rank > order[at] {
			i.High = Blocked
			break
		}
	}
	t.counts.AddOwn(t.number(i), 1, 1)
	return i
}

// round returns the length that a list counts as.
func (t *Intervals) round(length int) int {
	if length >= t.max {
		return t.max
	}
	unused := max(bits.Len(uint(length))-4, 0)
	return length >> unused << unused
}

// Clip returns an interval with windows and length up to Max.
func (t *Intervals) Clip(i Interval) Interval {
	return Interval{min(i.Low, t.max), min(i.High, t.max), t.round(i.Length)}
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
func (t *Intervals) Own(i Interval) int64 { return int64(t.counts.Own(t.number(i))) }

// Check returns an error wrapping ErrIntervals if a count or interval is out of range.
func (t *Intervals) Check(i Interval, count int64) error {
	switch {
	case i.Low < 1 || i.Low > t.max || i.High > t.max || i.Low > i.High && i.High != Blocked || i.Length < 1 || i.Length != t.round(i.Length):
		return fmt.Errorf("%w: interval [%d, %d] of windows up to %d, in lists of %d", ErrIntervals, i.Low, i.High, t.max, i.Length)
	case count < 0 || count > 1<<53:
		return fmt.Errorf("%w: %d selections", ErrIntervals, count)
	}
	return nil
}

// Load adds to this partition's own count of an interval, which must pass Check, without noting a change.
func (t *Intervals) Load(i Interval, count int64) {
	n := t.number(i)
	t.counts.Set(n, t.counts.Own(n).Add(Count(count)))
}

// Touch marks an interval's count as changed.
func (t *Intervals) Touch(i Interval) { t.counts.Changes().Note(t.number(i), 1) }

// SetSource replaces another source's count of an interval, which must pass Check.
func (t *Intervals) SetSource(source int32, i Interval, count int64) {
	n := t.number(i)
	if count == 0 {
		t.counts.Drop(source, n)
		return
	}
	t.counts.SetSource(source, n, Count(count))
}

// EachOf calls f with each interval of which a source has a count. The source's count may be dropped meanwhile.
func (t *Intervals) EachOf(source int32, f func(Interval)) {
	for n := range t.counts.Of(source) {
		f(t.intervals[n])
	}
}

// EachOwn calls f with each positive count of this partition.
func (t *Intervals) EachOwn(f func(i Interval, count int64)) {
	for n, count := range t.counts.AllOwn() {
		if count > 0 {
			f(t.intervals[n], int64(count))
		}
	}
}

// Changed calls f with each of this partition's counts changed since the last call.
func (t *Intervals) Changed(f func(i Interval, count int64)) {
	changes := t.counts.Changes()
	for n := range changes.All() {
		f(t.intervals[n], int64(t.counts.Own(n)))
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
// to noise·q_w/min(w, length). Noise selects each item within the window with equal probability. PriorWindows counts as PriorWeight
// selections without noise. Without blocked selections noise is 0.
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
		Interval
		count float64
	}
	var intervals []seen
	var informed float64
	for n, i := range t.intervals {
		// Without noise a count of [1, Max] has no information.
		if count := t.counts.Pooled(int32(n)); count > 0 && (noise > 0 || i.High-i.Low+1 < t.max) {
			intervals = append(intervals, seen{i, float64(count)})
			informed += float64(count)
		}
	}
	slices.SortFunc(intervals, func(a, b seen) int { // numbers depend on history
		return cmp.Or(cmp.Compare(a.High, b.High), cmp.Compare(a.Low, b.Low), cmp.Compare(a.Length, b.Length))
	})
	if len(intervals) == 0 {
		copy(q, prior)
		return 0, 0
	}
	const tolerance = 1e-9
	upTo := make([]float64, t.max+1)    // q_1+…+q_w
	from := make([]float64, t.max+2)    // q_w+…+q_Max
	any := make([]float64, t.max+2)     // Σ q_v/v from w on
	density := make([]float64, t.max+2) // differences of the weight per unit of q_w, otherwise
	chance := make([]float64, t.max+2)  // likewise, per unit of q_w/w by noise in windows that end in the list
	for passes < EstimatePasses {
		passes++
		for w, x := range q {
			upTo[w+1] = upTo[w] + x
		}
		for w := t.max; w > 0; w-- {
			from[w] = from[w+1] + q[w-1]
			any[w] = any[w+1] + q[w-1]/float64(w)
		}
		clear(density)
		clear(chance)
		var byNoise float64
		for _, s := range intervals {
			beyond := max(s.Low, s.Length+1) // windows from here on reach the whole list
			byChance := float64(noise * (any[s.Low] - any[beyond] + from[beyond]/float64(s.Length)))
			likely := byChance
			if s.High != Blocked {
				likely += float64((1 - noise) * mass(q, upTo, s.Low, s.High))
			}
			share := s.count / likely
			byNoise += float64(share * byChance)
			chance[s.Low] += float64(share * noise)
			chance[beyond] -= float64(share * noise)
			density[beyond] += float64(share*noise) / float64(s.Length)
			if s.High != Blocked {
				density[s.Low] += float64(share * (1 - noise))
				density[s.High+1] -= float64(share * (1 - noise))
			}
		}
		var moved, d, c float64
		for w, x := range q {
			d += density[w+1]
			c += chance[w+1]
			next := (float64(PriorWeight*prior[w]) + float64(x*(max(d, 0)+max(c, 0)/float64(w+1)))) / (PriorWeight + informed)
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
