package experiment

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestForecast_ComesTrue: of experiments whose lifts are as the prior says, as many end as better, and as worse, as were forecast. This
// holds where arms pay twice as fast, too. Five standard errors are exceeded with a probability of 6e-7. Most forecasts are near 0 or 1.
func TestForecast_ComesTrue(t *testing.T) {
	e := feed(t, Settings{Arms: []Arm{{"feed", 0.5}, {"control", 0.5}}})
	history := HistoryOf(lagHorizon, func(age int64) float64 { return -math.Expm1(-float64(age) / 500) })
	const seed, experiments = 6, 600
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 6))
	for _, speed := range []float64{1, 2} {
		var off, variance [2]float64
		known := 0
		for range experiments {
			lift := min(max(liftPrior*random.NormFloat64(), -0.28), 0.28)
			r := NewRunOff(2, lagHorizon)
			for at := int64(0); at < 2400; at++ {
				arm, chance, mean := random.IntN(2), 0.3, 500.0
				if arm == e.Index("feed") {
					chance, mean = chance+lift, mean/speed
				}
				r.Enter(arm, at, Unit(1, 0))
				if random.Float64() < chance {
					r.Pay(arm, at, at+min(int64(mean*random.ExpFloat64()), lagHorizon), PaidInParts(0, 1, 0, true))
				}
			}
			look := func(end int64) End {
				r.EndUpTo(end)
				totals := NewLagTotals(2)
				totals.Add(r)
				return e.Outlook(e.Index("feed"), totals, history, "").End
			}
			require.Nil(t, look(1000).Forecast, "of the oldest units 86 % have come")
			f := look(2400).Forecast
			if f == nil { // the control is not as late as history says
				continue
			}
			known++
			end := look(2400 + lagHorizon + 100)
			for k, p := range []float64{f.Better, f.Worse} {
				came := 0.0
				if end.Verdict == []Verdict{Better, Worse}[k] {
					came = 1
				}
				off[k], variance[k] = off[k]+came-p, variance[k]+p*(1-p)
			}
		}
		require.Greater(t, known, experiments*9/10)
		for k := range off {
			t.Logf("speed %v: %.1f of %d more than forecast, standard error %.1f", speed, off[k], known, math.Sqrt(variance[k]))
			require.Less(t, math.Abs(off[k]), 5*math.Sqrt(variance[k]))
			require.Less(t, variance[k], 0.08*float64(known), "forecasts say little")
		}
	}
}

// TestForecast_OfEachOther: an arm is as likely better than the control as the control is worse than the arm. Units have covariates, and the
// arms unequal numbers of them.
func TestForecast_OfEachOther(t *testing.T) {
	e := feed(t, Settings{})
	history := HistoryOf(lagHorizon, func(age int64) float64 { return -math.Expm1(-float64(age) / 500) })
	const seed = 7
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 7))
	r := NewRunOff(2, lagHorizon)
	for at := int64(0); at < 3000; at++ {
		arm, z := random.IntN(3)/2, random.Float64() // two of the first to one of the second
		if arm == 1 {
			z = math.Sqrt(z)
		}
		r.Enter(arm, at, Unit(1, z))
		if random.Float64() < 0.8*z+0.04*float64(arm) {
			r.Pay(arm, at, at+min(int64(500*random.ExpFloat64()), lagHorizon), PaidInParts(0, 1, z, true))
		}
	}
	r.EndUpTo(3000)
	totals := NewLagTotals(2)
	totals.Add(r)
	p := e.pairOf(e.Index("feed"), totals)
	s := p.scale(history, 0.5)
	swapped := *p
	for _, x := range []*[2][Lags]float64{&swapped.n, &swapped.z, &swapped.s, &swapped.k, &swapped.x, &swapped.u, &swapped.m} {
		x[0], x[1] = x[1], x[0]
	}
	f, g := p.forecast(history, &s, 0.5), swapped.forecast(history, &s, 0.5)
	require.NotNil(t, f)
	require.Greater(t, max(f.Better, f.Worse), 0.1, "there is something to compare")
	require.Less(t, max(f.Better, f.Worse), 0.9)
	require.InDelta(t, f.Better, g.Worse, 1e-9)
	require.InDelta(t, f.Worse, g.Better, 1e-9)
}
