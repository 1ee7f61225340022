package experiment

import (
	"cmp"
	"slices"
)

// Lags is the number of lags of a payoff in buckets: 0 to 32.
const Lags = 33

// BucketWidth returns the length of a run-off's buckets for a horizon of payoffs, both in milliseconds: 1/32 of it. So a payoff that comes
// by its deadline has a lag of 32 at most.
func BucketWidth(horizon int64) int64 { return max(1, (horizon+Lags-2)/(Lags-1)) }

// blocks is the number of blocks of user groups. With more of them the variance of a comparison is known better, and partitions publish more.
const blocks = 64

// leastLagHorizon bounds the horizon of run-offs by user from below, so that buckets last a minute: each end of one publishes all blocks.
const leastLagHorizon = (Lags - 1) * 60_000

// RunOffs are an experiment's run-offs in one partition. By user each block of groups has one, and its units are impressions. Impressions of a
// group are in all partitions and depend on each other; those of different blocks do not. Sums over a block's impressions add up over
// partitions, so that its part in a comparison can be squared behind them. By impression there is one run-off.
type RunOffs []*RunOff

// NewRunOffs returns empty run-offs, for a horizon of payoffs in milliseconds.
func (e *Experiment) NewRunOffs(horizon int64) (all RunOffs) {
	for range e.Blocks() {
		all = append(all, NewRunOff(len(e.Arms), e.LagHorizon(horizon)))
	}
	return all
}

// LagHorizon returns the horizon of run-offs, for one of payoffs.
func (e *Experiment) LagHorizon(horizon int64) int64 {
	if e.ByUser {
		return max(horizon, leastLagHorizon)
	}
	return horizon
}

// Blocks returns the number of run-offs.
func (e *Experiment) Blocks() int {
	if e.ByUser {
		return blocks
	}
	return 1
}

// Of returns the run-off of a group's block; by impression the group is 0.
func (o RunOffs) Of(group int) (r *RunOff, block int) {
	block = group * len(o) / GroupCount
	return o[block], block
}

// EndUpTo ends the buckets that are over at a time in milliseconds.
func (o RunOffs) EndUpTo(at int64) {
	for _, r := range o {
		r.EndUpTo(at)
	}
}

// Behind returns the block whose last ended bucket is the earliest.
func (o RunOffs) Behind() (block int) {
	for k, r := range o {
		if r.last < o[block].last {
			block = k
		}
	}
	return block
}

// FirstDue returns the earliest FirstDue of all blocks; 0 without units.
func (o RunOffs) FirstDue() (first int64) {
	for _, r := range o {
		if due := r.FirstDue(); due > 0 && (first == 0 || due < first) {
			first = due
		}
	}
	return first
}

// Paid is an increase of a unit's payoff, in units of 2⁻³⁰.
type Paid struct {
	K int64 // 1 for a payoff, 0 for the worth of a unit that ends without one
	X int64 // the increase, also negative
	Q int64 // its square
	U int64 // bounds the increase of the square of the unit's payoff, see PaidInParts
	M int64 // the product of the increase and the unit's covariate
}

// PaidInParts returns the increase x of a unit's payoff to date from before to after, both in [0,1]. z is its covariate.
//
// Let w_l be weights that do not fall with the lag l. Then (Σ w_l·x_l)² ≤ Σ w_l²·U_l, however a unit's parts depend on each other:
//
//	U = x² + 2·x·before where the payoff rises,   x² + 2·|x|·(1−before) where it falls
//
// Proof: the parts before x add up to w_l times before at most, and to w_l times before−1 at least, by partial summation.
func PaidInParts(before, after, z float64, payoff bool) Paid {
	from, to := Of(before, z), Of(after, z)
	y := float64(to.X-from.X) / perPayoff
	p := Paid{X: to.X - from.X, Q: inUnits(float64(y * y)), M: to.M - from.M}
	if p.U = to.Q - from.Q; y < 0 {
		p.U = p.Q + inUnits(float64(2*y*(before-1)))
	}
	if payoff {
		p.K = 1
	}
	return p
}

func (p Paid) add(o Paid) Paid { return Paid{p.K + o.K, p.X + o.X, p.Q + o.Q, p.U + o.U, p.M + o.M} }

// EntrySums are the sums over an arm's units of an entry bucket, in units of 2⁻³⁰. Z sums their covariates, and S the covariates' squares.
type EntrySums struct{ N, Z, S int64 }

func (s EntrySums) add(o EntrySums) EntrySums { return EntrySums{s.N + o.N, s.Z + o.Z, s.S + o.S} }

