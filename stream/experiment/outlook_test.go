package experiment

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func runOffOf(units []lagged, end int64) (LagTotals, int64) {
	r := NewRunOff(2, lagHorizon)
	for _, u := range units {
		r.Enter(u.arm, u.began, Unit(1, u.z))
		for _, p := range u.paid {
			r.Pay(u.arm, u.began, p.at, PaidInParts(p.before, p.after, u.z, true))
		}
	}
	r.EndUpTo(end)
	t := NewLagTotals(2)
	t.Add(r)
	return t, r.last
}

// TestHistoryOf: of units that begin evenly within a bucket, a share that grows with age is that at the middle of the bucket.
func TestHistoryOf(t *testing.T) {
	const horizon = 32 * 3200
	h := HistoryOf(horizon, func(age int64) float64 { return float64(age) / horizon })
	for l := range Lags - 1 {
		require.InDelta(t, (float64(l)+0.5)/32, h[l], 1e-12, "lag %d", l)
	}
	require.Equal(t, 1.0, h[Lags-1])
}

// TestDifference_IsThatOfUnits computes D and its variance from each unit: a unit of lag a counts Σ_{l≤min(a,A)} x_l/n_l, and its variance is
// around the mean of units that far.
func TestDifference_IsThatOfUnits(t *testing.T) {
	e := feed(t, Settings{})
	rapid.Check(t, func(t *rapid.T) {
		units := drawLagged(t, 2, 60)
		for i := range units { // one payoff each
			units[i].paid = units[i].paid[:min(1, len(units[i].paid))]
		}
		totals, last := runOffOf(units, rapid.Int64Range(0, 9000).Draw(t, "end"))
		p := e.pairOf(e.Index("feed"), totals)
		if p.last < 0 {
			return
		}
		upTo := rapid.IntRange(0, p.last).Draw(t, "lag")
		want, variance := 0.0, 0.0
		for i, arm := range []int{e.Index("feed"), e.ControlArm()} {
			sign, own := 1-2*float64(i), 0.0
			var n, x [Lags]float64
			of := func(u *lagged) (lag int, paid int) {
				b := PeriodOf(u.began, 100)
				lag, paid = int(min(last-b, Lags-1)), -1
				if len(u.paid) > 0 && PeriodOf(u.paid[0].at, 100) <= last {
					paid = int(PeriodOf(u.paid[0].at, 100) - b)
				}
				return lag, paid
			}
			for k := range units {
				lag, paid := of(&units[k])
				if units[k].arm != arm || lag < 0 {
					continue
				}
				for l := range lag + 1 {
					n[l]++
				}
				if paid >= 0 {
					x[paid] += units[k].paid[0].after
				}
			}
			for l := range upTo + 1 {
				want += sign * x[l] / n[l]
			}
			for k := range units {
				lag, paid := of(&units[k])
				if units[k].arm != arm || lag < 0 {
					continue
				}
				y, mean := 0.0, 0.0
				for l := range min(lag, upTo) + 1 {
					if paid == l {
						y += units[k].paid[0].after / n[l]
					}
					mean += x[l] / n[l] / n[l]
				}
				own += y*y - mean*mean
			}
			variance += max(own, 0) // units with different payoffs at different ages
		}
		d, v, left := p.difference(upTo)
		require.InDelta(t, want, d, 1e-4)
		require.InDelta(t, variance, v, 1e-4)
		require.Equal(t, v, left, "units are too few for a slope")
	})
}

