package inflight

import "math"

// DelayDistribution is a cumulative distribution of payoffs' delays: by bin of ages, the share that has come by its end. It does
// not fall, and ends with 1. The zero value is uniform up to the horizon.
type DelayDistribution struct{ come []float64 }

// NewDelayDistribution takes the shares by bin; nil is the zero value. Check validates them.
func NewDelayDistribution(come []float64) DelayDistribution { return DelayDistribution{come} }

func (l *DelayDistribution) Shares() []float64 { return l.come }

// Check returns whether the shares are a distribution over a scheme's bins.
func (l *DelayDistribution) Check(g *Scheme) bool {
	last := 0.0
	for _, x := range l.come {
		if !(x >= last && x <= 1) {
			return false
		}
		last = x
	}
	return len(l.come) == 0 || len(l.come) == g.Bins() && last == 1
}

// By returns the share of payoffs that have come by an age in milliseconds, linear within bins.
func (l *DelayDistribution) By(g *Scheme, age int64) float64 {
	if age <= 0 {
		return 0
	}
	if age >= g.horizon {
		return 1
	}
	if len(l.come) == 0 {
		return float64(age) / float64(g.horizon)
	}
	k := g.Bin(age)
	var start int64
	var low float64
	if k > 0 {
		start, low = g.ends[k-1], l.come[k-1]
	}
	end := min(g.ends[k], g.horizon)
	return low + float64((l.come[k]-low)*(float64(age-start)/float64(end-start)))
}

// Share returns the share of payoffs that have come, at a tick, for selections that began in a bucket: by the age of its middle. In
// a bucket that contains the tick only the part before it has an age. So a partition without an owner, which holds back the common
// tick, takes no weight off other partitions' selections.
func (l *DelayDistribution) Share(g *Scheme, b Bucket, tick int64) float64 {
	if tick >= b.End() || tick <= b.Start() {
		return l.By(g, b.Age(tick))
	}
	old := tick - b.Start()
	return float64(float64(old)/float64(b.End()-b.Start())) * l.By(g, old/2)
}

// prior is an estimate's initial number of payoffs, uniform in the logarithm of age; a single late payoff then matters little.
const prior = 2

// nearby is the factor by which a bin counts less in the prior of those above it with each bin seen: a quarter at an octave.
const nearby = math.Sqrt2 / 2

// Estimate returns the delay distribution from ages seen at a tick. Long delays of recent selections are not seen yet, so each
// payoff is compared only with those of buckets in which it could have been as late (D. Lynden-Bell, "A method of allowing for
// known observational selection in small samples applied to 3CR quasars", MNRAS 1971). It is conditional on payment: selections and
// the share paid do not matter. A payoff's weight halves with each horizon, or more slowly where too few would be left. Ages may
// count amounts, one list per partition; one is the amount of a payoff of 1.
//
// Ages above the oldest selection's are not seen at all. As few payoffs are expected there as in the octaves below, and never more than
// the uniform prior says. That alone would have half of the payoffs still to come, with minutes of data and a horizon of a month.
// A share that has come that is too large scales the means of all items alike; one that is too small makes all of them 1.
func Estimate(g *Scheme, tick int64, one float64, ages ...*Ages) DelayDistribution {
	bins := g.Bins()
	come := make([]float64, bins)
	come[bins-1] = 1
	at, upTo := compared(g, tick, one, ages)
	late := make([]float64, bins)
	var below, of float64 // late and compared payoffs of bins below
	for k := range bins {
		uniform := 1 / float64(k+1)
		expected := min(uniform, (below+float64(one*prior*uniform))/(of+one*prior))
		weight := float64(one * prior * float64(k+1) / float64(bins))
		late[k] = (at[k] + float64(weight*expected)) / (upTo[k] + weight)
		if upTo[k] > 0 {
			below, of = float64(below*nearby)+at[k], float64(of*nearby)+upTo[k]
		}
	}
	share := 1.
	for k := bins - 1; k > 0; k-- {
		share *= 1 - late[k]
		come[k-1] = math.Round(share*precision) / precision
	}
	return DelayDistribution{come}
}

// precision makes shares short in text: they stand in the log of decisions.
const precision = 1e6

// compared returns by bin the payoffs that are compared: those of the bin, and those of bins up to it.
func compared(g *Scheme, tick int64, one float64, ages []*Ages) (at, upTo []float64) {
	at, upTo = make([]float64, g.Bins()), make([]float64, g.Bins())
	weights := weightsOf(g, tick, one, ages)
	for _, a := range ages {
		for i := range a.rows {
			r, w, sum := &a.rows[i], weights[i], 0.0
			for k, n := range r.bins[:a.seen(g, r, tick)] {
				x := float64(w * float64(n))
				sum += x
				at[k] += x
				upTo[k] += sum
			}
		}
		weights = weights[len(a.rows):]
	}
	return at, upTo
}

// Coming returns the share of payoffs that come in the last two octaves of the ages seen at a tick, while these are younger than the
// horizon; else 0. Of greater ages nothing is known: where the share is large, most payoffs may be still to come. See Estimate.
func Coming(g *Scheme, tick int64, one float64, ages ...*Ages) float64 {
	at, upTo := compared(g, tick, one, ages)
	last := len(upTo) - 1
	for last > 0 && upTo[last] == 0 {
		last--
	}
	if last == len(upTo)-1 {
		return 0
	}
	before := 1.0
	for k := max(1, last-7); k <= last; k++ {
		if upTo[k] > 0 {
			before *= 1 - at[k]/upTo[k]
		}
	}
	return 1 - before
}

