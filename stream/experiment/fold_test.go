package experiment

import (
	"math"
	"math/big"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// unit is one with its payoff and its arm.
type unit struct {
	arm int
	x   float64
}

func drawUnits(t *rapid.T, arms int, label string) []unit {
	n := rapid.IntRange(0, 200).Draw(t, label)
	us := make([]unit, n)
	for i := range us {
		us[i] = unit{rapid.IntRange(0, arms-1).Draw(t, "arm"), rapid.Float64Range(0, 1).Draw(t, "payoff")}
	}
	return us
}

func cohortOf(us []unit, arms int) []Counts {
	by := make([]Counts, arms)
	for _, u := range us {
		by[u.arm] = by[u.arm].Add(Unit).Add(Of(u.x))
	}
	return by
}

// TestFoldsAsUnitByUnit folds cohorts by their sums, and each unit alone with exact fractions; both round once a cohort.
func TestFoldsAsUnitByUnit(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		arms := rapid.IntRange(2, 4).Draw(t, "arms")
		totals, naive := make(Totals, arms), make(Totals, arms)
		for range rapid.IntRange(1, 6).Draw(t, "cohorts") {
			us := drawUnits(t, arms, "units")
			m := naiveMean(naive)
			totals.Fold(cohortOf(us, arms))
			for arm := range arms {
				var x, d, e big.Rat
				for _, u := range us {
					if u.arm != arm {
						continue
					}
					naive[arm].N++
					payoff, square := Of(u.x).X, Of(u.x).Q
					x.Add(&x, big.NewRat(payoff, 1<<30))
					d.Add(&d, big.NewRat(payoff-m, 1<<30))
					// (x−m)² with x² rounded as it is kept.
					one := big.NewRat(square, 1<<30)
					one.Sub(one, new(big.Rat).Mul(big.NewRat(2*m, 1<<30), big.NewRat(payoff, 1<<30)))
					one.Add(one, new(big.Rat).Mul(big.NewRat(m, 1<<30), big.NewRat(m, 1<<30)))
					e.Add(&e, one)
				}
				naive[arm].X += roundRat(&x)
				naive[arm].D += roundRat(&d)
				naive[arm].E += max(0, roundRat(&e))
			}
		}
		require.Equal(t, naive, totals)
	})
}

// roundRat gives units of 2⁻²⁰, the nearest, halves upwards.
func roundRat(x *big.Rat) int64 {
	y := new(big.Rat).Mul(x, big.NewRat(1<<20, 1))
	y.Add(y, big.NewRat(1, 2))
	// Div of big.Int rounds down for positive denominators.
	return new(big.Int).Div(y.Num(), y.Denom()).Int64()
}

func naiveMean(t Totals) int64 {
	var n, x int64
	for _, s := range t {
		n, x = n+s.N, x+s.X
	}
	if n == 0 {
		return 1 << 29
	}
	m := new(big.Int).Div(new(big.Int).Mul(big.NewInt(x), big.NewInt(1<<10)), big.NewInt(n)).Int64()
	return min(m, 1<<30)
}

// TestSumsAreNearFloats holds sums to the definition in floating point.
func TestSumsAreNearFloats(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		us := drawUnits(t, 2, "units")
		totals := Totals{{N: 7, X: 3 << 20}, {N: 3, X: 1 << 20}}
		before := append(Totals{}, totals...)
		totals.Fold(cohortOf(us, 2))
		var d, e [2]float64
		for _, u := range us {
			d[u.arm] += u.x - 0.4
			e[u.arm] += (u.x - 0.4) * (u.x - 0.4)
		}
		for arm := range 2 {
			require.InDelta(t, d[arm], float64(totals[arm].D-before[arm].D)/(1<<20), 2e-6)
			require.InDelta(t, e[arm], float64(totals[arm].E-before[arm].E)/(1<<20), 2e-6)
		}
	})
}

// TestLargest has a cohort and totals as large as they may be.
func TestLargest(t *testing.T) {
	totals := Totals{{}, {}}
	most := Counts{1 << 32, 1 << 62, 1 << 62}
	for range 1024 {
		totals.Fold([]Counts{most, {N: 1 << 32}})
	}
	require.EqualValues(t, 1<<42, totals[0].N)
	require.EqualValues(t, 1<<62, totals[0].X)
	e := feed(t, Settings{Arms: []Arm{{"a", 0.5}, {"control", 0.5}}})
	l := e.Lift(0, totals)
	require.Equal(t, Better, l.Verdict)
	require.InDelta(t, 1, l.Estimate, 1e-3)
}

// TestMergesInAnyOrder gives units to partitions, which come together in another order: the bounds are the same to the last bit.
func TestMergesInAnyOrder(t *testing.T) {
	e := feed(t, Settings{Arms: []Arm{{"a", 0.5}, {"b", 0.25}, {"control", 0.25}}})
	rapid.Check(t, func(t *rapid.T) {
		parts := make([]Totals, rapid.IntRange(2, 6).Draw(t, "partitions"))
		for p := range parts {
			parts[p] = make(Totals, 3)
			for range rapid.IntRange(0, 3).Draw(t, "cohorts") {
				parts[p].Fold(cohortOf(drawUnits(t, 3, "units"), 3))
			}
		}
		sum := make(Totals, 3)
		for _, p := range parts {
			sum.Add(p)
		}
		other := make(Totals, 3)
		for _, p := range rapid.Permutation(parts).Draw(t, "order") {
			other.Add(p)
		}
		for arm := range 2 {
			require.Equal(t, e.Lift(arm, sum), e.Lift(arm, other))
		}
	})
}

