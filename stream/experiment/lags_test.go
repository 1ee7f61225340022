package experiment

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// payment is a payoff of a unit, at a time.
type payment struct {
	at            int64
	before, after float64
}

// lagged is a unit with all of its payoffs.
type lagged struct {
	arm   int
	began int64
	z     float64 // its covariate
	paid  []payment
}

const lagHorizon = 3200 // buckets of 100 ms

func drawLagged(t *rapid.T, arms, most int) []lagged {
	all := make([]lagged, rapid.IntRange(0, most).Draw(t, "units"))
	for i := range all {
		u := lagged{arm: rapid.IntRange(0, arms-1).Draw(t, "arm"), began: rapid.Int64Range(-500, 8000).Draw(t, "began"),
			z: rapid.Float64Range(0, 1).Draw(t, "covariate")}
		at, x := u.began, 0.0
		for range rapid.IntRange(0, 3).Draw(t, "payoffs") {
			at = rapid.Int64Range(at, u.began+lagHorizon).Draw(t, "at")
			next := rapid.Float64Range(0, 1).Draw(t, "payoff")
			u.paid = append(u.paid, payment{at, x, next})
			x = next
		}
		all[i] = u
	}
	return all
}

// slowLags are the totals of units as of the last ended bucket, by definition.
func slowLags(units []lagged, arms int, last int64) LagTotals {
	r := NewRunOff(arms, lagHorizon)
	r.last = last
	bucket := func(at int64) int64 { return PeriodOf(at, 100) }
	for _, u := range units {
		if bucket(u.began) > last {
			continue
		}
		s := EntrySums{N: 1, Z: inUnits(u.z), S: inUnits(u.z * u.z)}
		for _, p := range u.paid {
			if bucket(p.at) > last {
				continue
			}
			of := &r.lags[u.arm][bucket(p.at)-bucket(u.began)]
			x := inUnits(p.after) - inUnits(p.before)
			y := float64(x) / perPayoff
			of.K, of.X, of.Q, of.M = of.K+1, of.X+x, of.Q+inUnits(y*y), of.M+inUnits(p.after*u.z)-inUnits(p.before*u.z)
			if y >= 0 {
				of.U += inUnits(p.after*p.after) - inUnits(p.before*p.before)
			} else {
				of.U += inUnits(y*y) + inUnits(2*y*(p.before-1))
			}
		}
		if lag := last - bucket(u.began); lag < Lags-1 {
			r.entered[lag][u.arm] = r.entered[lag][u.arm].add(s)
		} else {
			r.old[u.arm] = r.old[u.arm].add(s)
		}
	}
	t := NewLagTotals(arms)
	t.Add(r)
	return t
}

// TestRunOff_IsOfUnitsAlone: in any order, with buckets that end at any time, and through stored text, a run-off is that of its units.
func TestRunOff_IsOfUnitsAlone(t *testing.T) {
	e := three(t)
	rapid.Check(t, func(t *rapid.T) {
		units := drawLagged(t, 3, 30)
		random := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1))
		type step func(r *RunOff) (int64, bool)
		var steps []step
		for _, u := range units {
			steps = append(steps, func(r *RunOff) (int64, bool) { return r.Enter(u.arm, u.began, Unit(1, u.z)) })
			for _, p := range u.paid {
				steps = append(steps, func(r *RunOff) (int64, bool) {
					return r.Pay(u.arm, u.began, p.at, PaidInParts(p.before, p.after, u.z, true))
				})
			}
		}
		random.Shuffle(len(steps), func(i, j int) { steps[i], steps[j] = steps[j], steps[i] })
		r, stored := NewRunOff(3, lagHorizon), map[int64]string{}
		text, end := string(e.AppendRunOff(nil, r)), int64(-1000)
		for k := range steps {
			number, open := steps[k](r)
			if open {
				stored[number] = string(e.AppendBucket(nil, r, number))
			} else {
				text = string(e.AppendRunOff(nil, r))
			}
			if random.IntN(5) == 0 {
				end += random.Int64N(1500)
				ended, any := r.EndUpTo(end)
				for _, number := range ended {
					require.Empty(t, e.AppendBucket(nil, r, number))
					delete(stored, number)
				}
				if any {
					text = string(e.AppendRunOff(nil, r))
				}
			}
			if random.IntN(5) == 0 { // begin from the store
				r = NewRunOff(3, lagHorizon)
				require.NoError(t, e.ParseRunOff(text, r))
				for number, bucket := range stored {
					require.NoError(t, e.ParseBucket(bucket, r, number))
				}
			}
		}
		r.EndUpTo(end + 4000)
		got := NewLagTotals(3)
		got.Add(r)
		require.Equal(t, slowLags(units, 3, r.last), got)
	})
}

