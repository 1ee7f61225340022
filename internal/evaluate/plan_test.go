package evaluate

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// logged adds rows by a policy with probabilities p of three actions, for a target with probabilities pi. Payoffs are 0 or 1.
func logged(e *estimator, m *means, rng *rand.Rand, rows float64, p, pi []float64) (mean float64) {
	items := []int32{0, 1, 2}
	for range int(rows) {
		x := row{selected: draw(rng, p), logged: p}
		if x.p = p[x.selected]; rng.Float64() < []float64{0.35, 0.45, 0.5}[x.selected] {
			x.payoff = 1
		}
		m.predict(&x, items)
		e.add(&x, pi)
		m.paid(int32(x.selected), x.payoff)
		mean += x.payoff / rows
	}
	return mean
}

// TestPlan: of 600 logs of the planned size, each planned by a log of 300 rows of its own, four of five find that the target is better. Bounds
// are 4.9 standard deviations of a count and 2 % for the noise of plans: a false alarm in a million. Half of the size finds about half.
func TestPlan(t *testing.T) {
	const logs, difference = 600, 0.05
	p, pi := []float64{0.6, 0.3, 0.1}, []float64{0.2, 0.5, 0.3}
	var one, many, half int
	for seed := range uint64(logs) {
		rng := rand.New(rand.NewPCG(seed, 5))
		pilot := newEstimator(math.Inf(1))
		logged(pilot, &means{}, rng, 300, p, pi)
		oneLook, anyLook := pilot.rowsFor(difference)
		require.Greater(t, anyLook, oneLook)
		better := func(rows float64) (one, many bool) {
			e := newEstimator(math.Inf(1))
			mean := logged(e, &means{}, rng, rows, p, pi)
			value, s := e.difference.mean()
			return value > deviations*s, e.lower.bound(alpha) > mean
		}
		if ok, _ := better(oneLook); ok {
			one++
		}
		if ok, _ := better(oneLook / 2); ok {
			half++
		}
		if _, ok := better(anyLook); ok {
			many++
		}
	}
	t.Logf("of %d logs, %d at one look, %d at any look; %d of half the size", logs, one, many, half)
	const sd = 9.8 // of 600 logs
	for _, found := range []int{one, many} {
		require.InDelta(t, 0.8*logs, found, 4.9*sd+0.02*logs)
	}
	require.Less(t, half, logs*7/10)
}

// TestPlan_LaterRows: a plan goes by the later rows of a log. Once its policy hardly ever makes the target's selections, a log must be ten times
// as long as by its first rows, or nothing helps.
func TestPlan_LaterRows(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 6))
	e, m := newEstimator(math.Inf(1)), means{}
	even, pi := []float64{0.4, 0.3, 0.3}, []float64{0, 0, 1}
	logged(e, &m, rng, 1024, even, pi)
	first, _ := e.rowsFor(0.01)
	logged(e, &m, rng, 3000, []float64{0.989, 0.01, 0.001}, pi)
	later, _ := e.rowsFor(0.01)
	require.Greater(t, later, 10*first)
	never, _ := e.rowsFor(1e-9)
	require.Equal(t, math.Inf(1), never)
	x := pace{impressions: 1.25, each: time.Minute, horizon: 24 * time.Hour}
	require.Nil(t, x.log(never))
	require.Equal(t, &PlannedLog{1800, 2.25}, x.log(1440))
	none, _ := newEstimator(math.Inf(1)).rowsFor(0.1)
	require.Equal(t, math.Inf(1), none)
}