// TestDifference_LessCovariates: payoffs that are their covariates leave no difference, however covariates differ between arms, and the least
// variance. Else D and the variance left are those of units, each less the slopes of its lags.
func TestDifference_LessCovariates(t *testing.T) {
	e := feed(t, Settings{})
	random := rand.New(rand.NewPCG(3, 3))
	type one struct {
		arm          int // 0 for the arm, as in pairs
		reached, lag int // its own, and its payoff's
		x, z         float64
	}
	world := func(payoff func(z float64) (x float64, age int64)) (p *pair, units []one) {
		r := NewRunOff(2, lagHorizon)
		for range 40_000 {
			arm, began, z := random.IntN(2), random.Int64N(4000), random.Float64()
			if arm == 0 && random.IntN(3) == 0 {
				z = 0.75
			}
			x, age := payoff(z)
			age = min(age, lagHorizon)
			r.Enter(arm, began, Unit(1, z))
			r.Pay(arm, began, began+age, PaidInParts(0, x, z, true))
			units = append(units, one{1 - arm, int(min(39-began/100, Lags-1)), int((began+age)/100 - began/100), x, z})
		}
		r.EndUpTo(4000)
		totals := NewLagTotals(2)
		totals.Add(r)
		return e.pairOf(1, totals), units
	}
	p, _ := world(func(z float64) (float64, int64) { return z, 0 })
	d, v, left := p.difference(20)
	require.InDelta(t, 0, d, 1e-6)
	require.InEpsilon(t, leastLeft*v, left, 1e-9)

	p, units := world(func(z float64) (float64, int64) {
		if random.Float64() < z {
			return 1, int64(400 * random.ExpFloat64())
		}
		return 0, 0
	})
	const upTo = 30
	var n, x, z [2][upTo + 1]float64
	for _, u := range units {
		for l := range min(u.reached, upTo) + 1 {
			n[u.arm][l], z[u.arm][l] = n[u.arm][l]+1, z[u.arm][l]+u.z
		}
		if u.lag <= min(u.reached, upTo) {
			x[u.arm][u.lag] += u.x
		}
	}
	// The slope of a lag is that of least squares, with a mean of its own for each arm.
	paid := func(u *one, l int) float64 {
		if u.lag == l {
			return u.x
		}
		return 0
	}
	var slope, spread [upTo + 1]float64
	for k := range units {
		u := &units[k]
		for l := range min(u.reached, upTo) + 1 {
			off := u.z - z[u.arm][l]/n[u.arm][l]
			slope[l], spread[l] = slope[l]+off*(paid(u, l)-x[u.arm][l]/n[u.arm][l]), spread[l]+off*off
		}
	}
	of := func(u *one) (y float64) {
		for l := range min(u.reached, upTo) + 1 {
			y += (paid(u, l) - slope[l]/spread[l]*u.z) / n[u.arm][l]
		}
		return y
	}
	var count, sum, squares [2][Lags]float64
	want := 0.0
	for k := range units {
		u := &units[k]
		y, reached := of(u), min(u.reached, upTo)
		count[u.arm][reached], sum[u.arm][reached], squares[u.arm][reached] = count[u.arm][reached]+1, sum[u.arm][reached]+y, squares[u.arm][reached]+y*y
		want += y * float64(1-2*u.arm)
	}
	variance := 0.0
	for i := range count {
		for l, n := range count[i] {
			if n > 0 {
				variance += squares[i][l] - sum[i][l]*sum[i][l]/n
			}
		}
	}
	d, v, left = p.difference(upTo)
	require.InDelta(t, want, d, 1e-4)
	require.InEpsilon(t, variance, left, 0.03)
	require.Less(t, left, 0.85*v)
}

// TestVariance_OfParts: however parts of a payoff depend on each other, and also if they are taken back, the variance of D is that of units or
// more. It is the same where each unit is paid once.
func TestVariance_OfParts(t *testing.T) {
	e := feed(t, Settings{InParts: true})
	rapid.Check(t, func(t *rapid.T) {
		units := drawLagged(t, 2, 60)
		once := rapid.Bool().Draw(t, "once")
		for i := range units {
			if u := &units[i]; once {
				u.paid = u.paid[:min(1, len(u.paid))]
			}
		}
		totals, last := runOffOf(units, 9000)
		p := e.pairOf(e.Index("feed"), totals)
		most := p.reached(1)
		if most < 0 {
			t.Skip("an arm without units")
		}
		upTo := rapid.IntRange(0, most).Draw(t, "up to")
		want := 0.0
		for i, arm := range [2]int{e.Index("feed"), e.ControlArm()} {
			var c [Lags]float64 // mean payoff of a unit by lag
			for l, m := 0, 0.0; l <= upTo; l++ {
				m += p.x[i][l] / (p.n[i][l] * p.n[i][l])
				c[l] = m
			}
			for _, u := range units {
				reached := min(last-PeriodOf(u.began, 100), int64(upTo))
				if u.arm != arm || reached < 0 {
					continue
				}
				y := 0.0
				for _, x := range u.paid {
					if l := PeriodOf(x.at, 100) - PeriodOf(u.began, 100); l <= reached {
						y += (x.after - x.before) / p.n[i][l]
					}
				}
				want += y*y - c[reached]*c[reached]
			}
		}
		_, v, _ := p.difference(upTo)
		require.GreaterOrEqual(t, v, want-1e-4)
		if once {
			require.InDelta(t, max(want, 0), v, 1e-4)
		}
	})
}

