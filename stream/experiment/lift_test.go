package experiment

import (
	"math"
	"math/rand/v2"
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ranker-worker/ranker-worker/policy/confidence"
)

// play is a run of an experiment: units in cohorts, which partitions fold, with payoffs of 1 whose chance drifts, and is by lift higher in
// the arm. look is asked after each cohort.
func play(e *Experiment, seed uint64, lift float64, look func(t Totals)) {
	const cohorts, perCohort, partitions = 100, 200, 3
	random := rand.New(rand.NewPCG(seed, 1))
	chance, parts := 0.4, make([]Totals, partitions)
	for p := range parts {
		parts[p] = make(Totals, len(e.Arms))
	}
	unit := strconv.AppendUint(nil, seed, 10)
	for c := range cohorts {
		by := make([]Counts, len(e.Arms))
		for k := range perCohort {
			// Chances are between 0.05 and 0.75 and wander far within a run.
			chance = min(max(chance+0.003*random.NormFloat64(), 0.05), 0.75)
			arm := e.Arm(strconv.AppendInt(append(unit, '-'), int64(c*perCohort+k), 10))
			p, x := chance, 0.0
			if arm != e.ControlArm() {
				p += lift
			}
			if random.Float64() < p {
				x = 1
			}
			by[arm] = by[arm].Add(Unit(1, 0)).Add(Of(x, 0))
		}
		parts[c%partitions].Fold(by)
		sum := make(Totals, len(e.Arms))
		for _, p := range parts {
			sum.Add(p)
		}
		look(sum)
	}
}

const runs = 400

// mostWrong is how many of the runs may be wrong where each is with a probability of Alpha: more are so once in a million times.
const mostWrong = 44

func TestMostWrong(t *testing.T) {
	// P(X > mostWrong) for X ~ Binomial(runs, Alpha).
	tail, p := 0.0, math.Pow(1-Alpha, runs)
	for k := range runs + 1 {
		if k > mostWrong {
			tail += p
		}
		p *= float64(runs-k) / float64(k+1) * Alpha / (1 - Alpha)
	}
	require.Less(t, tail, 1e-6)
}

// wrongRuns counts runs without a difference in which some look finds one, for each way to look.
func wrongRuns(t *testing.T, differs ...func(e *Experiment, sum Totals) bool) []int {
	e := feed(t, Settings{})
	wrong := make([]int, len(differs))
	for seed := range uint64(runs) {
		is := make([]bool, len(differs))
		play(e, seed, 0, func(sum Totals) {
			for k, differs := range differs {
				is[k] = is[k] || differs(e, sum)
			}
		})
		for k := range is {
			if is[k] {
				wrong[k]++
			}
		}
	}
	t.Logf("%d of %d runs are wrong at some look", wrong, runs)
	return wrong
}

// TestFindsNothing has 400 runs of two arms that are the same. Its false-alarm rate is below 1e-6: see TestMostWrong. An interval of 1.96
// standard errors at each look does not pass.
func TestFindsNothing(t *testing.T) {
	wrong := wrongRuns(t, func(e *Experiment, sum Totals) bool {
		v := e.Lift(e.Index("feed"), sum).Verdict
		return v == Better || v == Worse
	}, func(e *Experiment, sum Totals) bool {
		feed, control := sum[e.Index("feed")], sum[e.ControlArm()]
		a, b := feed.Mean(), control.Mean()
		return math.Abs(a-b) > 1.96*math.Sqrt(a*(1-a)/float64(feed.N)+b*(1-b)/float64(control.N))
	})
	assert.LessOrEqual(t, wrong[0], mostWrong)
	assert.Greater(t, wrong[1], mostWrong)
}

// TestFindsALift has a lift of 0.2. After 20,000 units the bound lies more than ten standard errors of the lift, of 0.011, away from where it
// would miss.
func TestFindsALift(t *testing.T) {
	e := feed(t, Settings{})
	arm := e.Index("feed")
	for seed := range uint64(20) {
		var last Lift
		play(e, seed, 0.2, func(sum Totals) { last = e.Lift(arm, sum) })
		require.Equal(t, Better, last.Verdict, "seed %d: %+v", seed, last)
		require.False(t, last.Trips(0))
		require.InDelta(t, 0.2, last.Estimate, 0.08)
		require.EqualValues(t, 20_000, last.Units)

		play(e, seed, -0.2, func(sum Totals) { last = e.Lift(arm, sum) })
		require.Equal(t, Worse, last.Verdict, "seed %d: %+v", seed, last)
		require.True(t, last.Trips(0.02), "seed %d: %+v", seed, last)
		require.False(t, last.Trips(0.3))
	}
}

// TestBoundsByHand computes bounds as the package's documentation has them.
func TestBoundsByHand(t *testing.T) {
	e := feed(t, Settings{Arms: []Arm{{"a", 0.6}, {"b", 0.2}, {"control", 0.2}}})
	totals := Totals{{N: 600, X: 300 << 20, D: 30 << 20, E: 150 << 20}, {N: 200, X: 100 << 20, E: 50 << 20}, {N: 200, X: 80 << 20, D: -20 << 20, E: 40 << 20}}
	s, v := 30/0.75+20/0.25, 150/0.75/0.75+40/0.25/0.25
	l := e.Lift(0, totals)
	require.EqualValues(t, 800, l.Units)
	require.InDelta(t, s/800, l.Estimate, 1e-12)
	// Two arms are compared: α is 0.05/2, and both sides share it. A unit of the smaller arm weighs most.
	require.Equal(t, confidence.New(Alpha/2, 1/e.rivals[0].control, viewed*(1/e.rivals[0].arm+1/e.rivals[0].control)), e.rivals[0].bound)
	half := e.rivals[0].bound.Bound(v) / 800
	require.InDelta(t, max(-1, s/800-half), l.Lower, 1e-12)
	require.InDelta(t, min(1, s/800+half), l.Upper, 1e-12)
	require.InDelta(t, 0.5, totals[0].Mean(), 1e-12)
}

func BenchmarkLift(b *testing.B) {
	e := feed(b, Settings{})
	var sum Totals
	play(e, 1, 0.1, func(t Totals) { sum = t })
	b.ReportAllocs()
	for b.Loop() {
		e.Lift(1, sum)
	}
}

func TestMean(t *testing.T) {
	require.Equal(t, Interval{0.25, 0.125, 0.375}, mean(2, 1, 8))
	require.Equal(t, Interval{0.25, -1, 1}, mean(2, 100, 8), "no lift is beyond")
}