// TestCohorts opens, closes and restores cohorts beside a naive map.
func TestCohorts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c, naive, walked := NewCohorts(2, 60_000), map[int64][2]Counts{}, int64(0)
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			switch rapid.SampledFrom([]string{"add", "add", "add", "close", "set"}).Draw(t, "step") {
			case "add":
				number := c.Number(walked + rapid.Int64Range(0, 3_000_000).Draw(t, "deadline"))
				arm, x := rapid.IntRange(0, 1).Draw(t, "arm"), Of(rapid.Float64Range(-1, 2).Draw(t, "payoff")).Add(Unit)
				c.Add(number, arm, x)
				by := naive[number]
				by[arm] = by[arm].Add(x)
				naive[number] = by
			case "close":
				walked += rapid.Int64Range(0, 400_000).Draw(t, "on")
				last := int64(math.MinInt64)
				for number, by, ok := c.Close(walked); ok; number, by, ok = c.Close(walked) {
					want := naive[number]
					require.Equal(t, want[:], by)
					require.Greater(t, number, last)
					require.LessOrEqual(t, c.Ends(number), walked)
					delete(naive, number)
					last = number
				}
				for number := range naive {
					require.Greater(t, c.Ends(number), walked)
				}
			case "set":
				if number, ok := c.First(); ok {
					stored := append([]Counts{}, c.Get(number)...)
					c.Set(number, nil)
					require.Nil(t, c.Get(number))
					c.Set(number, stored)
				}
			}
			require.Equal(t, len(naive), c.Len())
			for number, by := range naive {
				require.Equal(t, by[:], c.Get(number))
			}
		}
	})
}

func TestCohortsDoNotAllocateInTheLongRun(t *testing.T) {
	c, at := NewCohorts(3, 60_000), int64(0)
	step := func() {
		at += 30_000
		for k := range int64(10) {
			c.Add(c.Number(at+k*60_000), 1, Unit)
		}
		for _, _, ok := c.Close(at); ok; _, _, ok = c.Close(at) {
		}
	}
	for range 100 {
		step()
	}
	require.Zero(t, testing.AllocsPerRun(100, step))
}

func TestWidth(t *testing.T) {
	require.EqualValues(t, 60_000, Width(0))
	require.EqualValues(t, 60_000, Width(256*60_000))
	require.EqualValues(t, 60_001, Width(256*60_000+1))
	require.EqualValues(t, 10_125_000, Width(720*3600*1000))
}

// TestGroups folds a period's groups of several partitions: units are groups, their payoffs means over all partitions.
func TestGroups(t *testing.T) {
	e := feed(t, Settings{ByUser: true, Period: 3_600_000})
	partitions := []Groups{make(Groups, GroupCount), make(Groups, GroupCount)}
	partitions[0].Add(3, Unit)
	partitions[0].Add(3, Of(1))
	partitions[1].Add(3, Unit) // never paid
	partitions[1].Add(700, Unit)
	partitions[1].Add(700, Of(0.25))
	all := make(Groups, GroupCount)
	for _, p := range partitions {
		for k := range p {
			all[k] = all[k].Add(p[k])
		}
	}
	got, want := make(Totals, 2), make(Totals, 2)
	e.Fold(got, 5, all)
	want.Fold(cohortOf([]unit{{e.Arm([]byte("003@5")), 0.5}, {e.Arm([]byte("2bc@5")), 0.25}}, 2))
	require.Equal(t, want, got)
}

func TestNeverRefusesBounds(t *testing.T) {
	e := feed(t, Settings{ByUser: true, Arms: []Arm{{"a", 0.5}, {"control", 0.5}}})
	totals := Totals{{1000, 900 << 20, 400 << 20, 160 << 20}, {1000, 100 << 20, -400 << 20, 160 << 20}}
	l := e.Lift(0, totals)
	require.Equal(t, Refused, l.Verdict)
	require.Equal(t, []float64{-1, 1}, []float64{l.Lower, l.Upper})
	require.InDelta(t, 0.8, l.Estimate, 1e-9)
	require.NotEmpty(t, l.Why)
	require.Equal(t, Better, e.Bounds(0, totals).Verdict)
	require.False(t, l.Trips(0))
}

// TestRefusesOtherShares has a tenth of an arm's units missing.
func TestRefusesOtherShares(t *testing.T) {
	e := feed(t, Settings{Arms: []Arm{{"a", 0.5}, {"control", 0.5}}})
	l := e.Lift(0, Totals{{N: 9_000}, {N: 10_000}})
	require.Equal(t, Refused, l.Verdict)
	require.Contains(t, l.Why, "9000 and 10000 units")
	require.Equal(t, Open, e.Lift(0, Totals{{N: 9_900}, {N: 10_000}}).Verdict)
	require.Equal(t, Lift{Lower: -1, Upper: 1}, e.Lift(0, Totals{{}, {}}), "nothing known")
}