// TestPlanned: the variance that is expected by the mean and history is that of the units, where payoffs come as history says. Its standard
// error is 1 % of it, so that it is off by 5 % with a probability of 6e-7.
func TestPlanned(t *testing.T) {
	e, random := feed(t, Settings{}), rand.New(rand.NewPCG(11, 5))
	history := HistoryOf(lagHorizon, func(age int64) float64 { return -math.Expm1(-float64(age) / 500) })
	five := func() int64 { return int64(500 * random.ExpFloat64()) }
	totals := NewLagTotals(2)
	totals.Add(aged(random, 4000, 40, [2]float64{0.3, 0.3}, [2]func() int64{five, five}))
	p := e.pairOf(e.Index("feed"), totals)
	s := p.scale(history, 1)
	for _, upTo := range []int{2, 10, p.last} {
		_, v, _ := p.difference(upTo)
		require.InEpsilon(t, v, p.planned(s, history, upTo), 0.05, "lag %d", upTo)
	}
}

// TestLate_OfParts: payoffs in parts that come together are late by as many standard errors as the same in one.
func TestLate_OfParts(t *testing.T) {
	e, random := feed(t, Settings{InParts: true}), rand.New(rand.NewPCG(12, 5))
	history := HistoryOf(lagHorizon, func(age int64) float64 { return -math.Expm1(-float64(age) / 500) })
	once, parts := NewRunOff(2, lagHorizon), NewRunOff(2, lagHorizon)
	for at := int64(0); at < 6000; at++ {
		paid, came := random.Float64() < 0.3, at+min(int64(600*random.ExpFloat64()), lagHorizon)
		for _, r := range []*RunOff{once, parts} {
			if r.Enter(e.ControlArm(), at, Unit(1, 0)); !paid {
				continue
			}
			n := map[*RunOff]int{once: 1, parts: 5}[r]
			for k := range n {
				r.Pay(e.ControlArm(), at, came, PaidInParts(float64(k)/float64(n), float64(k+1)/float64(n), 0, true))
			}
		}
	}
	late := func(r *RunOff) float64 {
		r.EndUpTo(6000)
		totals := NewLagTotals(2)
		totals.Add(r)
		return e.pairOf(e.Index("feed"), totals).late(history)
	}
	want := late(once)
	require.Greater(t, math.Abs(want), 1.0)
	require.InEpsilon(t, want, late(parts), 1e-3)
}

// TestParts_OfOnePayoff: a payoff in five parts is as sure as the same in one. If parts counted as independent, arms that are the same would differ in
// each of the 400 runs. Its false-alarm rate is below 1e-6: see TestMostWrong.
func TestParts_OfOnePayoff(t *testing.T) {
	e := feed(t, Settings{InParts: true})
	history := HistoryOf(lagHorizon, func(age int64) float64 { return -math.Expm1(-float64(age) / 500) })
	wrong, known := verdicts(func(seed uint64, look func(End)) {
		random, r := rand.New(rand.NewPCG(seed, 9)), NewRunOff(2, lagHorizon)
		for at := int64(0); at < 6000; at++ {
			arm := e.Arm(fmt.Append(nil, "u-", seed, "-", at))
			r.Enter(arm, at, Unit(1, 0))
			if random.Float64() < 0.3 {
				var ages [5]int64
				for k := range ages {
					ages[k] = min(int64(500*random.ExpFloat64()), lagHorizon)
				}
				slices.Sort(ages[:])
				for k, age := range ages {
					r.Pay(arm, at, at+age, PaidInParts(float64(k)/5, float64(k+1)/5, 0, true))
				}
			}
			if at%200 == 199 {
				r.EndUpTo(at + 1)
				totals := NewLagTotals(2)
				totals.Add(r)
				look(e.Outlook(e.Index("feed"), totals, history, "").End)
			}
		}
	})
	require.LessOrEqual(t, wrong, mostWrong)
	require.Greater(t, known, 300)
}