// RunOff holds the payoffs of an experiment's units by age, in one partition: a run-off triangle. Time is divided into buckets. A unit enters
// in the bucket in which it begins; the lag of its payoff is the number of buckets from there to the payoff's. Buckets end one after the
// other, with event time. Payoffs up to the last ended bucket do not depend on the order of calls.
type RunOff struct {
	arms  int
	width int64
	// last is the number of the last ended bucket: its start in widths since 1970.
	last int64
	from int64 // units of earlier entry buckets are not counted
	// Of ended buckets, by arm.
	lags    [][Lags]Paid
	old     []EntrySums           // of entry buckets whose lag is 32 or more
	entered [Lags - 1][]EntrySums // younger ones, by lag at the last ended bucket
	open    []openBucket          // by number
}

// openBucket holds the units that entered in a bucket that has not ended, and the payoffs that came in it.
type openBucket struct {
	number int64
	by     []openSums // by arm
}

type openSums struct {
	entered EntrySums
	lags    [Lags]Paid // by lag
}

// NewRunOff returns an empty run-off, for a horizon of payoffs in milliseconds.
func NewRunOff(arms int, horizon int64) *RunOff {
	r := &RunOff{arms: arms, width: BucketWidth(horizon)}
	r.last, r.from = noBucket, noBucket
	r.lags, r.old = make([][Lags]Paid, arms), make([]EntrySums, arms)
	for l := range r.entered {
		r.entered[l] = make([]EntrySums, arms)
	}
	return r
}

// noBucket is the last ended bucket before one has ended.
const noBucket = -1 << 40

// Counts reports whether units are counted that began at a time in milliseconds.
func (r *RunOff) Counts(began int64) bool { return r.Bucket(began) >= r.from }

// Full reports whether an arm has so many units in ended buckets that sums would overflow with as many again.
func (r *RunOff) Full() bool {
	for arm := range r.arms {
		n := r.old[arm].N
		for l := range r.entered {
			n += r.entered[l][arm].N
		}
		if n >= mostCounted {
			return true
		}
	}
	return false
}

// Restart drops all units, of which some may be paid without a trace. It returns the open buckets that it drops.
func (r *RunOff) Restart() (dropped []int64) {
	from := r.last + 1
	for _, b := range r.open {
		dropped, from = append(dropped, b.number), b.number+1
	}
	again := NewRunOff(r.arms, 1)
	again.width, again.last, again.from = r.width, r.last, max(from, r.from)
	*r = *again
	return dropped
}

// FirstDue returns the time in milliseconds at which the first units of ended buckets will all have passed their deadlines, or have done so;
// 0 without units.
func (r *RunOff) FirstDue() int64 {
	has := func(by []EntrySums) bool { return slices.ContainsFunc(by, func(s EntrySums) bool { return s.N > 0 }) }
	if has(r.old) {
		return r.End(r.last)
	}
	for l := Lags - 2; l >= 0; l-- {
		if has(r.entered[l]) {
			return r.End(r.last + int64(Lags-1-l))
		}
	}
	return 0
}

// Ended returns the time in milliseconds up to which buckets have ended; 0 before one has.
func (r *RunOff) Ended() int64 {
	if r.last == noBucket {
		return 0
	}
	return r.End(r.last)
}

// Bucket returns the number of the bucket at a time in milliseconds.
func (r *RunOff) Bucket(at int64) int64 { return PeriodOf(at, r.width) }

// End returns the time in milliseconds at which a bucket ends.
func (r *RunOff) End(number int64) int64 { return (number + 1) * r.width }

// Enter adds units of an arm (Unit), which began at a time in milliseconds. It returns the open bucket whose sums have changed; open is false
// if ended ones have.
func (r *RunOff) Enter(arm int, began int64, c Counts) (number int64, open bool) {
	e := r.Bucket(began)
	if open = e > r.last; open {
		to := &r.at(e).by[arm].entered
		*to = to.add(EntrySums{N: c.N, Z: c.Z, S: c.S})
		return e, open
	}
	to := &r.entry(e)[arm]
	*to = to.add(EntrySums{N: c.N, Z: c.Z, S: c.S})
	return e, open
}

// Pay adds the increase of the payoff of an arm's unit, which began at a time in milliseconds, at another. Lags are 0 at least, also where a
// partition's event time was ahead of the payoff's. It returns as Enter does.
func (r *RunOff) Pay(arm int, began, at int64, p Paid) (number int64, open bool) {
	e := r.Bucket(began)
	l := min(max(r.Bucket(at)-e, 0), Lags-1)
	if b := e + l; b > r.last {
		s := &r.at(b).by[arm].lags[l]
		*s = s.add(p)
		return b, true
	}
	r.pay(arm, e, l, p)
	return e + l, false
}

