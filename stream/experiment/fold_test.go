package experiment

import (
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// unit is one with its payoff and its arm.
type unit struct {
	arm  int
	x, z float64 // payoff and covariate
}

func drawUnits(t *rapid.T, arms int, label string) []unit {
	n := rapid.IntRange(0, 200).Draw(t, label)
	us := make([]unit, n)
	for i := range us {
		us[i] = unit{rapid.IntRange(0, arms-1).Draw(t, "arm"), rapid.Float64Range(0, 1).Draw(t, "payoff"), rapid.Float64Range(0, 1).Draw(t, "covariate")}
	}
	if rapid.Bool().Draw(t, "payoffs go by covariates") {
		for i := range us {
			us[i].x = us[i].x/4 + us[i].z*3/4
		}
	}
	return us
}

func cohortOf(us []unit, arms int) []Counts {
	by := make([]Counts, arms)
	for _, u := range us {
		by[u.arm] = by[u.arm].Add(Unit(1, u.z)).Add(Of(u.x, u.z))
	}
	return by
}

// TestFoldsAsUnitByUnit folds cohorts by their sums, and each unit alone: its payoff less that of the line through all units of earlier cohorts.
func TestFoldsAsUnitByUnit(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		arms := rapid.IntRange(2, 4).Draw(t, "arms")
		totals, before := make(Totals, arms), []unit(nil)
		var d, e [4]float64
		for range rapid.IntRange(1, 6).Draw(t, "cohorts") {
			us := drawUnits(t, arms, "units")
			at, slope := naiveLine(before)
			for _, z := range []float64{0, 1} {
				require.True(t, at+slope*z >= -1e-9 && at+slope*z <= 1+1e-9, "%v + %v·z", at, slope)
			}
			totals.Fold(cohortOf(us, arms))
			for _, u := range us {
				off := u.x - at - slope*u.z
				d[u.arm], e[u.arm] = d[u.arm]+off, e[u.arm]+off*off
			}
			before = append(before, us...)
		}
		for arm, s := range totals {
			require.InDelta(t, d[arm], float64(s.D)/perTotal, 1e-3)
			require.InDelta(t, e[arm], float64(s.E)/perTotal, 1e-3)
		}
	})
}

// naiveLine is the line of least squares of payoffs on covariates, turned around their means until it is within [0,1].
func naiveLine(us []unit) (at, slope float64) {
	if len(us) == 0 {
		return 0.5, 0
	}
	n := float64(len(us))
	var x, z, zz, zx float64
	for _, u := range us {
		x, z = x+u.x/n, z+u.z/n
	}
	for _, u := range us {
		zz, zx = zz+(u.z-z)*(u.z-z), zx+(u.z-z)*(u.x-x)
	}
	if len(us) < leastUnits || zz < leastSpread*n {
		return x, 0
	}
	slope = zx / zz
	for x-slope*z < -1e-12 || x-slope*z > 1+1e-12 || x+slope*(1-z) < -1e-12 || x+slope*(1-z) > 1+1e-12 {
		slope *= 0.9999
	}
	return x - slope*z, slope
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
	most := Counts{N: 1 << 32, X: 1 << 62, Q: 1 << 62}
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
				arm, x := rapid.IntRange(0, 1).Draw(t, "arm"), Of(rapid.Float64Range(-1, 2).Draw(t, "payoff"), 0.5).Add(Unit(1, 0.5))
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
			c.Add(c.Number(at+k*60_000), 1, Unit(1, 0))
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

// TestGroups folds a period's groups of several partitions: units are groups, their payoffs means over all partitions, without covariates.
func TestGroups(t *testing.T) {
	e := feed(t, Settings{ByUser: true, Period: 3_600_000, Arms: []Arm{{"feed", 0.5}, {"control", 0.5}}})
	partitions := []Groups{make(Groups, GroupCount), make(Groups, GroupCount)}
	partitions[0].Add(3, Unit(1, 0.25))
	partitions[0].Add(3, Of(1, 0.25))
	partitions[1].Add(3, Unit(1, 0.75)) // never paid
	partitions[1].Add(700, Unit(1, 1))
	partitions[1].Add(700, Of(0.25, 1))
	units := []unit{{e.Arm([]byte("003@5")), 0.5, 0}, {e.Arm([]byte("2bc@5")), 0.25, 0}}
	for k := 800; k < 850; k++ { // of both arms
		partitions[k%2].Add(k, Unit(1, 0.5))
		partitions[k%2].Add(k, Of(0.75, 0.5))
		units = append(units, unit{e.Arm(fmt.Appendf(nil, "%03x@5", k)), 0.75, 0})
	}
	all := make(Groups, GroupCount)
	for _, p := range partitions {
		for k := range p {
			all[k] = all[k].Add(p[k])
		}
	}
	got, want := make(Totals, 2), make(Totals, 2)
	e.Fold(got, 5, all)
	want.Fold(cohortOf(units, 2))
	require.Equal(t, want, got)
}

func TestNeverRefusesBounds(t *testing.T) {
	e := feed(t, Settings{ByUser: true, Arms: []Arm{{"a", 0.5}, {"control", 0.5}}})
	totals := Totals{{N: 1000, X: 900 << 20, D: 400 << 20, E: 160 << 20}, {N: 1000, X: 100 << 20, D: -400 << 20, E: 160 << 20}}
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