// verdicts plays 400 runs of arms that are the same. It counts those that say at some look that the arms differ, and those that say anything.
func verdicts(play func(seed uint64, look func(End))) (wrong, known int) {
	for seed := range uint64(400) {
		is, knows := false, false
		play(seed, func(o End) {
			is, knows = is || o.Verdict == Better || o.Verdict == Worse, knows || o.Verdict != Refused
		})
		if is {
			wrong++
		}
		if knows {
			known++
		}
	}
	return wrong, known
}

// aged makes a run-off of units each paid 1 with a chance, at an age that draw gives.
func aged(random *rand.Rand, perBucket int, buckets int64, chance [2]float64, draw [2]func() int64) *RunOff {
	r := NewRunOff(2, lagHorizon)
	for at := int64(0); at < buckets*100; at++ {
		for range perBucket / 100 {
			arm := 0
			if random.IntN(10) > 0 {
				arm = 1
			}
			r.Enter(arm, at, Unit(1, 0))
			if random.Float64() < chance[arm] {
				r.Pay(arm, at, at+min(draw[arm](), lagHorizon), PaidInParts(0, 1, 0, true))
			}
		}
	}
	r.EndUpTo(buckets * 100)
	return r
}

// TestAtHorizon_OfFewDue: few units of the control, or few paid ones, are the first to pass their deadlines. Unpaid ones are worth more than
// nothing from then on. Arms that are the same differ in at most mostWrong of the runs. Its false-alarm rate is below 1e-6: see TestMostWrong.
func TestAtHorizon_OfFewDue(t *testing.T) {
	e := feed(t, Settings{Falls: true})
	for _, world := range []struct {
		first, units int     // in a bucket
		none, paid   float64 // shares of units: without a selection, and paid
		known        int     // the least number of runs
	}{
		{60, 300, 0.4, 0.3, 300},
		{550, 500, 0, 0.035, 0}, // 55 of the control are due, of which two are paid
	} {
		wrong, known := verdicts(func(seed uint64, look func(End)) {
			random, r := rand.New(rand.NewPCG(seed, 13)), NewRunOff(2, lagHorizon)
			for bucket := range int64(Lags + 8) {
				units, at := world.units, bucket*BucketWidth(lagHorizon)
				if bucket == 0 {
					units = world.first
				}
				for range units {
					arm := min(random.IntN(10), 1)
					r.Enter(arm, at, Unit(1, 0))
					switch x := random.Float64(); {
					case x < world.none:
						r.Pay(arm, at, at, PaidInParts(0, 0.5, 0, false))
					case x < world.none+world.paid:
						r.Pay(arm, at, at, PaidInParts(0, 1, 0, true))
					default:
						r.Pay(arm, at, at+lagHorizon, PaidInParts(0, 0.5, 0, false))
					}
				}
				r.EndUpTo(at + BucketWidth(lagHorizon))
				if bucket < Lags-1 {
					continue // no deadline has passed
				}
				totals := NewLagTotals(2)
				totals.Add(r)
				look(e.AtHorizon(e.Index("feed"), totals))
			}
		})
		t.Logf("%+v: %d wrong, %d known", world, wrong, known)
		require.LessOrEqual(t, wrong, mostWrong)
		require.GreaterOrEqual(t, known, world.known)
	}
}

// Where all payoffs are equal, arms differ by the rounding of partitions' sums, which is no verdict and trips no guard.
func TestAtHorizon_OfEqualPayoffs(t *testing.T) {
	for _, byUser := range []bool{false, true} {
		e := feed(t, Settings{Arms: []Arm{{"feed", 0.5}, {"control", 0.5}}, ByUser: byUser, Period: 1000})
		for _, x := range []float64{0.1, 1. / 3, 0.7, 0.123456} {
			for _, partitions := range []int{1, 3, 100} {
				for _, units := range []int{60, 61, 1000} {
					totals := e.NewLagTotals()
					for k := range partitions {
						of := e.NewRunOffs(lagHorizon)
						for arm := range 2 {
							for i := range units + (arm+1)*(k+1)%3 {
								r, _ := of.Of(i * 5 % GroupCount)
								if !byUser {
									r = of[0]
								}
								r.Enter(arm, 0, Unit(1, 0.5))
								r.Pay(arm, 0, 0, PaidInParts(0, x, 0.5, true))
							}
						}
						of.EndUpTo(1 << 40)
						totals.AddAll(of)
					}
					o := e.AtHorizon(e.Index("feed"), totals)
					require.Equal(t, Open, o.Verdict, "%v %d×%d %+v", x, partitions, units, o)
					require.False(t, o.Trips(0))
				}
			}
		}
	}
}

