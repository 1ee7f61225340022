package inflight

import "math"

// DelayDistribution is how late payoffs are: for each bin of ages, the share of all payoffs that come which have come by its end. It
// does not fall from bin to bin, and is 1 at the last. The zero value knows nothing: it is uniform up to the horizon.
type DelayDistribution struct{ come []float64 }

// NewDelayDistribution takes the shares by bin; nil is the zero value. Check says whether they can be anybody's.
func NewDelayDistribution(come []float64) DelayDistribution { return DelayDistribution{come} }

// Shares are those by bin.
func (l *DelayDistribution) Shares() []float64 { return l.come }

// Check tells whether the shares can be those of a grid.
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

// By is the share of payoffs that have come by an age in milliseconds, linear within bins.
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

// Share is the share that has come, at a pass, of the payoffs of selections that began in a block, as many in each part of it: by the
// age of its middle. Of a block that the pass lies within (a partition's own blocks grow, while silence is heard only as far as
// another's pass) it is only what began before the pass that has an age. So a partition that has no owner does not take weight
// off what its peers await, however long that lasts.
func (l *DelayDistribution) Share(g *Scheme, b Bucket, pass int64) float64 {
	if pass >= b.End() || pass <= b.Start() {
		return l.By(g, b.Age(pass))
	}
	old := pass - b.Start()
	return float64(float64(old)/float64(b.End()-b.Start())) * l.By(g, old/2)
}

// prior is how many payoffs, uniform in the logarithm of age, an estimate begins with: they keep a single late payoff from
// taking all shares below it to 0.
const prior = 2

// Estimate is how late payoffs are by what ages were seen at a pass. Ages that were seen are too short, since longer ones
// could not be seen yet of what began lately; so each payoff is compared only with those of blocks in which it could have
// been as late (D. Lynden-Bell, "A method of allowing for known observational selection in small samples applied to 3CR
// quasars", MNRAS 1971). Being paid is a condition of being counted, so that neither what is selected nor how much of it is
// paid makes a difference. A payoff is forgotten by half in a horizon, so that lateness may change; more slowly where too few would be
// left. Ages, of as many partitions as are given, may count payoffs by their
// size; one is what a payoff amounts to.
func Estimate(g *Scheme, pass int64, one float64, ages ...*Ages) DelayDistribution {
	bins := g.Bins()
	come := make([]float64, bins)
	come[bins-1] = 1
	at, upTo := make([]float64, bins), make([]float64, bins) // payoffs of a bin, and of bins up to it, that are compared there
	h := halfLife(g, pass, one, ages)
	for _, a := range ages {
		for i := range a.rows {
			r, sum := &a.rows[i], 0.0
			w := r.left(pass, h)
			for k, n := range r.bins {
				if r.block.End()+min(g.ends[k], g.horizon) > pass {
					break // and so for all later bins
				}
				x := float64(w * float64(n))
				sum += x
				at[k] += x
				upTo[k] += sum
			}
		}
	}
	for k := bins - 1; k > 0; k-- {
		at, upTo := at[k], upTo[k]
		late := (at + float64(one*prior/float64(bins))) / (upTo + float64(one*prior*float64(k+1)/float64(bins)))
		come[k-1] = come[k] * (1 - late)
	}
	return DelayDistribution{come}
}

// enough is the number of payoffs that forgetting leaves.
const enough = 256

// halfLife is the time in milliseconds in which half of a payoff is forgotten: a horizon, or the least power of two times that with which
// enough of them are left. It is infinite where there are fewer.
func halfLife(g *Scheme, pass int64, one float64, ages []*Ages) float64 {
	all := amount(ages)
	for h := float64(g.horizon); all >= one*enough; h *= 2 {
		var left float64
		for _, a := range ages {
			for i := range a.rows {
				left += float64(a.rows[i].left(pass, h) * a.rows[i].amount())
			}
		}
		if left >= one*enough {
			return h
		}
	}
	return math.Inf(1)
}

// left is how much of a payoff of the row counts at a pass.
func (r *ageRow) left(pass int64, halfLife float64) float64 {
	return math.Exp2(-float64(r.block.Age(pass)) / halfLife)
}

// Settings of the shares' estimates.
const (
	bisections = 30
	newtons    = 8 // at the most
	// near is how much a step of Newton's has to move a share and its complement, as a part of them, for another one to be made:
	// as errors are squared from step to step, what is left then is as nothing.
	near = 1.0 / (1 << 12)
	// trust is what the share of all items weighs in that of one, in finished selections.
	trust = 4
	// greatest is that of an item at the most: at 1 there would be weights of 0/0.
	greatest = 1 - 1.0/(1<<40)
)

// Settled selections of an item, or of all: how many were paid, and how many never were. Of the paid, Below were paid less than
// the default, and Under is how much less these were paid together, in units of the caller's.
type Outcomes struct{ Paid, Unpaid, Below, Under int64 }

// Add is the outcomes of both.
func (o Outcomes) Add(p Outcomes) Outcomes {
	return Outcomes{o.Paid + p.Paid, o.Unpaid + p.Unpaid, o.Below + p.Below, o.Under + p.Under}
}

// Share is the share c of all selections that are paid: the likeliest, given what has become of those that are settled and
// that of the others, given in lists, none has been paid yet: (P+1)·log c + (U+1)·log(1−c) + Σ n·log(1−c·F).
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

// slope is that of a·log c + b·log(1−c) + Σ n·log(1−c·F), which is concave.
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

// ItemShare is Share of one item, drawn towards that of all. It solves a = c·(a+b+Z), where Z is what the awaited selections count
// as, see Weigh. The difference of both sides is convex in c, so that Newton's steps come to the solution from below and never
// go past it; they begin where each counts as F, the most that it can.
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
		if !(step > 0) { // there but for rounding
			break
		}
		c = min(c+step, greatest)
		if step <= near*min(c, 1-c) {
			break
		}
	}
	return c
}

// weigh is what awaited selections count as, but for rounding, and how fast that falls with c.
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