// pay adds a payoff to the ended buckets.
func (r *RunOff) pay(arm int, entry, lag int64, p Paid) {
	s := &r.lags[arm][lag]
	*s = s.add(p)
}

// entry returns the sums of an entry bucket that has ended, by arm.
func (r *RunOff) entry(number int64) []EntrySums {
	if lag := r.last - number; lag < Lags-1 {
		return r.entered[lag]
	}
	return r.old
}

// at returns an open bucket.
func (r *RunOff) at(number int64) *openBucket {
	k, found := r.find(number)
	if !found {
		r.open = slices.Insert(r.open, k, openBucket{number, make([]openSums, r.arms)})
	}
	return &r.open[k]
}

// find returns the position of an open bucket, or where to insert it.
func (r *RunOff) find(number int64) (at int, found bool) {
	return slices.BinarySearchFunc(r.open, number, func(b openBucket, number int64) int { return cmp.Compare(b.number, number) })
}

// EndUpTo ends the buckets that are over at a time in milliseconds, and returns those that were open, and whether any has ended.
func (r *RunOff) EndUpTo(at int64) (ended []int64, any bool) {
	last := r.Bucket(at) - 1
	if last <= r.last {
		return nil, false
	}
	r.age(last)
	for len(r.open) > 0 && r.open[0].number <= last {
		b := r.open[0]
		r.open = slices.Delete(r.open, 0, 1)
		ended = append(ended, b.number)
		for arm := range b.by {
			to := &r.entry(b.number)[arm]
			*to = to.add(b.by[arm].entered)
			for l, p := range b.by[arm].lags {
				r.pay(arm, b.number-int64(l), int64(l), p)
			}
		}
	}
	return ended, true
}

// age moves entry buckets to their lags at a later bucket's end.
func (r *RunOff) age(last int64) {
	by := min(last-r.last, Lags-1)
	r.last = last
	for range by {
		oldest := r.entered[Lags-2]
		copy(r.entered[1:], r.entered[:Lags-2])
		for arm, s := range oldest {
			r.old[arm] = r.old[arm].add(s)
		}
		clear(oldest)
		r.entered[0] = oldest
	}
}

// LagTotals are run-offs of one or more partitions, by arm; by user by block and arm. Each partition's are as of its own last ended bucket.
// Payoffs are in units of 2⁻²⁰, rounded once for each partition, block and lag, so that 64 bits hold those of all partitions.
type LagTotals []armLags

type armLags struct {
	Paid    [Lags]Paid
	Entered [Lags]EntrySums // by lag, 32 for all older ones
}

// NewLagTotals returns totals of no partition, by impression.
func NewLagTotals(arms int) LagTotals { return make(LagTotals, arms) }

// NewLagTotals returns totals of no partition.
func (e *Experiment) NewLagTotals() LagTotals { return NewLagTotals(e.Blocks() * len(e.Arms)) }

// AddAll adds a partition's run-offs.
func (t LagTotals) AddAll(o RunOffs) {
	for block, r := range o {
		t.Block(block, r.arms).Add(r)
	}
}

// Block returns the totals of a block of groups, by arm. They share their memory.
func (t LagTotals) Block(block, arms int) LagTotals { return t[block*arms : (block+1)*arms] }

// Add adds a run-off.
func (t LagTotals) Add(r *RunOff) { t.add(r, 1) }

// Subtract undoes Add.
func (t LagTotals) Subtract(r *RunOff) { t.add(r, -1) }

func (t LagTotals) add(r *RunOff, times int64) {
	for arm := range t {
		a := &t[arm]
		for l, s := range r.lags[arm] {
			a.Paid[l] = a.Paid[l].add(Paid{times * s.K, times * rounded(s.X), times * rounded(s.Q), times * rounded(s.U), times * rounded(s.M)})
		}
		for l := range a.Entered {
			s := r.old[arm]
			if l < Lags-1 {
				s = r.entered[l][arm]
			}
			a.Entered[l] = a.Entered[l].add(EntrySums{times * s.N, times * rounded(s.Z), times * rounded(s.S)})
		}
	}
}

// Merge adds the totals of other partitions.
func (t LagTotals) Merge(o LagTotals) {
	for arm := range o {
		a, b := &t[arm], &o[arm]
		for l := range Lags {
			a.Paid[l] = a.Paid[l].add(b.Paid[l])
			a.Entered[l] = a.Entered[l].add(b.Entered[l])
		}
	}
}