// TestOutlook says the right thing in worlds of which the answer is known. Each has more than ten standard errors to spare.
func TestOutlook(t *testing.T) {
	e := feed(t, Settings{})
	arm := e.Index("feed")
	require.Equal(t, 1, arm)
	random := rand.New(rand.NewPCG(5, 5))
	mean := func(m float64) func() int64 { return func() int64 { return int64(m * random.ExpFloat64()) } }
	history := HistoryOf(lagHorizon, func(age int64) float64 { return -math.Expm1(-float64(age) / 500) })
	look := func(buckets int64, h *History, why string, chance [2]float64, control, arms float64) Outlook {
		totals := NewLagTotals(2)
		totals.Add(aged(random, 4000, buckets, chance, [2]func() int64{mean(control), mean(arms)}))
		return e.Outlook(arm, totals, h, why)
	}
	t.Run("a large lift is known before the horizon", func(t *testing.T) {
		o := look(20, history, "", [2]float64{0.2, 0.4}, 500, 500)
		require.Equal(t, Better, o.End.Verdict, "%+v", o)
		require.InDelta(t, 0.2, o.End.Estimate, 0.04)
		require.Equal(t, 1.0, o.End.Upper, "nothing is known above")
		require.Zero(t, o.Due)
		require.Less(t, o.End.Lag, 20)
		require.InDelta(t, history[o.End.Lag], o.End.Come, 1e-12)
		require.Equal(t, "ahead", o.Ahead())
		require.Equal(t, AsControl, o.Timing)
	})
	t.Run("faster is not better", func(t *testing.T) {
		o := look(10, history, "", [2]float64{0.3, 0.3}, 500, 200)
		require.Equal(t, Open, o.End.Verdict, "%+v", o)
		require.Equal(t, "ahead", o.Ahead())
		require.Equal(t, Sooner, o.Timing)
	})
	t.Run("later is not worse", func(t *testing.T) {
		o := look(16, history, "", [2]float64{0.3, 0.3}, 500, 1200)
		require.Equal(t, Open, o.End.Verdict, "%+v", o)
		require.Equal(t, "behind", o.Ahead())
		require.Equal(t, Later, o.Timing)
	})
	t.Run("worse is known from the first deadline on", func(t *testing.T) {
		o := look(32, history, "", [2]float64{0.4, 0.2}, 500, 500)
		require.Equal(t, Open, o.End.Verdict, "%+v", o)
		o = look(36, history, "", [2]float64{0.4, 0.2}, 500, 500)
		require.Equal(t, Worse, o.End.Verdict, "%+v", o)
		require.Positive(t, o.Due)
		o = look(36, nil, "none", [2]float64{0.4, 0.2}, 500, 500)
		require.Equal(t, Worse, o.End.Verdict, "no history is needed then: %+v", o)
		require.Equal(t, Lags-1, o.End.Lag)
	})
	t.Run("what draws level", func(t *testing.T) {
		totals := NewLagTotals(2)
		totals.Add(aged(random, 4000, 12, [2]float64{0.4, 0.2}, [2]func() int64{mean(500), mean(500)}))
		o := e.Outlook(arm, totals, history, "")
		var x, exposed float64
		for _, a := range totals {
			reached := int64(0)
			for l := Lags - 1; l >= 0; l-- {
				reached += a.Entered[l].N
				x, exposed = x+float64(a.Paid[l].X)/perTotal, exposed+float64(reached)*history.step(l)
			}
		}
		more := x / exposed * (1 - o.End.Come)
		d := o.End.Estimate * o.End.Come
		radius := d - o.End.Lower - 2*more
		require.InEpsilon(t, 1-(d+radius)/more, o.End.BreakEven, 1e-9)
		require.Greater(t, o.End.BreakEven, 1.0)
		require.Zero(t, look(36, history, "", [2]float64{0.4, 0.2}, 500, 500).End.BreakEven, "deadlines have passed")
		require.Zero(t, look(12, history, "", [2]float64{0.2, 0.4}, 500, 500).End.BreakEven)
		require.Zero(t, look(12, history, "", [2]float64{0.3, 0.3}, 500, 500).End.BreakEven)
	})
	t.Run("refused", func(t *testing.T) {
		o := look(20, nil, "history is short", [2]float64{0.2, 0.4}, 500, 500)
		require.Equal(t, Refused, o.End.Verdict)
		require.Equal(t, "history is short", o.End.Why)
		o = look(20, history, "", [2]float64{0.2, 0.4}, 1000, 1000)
		require.Contains(t, o.End.Why, "as late")
		o = look(20, history, "", [2]float64{0.001, 0.001}, 500, 500)
		require.Contains(t, o.End.Why, "too few")
		o = e.Outlook(arm, NewLagTotals(2), history, "")
		require.Equal(t, Refused, o.End.Verdict)
		require.Equal(t, "open", o.Ahead())
		falls := feed(t, Settings{Falls: true})
		totals := NewLagTotals(2)
		totals.Add(aged(random, 4000, 20, [2]float64{0.3, 0.3}, [2]func() int64{mean(500), mean(500)}))
		o = falls.Outlook(arm, totals, history, "")
		require.Contains(t, o.End.Why, "fall")
		require.Empty(t, o.Ahead())
		totals[arm].Entered[3].N *= 5
		o = e.Outlook(arm, totals, history, "")
		require.Contains(t, o.End.Why, "shares")
	})
}