// Seen returns the greatest age in milliseconds that selections with payoffs have reached at a tick, in whole bins; at most the horizon. The
// shares of Estimate at greater ages are assumed.
func Seen(g *Scheme, tick int64, ages ...*Ages) int64 {
	bins := 0
	for _, a := range ages {
		for i := range a.rows { // the oldest first: behind the early ones bins become fewer
			if bins = max(bins, a.seen(g, &a.rows[i], tick)); a.rows[i].block.Start() >= a.Early.Before {
				break
			}
		}
	}
	if bins == 0 {
		return 0
	}
	return min(g.ends[bins-1], g.horizon)
}

// enough is the number of payoffs that decay leaves.
const enough = 256

// weightsOf returns the weight of each row's payoffs, row by row. Its half-life in milliseconds is the horizon times the least power of two
// with which enough payoffs are left; where there are fewer, all weights are 1.
func weightsOf(g *Scheme, tick int64, one float64, ages []*Ages) []float64 {
	var rows int
	var all float64
	for _, a := range ages {
		rows += len(a.rows)
		for i := range a.rows {
			all += a.rows[i].amount
		}
	}
	weights := make([]float64, 0, rows)
	for h := float64(g.horizon); all >= one*enough; h *= 2 {
		weights = weights[:0]
		var left float64
		for _, a := range ages {
			for i := range a.rows {
				w := a.rows[i].left(tick, h)
				left += float64(w * a.rows[i].amount)
				weights = append(weights, w)
			}
		}
		if left >= one*enough {
			return weights
		}
	}
	weights = weights[:0]
	for range rows {
		weights = append(weights, 1)
	}
	return weights
}

// left returns the weight of the row's payoffs at a tick, with a half-life in milliseconds.
func (r *ageRow) left(tick int64, halfLife float64) float64 {
	return math.Exp2(-float64(r.block.Age(tick)) / halfLife)
}

// Settings of the estimates of shares.
const (
	bisections = 30
	newtons    = 8 // at the most
	// near is the relative step of share and complement below which Newton's iteration ends: errors are squared from step to step.
	near = 1.0 / (1 << 12)
	// trust is the weight of the share of all items in an item's, in ended selections.
	trust = 4
	// greatest is the largest share of an item: at 1 weights would be 0/0.
	greatest = 1 - 1.0/(1<<40)
)

// Outcomes counts ended selections, of an item or of all: paid and never paid. Of the paid, Below were paid below the default of
// their time, and Low is the sum of their payoffs, in units of the caller's.
type Outcomes struct{ Paid, Unpaid, Below, Low int64 }

func (o Outcomes) Add(p Outcomes) Outcomes {
	return Outcomes{o.Paid + p.Paid, o.Unpaid + p.Unpaid, o.Below + p.Below, o.Low + p.Low}
}

// Minus returns the outcomes without p, which they contain.
func (o Outcomes) Minus(p Outcomes) Outcomes {
	return Outcomes{o.Paid - p.Paid, o.Unpaid - p.Unpaid, o.Below - p.Below, o.Low - p.Low}
}

// Share returns the share c of all selections that are paid. It maximises the likelihood of the outcomes, and of no payoff so far
// for those in flight, (P+1)·log c + (U+1)·log(1−c) + Σ n·log(1−c·F).
func Share(settled Outcomes, awaited ...Intervals) float64 {
	low, high := 0.0, 1.0
	for range bisections {
		if c := (low + high) / 2; slope(c, float64(settled.Paid)+1, float64(settled.Unpaid)+1, awaited) > 0 {
			low = c
		} else {
			high = c
		}
	}
	return (low + high) / 2
}

// slope is the derivative of a·log c + b·log(1−c) + Σ n·log(1−c·F), which is concave.
func slope(c, a, b float64, awaited []Intervals) float64 {
	sum := a/c - b/(1-c)
	for _, list := range awaited {
		for i := range list {
			f := list[i].Come
			sum -= float64(float64(list[i].N) * (f / (1 - float64(c*f))))
		}
	}
	return sum
}

// ItemShare is Share of one item, drawn towards that of all. It solves a = c·(a+b+Z), where Z is the weight of selections in
// flight, see Weigh. The difference of both sides is convex in c, so that Newton's iteration, which begins with the largest weight
// F of each, rises to the solution and never passes it.
func ItemShare(all float64, settled Outcomes, awaited ...Intervals) float64 {
	a, b := float64(settled.Paid)+trust*all, float64(settled.Unpaid)+trust*(1-all)
	come := 0.0
	for _, list := range awaited {
		for i := range list {
			come += float64(float64(list[i].N) * list[i].Come)
		}
	}
	c := min(a/(a+b+come), greatest)
	for range newtons {
		z, fall := weigh(c, awaited)
		n := a + b + z
		step := (a - float64(c*n)) / (n - float64(c*fall))
		if !(step > 0) { // converged
			break
		}
		c = min(c+step, greatest)
		if step <= near*min(c, 1-c) {
			break
		}
	}
	return c
}

// weigh returns the weight of selections in flight, not rounded, and its rate of fall in c.
func weigh(c float64, awaited []Intervals) (sum, fall float64) {
	for _, list := range awaited {
		for i := range list {
			f := list[i].Come
			per := 1 / (1 - float64(c*f))
			x := float64(float64(list[i].N) * f * per)
			sum += x
			fall += float64(x * (1 - f) * per)
		}
	}
	return float64(sum * (1 - c)), fall
}