// TestRunOff_PartitionsAddUp: totals of partitions, each as of its own last bucket, do not depend on their order.
func TestRunOff_PartitionsAddUp(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var parts []*RunOff
		want := NewLagTotals(2)
		for range 3 {
			units, r := drawLagged(t, 2, 10), NewRunOff(2, lagHorizon)
			for _, u := range units {
				r.Enter(u.arm, u.began, Unit(1, u.z))
				for _, p := range u.paid {
					r.Pay(u.arm, u.began, p.at, PaidInParts(p.before, p.after, u.z, true))
				}
			}
			r.EndUpTo(rapid.Int64Range(0, 12_000).Draw(t, "end"))
			parts = append(parts, r)
			for arm, a := range slowLags(units, 2, r.last) {
				for l := range Lags {
					want[arm].Paid[l] = want[arm].Paid[l].add(a.Paid[l])
					want[arm].Entered[l] = want[arm].Entered[l].add(a.Entered[l])
				}
			}
		}
		got := NewLagTotals(2)
		for _, k := range rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "order"), 1)).Perm(3) {
			got.Add(parts[k])
		}
		require.Equal(t, want, got)
	})
}

// TestRunOff_Edges: a payoff at its deadline has lag 32, and one from before its unit's beginning, as seen by a partition's clock, lag 0.
func TestRunOff_Edges(t *testing.T) {
	r := NewRunOff(1, lagHorizon)
	r.Pay(0, 199, 199+lagHorizon, PaidInParts(0, 1, 0, true))
	r.Pay(0, 1000, 300, PaidInParts(0, 1, 0, true))
	r.Enter(0, 1000, Unit(1, 0))
	r.EndUpTo(1000)
	require.Zero(t, r.lags[0][0], "its unit's bucket has not ended")
	r.EndUpTo(10_000)
	require.EqualValues(t, 1, r.lags[0][0].K)
	require.EqualValues(t, 1, r.lags[0][Lags-1].K)
	for _, horizon := range []int64{1, 31, 32, 33, 600_000, 30 * 86_400_000} {
		w := BucketWidth(horizon)
		require.LessOrEqual(t, PeriodOf(w-1+horizon, w), int64(Lags-1), "horizon %d", horizon)
	}
}

// TestRunOff_Bytes: stored text of a million impressions has at most 4 KB, an open bucket 3 KB; with covariates 6.5 and 4 KB.
func TestRunOff_Bytes(t *testing.T) {
	for _, c := range []struct {
		z           float64
		open, ended int
	}{{0, 3000, 4000}, {1, 4000, 6500}} {
		testRunOffBytes(t, c.z, c.open, c.ended)
	}
}

func testRunOffBytes(t *testing.T, most float64, open, ended int) {
	e, r := feed(t, Settings{}), NewRunOff(2, 32_000)
	random := rand.New(rand.NewPCG(1, 1))
	for i := range int64(1_000_000) {
		arm, began := int(random.Uint64()&1), i*32_000/1_000_000
		z := most * random.Float64()
		r.Enter(arm, began, Unit(1, z))
		if random.IntN(3) == 0 {
			r.Pay(arm, began, began+random.Int64N(32_000), PaidInParts(0, random.Float64(), z, true))
		}
	}
	require.Less(t, len(e.AppendBucket(nil, r, 31)), open)
	r.EndUpTo(64_000)
	require.Less(t, len(e.AppendRunOff(nil, r)), ended)
}

func BenchmarkRunOff(b *testing.B) {
	r := NewRunOff(2, 32_000)
	b.ReportAllocs()
	at := int64(0)
	for b.Loop() {
		at++
		r.Enter(1, at, Unit(1, 0))
		r.Pay(1, at, at+100, PaidInParts(0, 1, 0, true))
		if at%1000 == 0 {
			r.EndUpTo(at)
		}
	}
}