// TestSoFar_SolvesItsBounds: each end of an arm's sum is its estimate less, or plus, the bound at that end. The interval is that of both.
func TestSoFar_SolvesItsBounds(t *testing.T) {
	e := feed(t, Settings{})
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.Int64Range(1, 1<<20).Draw(t, "units")
		totals := NewLagTotals(2)
		paid := [2]int64{rapid.Int64Range(0, n/20).Draw(t, "control"), rapid.Int64Range(0, n/2).Draw(t, "arm")}
		for k, x := range paid {
			totals[k].Entered[3].N = n / 10
			if k == 1 {
				totals[k].Entered[3].N = n - n/10
			}
			totals[k].Paid[0] = Paid{x, x << 20, x << 20, x << 20, 0}
		}
		p := e.pairOf(1, totals)
		got := p.soFar()
		var s, low, high [2]float64
		for i, share := range []float64{0.9, 0.1} {
			odds := 1/share - 1
			s[i] = float64(paid[1-i]) / share
			bisect := func(from, to float64, f func(float64) float64) float64 {
				for range 200 {
					if mid := (from + to) / 2; f(mid) < 0 {
						from = mid
					} else {
						to = mid
					}
				}
				return from
			}
			low[i] = bisect(0, s[i], func(l float64) float64 { return l - s[i] + p.above[i].Bound(odds*l) })
			high[i] = bisect(s[i], float64(n), func(r float64) float64 { return r - s[i] - p.below[i].Bound(odds*r) })
		}
		units := float64(n)
		require.InDelta(t, (s[0]-s[1])/units, got.Estimate, 1e-9)
		require.InDelta(t, max(-1, (low[0]-high[1])/units), got.Lower, 1e-5/math.Min(units, 1))
		require.InDelta(t, min(1, (high[0]-low[1])/units), got.Upper, 1e-5/math.Min(units, 1))
	})
}

func BenchmarkOutlook(b *testing.B) {
	e, random := feed(b, Settings{}), rand.New(rand.NewPCG(5, 5))
	five := func() int64 { return int64(500 * random.ExpFloat64()) }
	totals := NewLagTotals(2)
	totals.Add(aged(random, 4000, 20, [2]float64{0.3, 0.3}, [2]func() int64{five, five}))
	history := HistoryOf(lagHorizon, func(age int64) float64 { return -math.Expm1(-float64(age) / 500) })
	b.ReportAllocs()
	for b.Loop() {
		e.Outlook(1, totals, history, "")
	}
}
