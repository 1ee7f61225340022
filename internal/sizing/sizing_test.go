package sizing

import (
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/ranker-worker/ranker-worker/config"
)

// drawWorkload draws one that is valid.
func drawWorkload(t *rapid.T) *Workload {
	horizon := time.Duration(rapid.Int64Range(1, 90*24*3600).Draw(t, "horizon")) * time.Second
	partitions := rapid.IntRange(1, 2000).Draw(t, "partitions")
	w := &Workload{
		Rate: rapid.Float64Range(0.1, 1e6).Draw(t, "rate"), Candidates: rapid.IntRange(1, 100).Draw(t, "candidates"), Items: rapid.IntRange(100, 1e7).Draw(t, "items"),
		IDBytes: rapid.IntRange(1, 100).Draw(t, "id"), ItemBytes: rapid.IntRange(1, 100).Draw(t, "name"),
		Selected: rapid.Float64Range(0, 1).Draw(t, "selected"), Paid: rapid.Float64Range(0, 1).Draw(t, "paid"),
		PaidAfter: time.Duration(rapid.Float64Range(0, 1).Draw(t, "after") * float64(horizon)), PayoffHorizon: horizon,
		SelectionTimeout: time.Duration(rapid.Float64Range(0, 1).Draw(t, "timeout") * float64(horizon)), ParkingTime: time.Hour,
		CheckpointInterval: 100 * time.Millisecond, Partitions: partitions, Workers: rapid.IntRange(1, partitions).Draw(t, "workers"),
		Remember: config.UntilHorizon,
		Learner: Learner{Propensities: rapid.Bool().Draw(t, "propensities"), Ages: rapid.Bool().Draw(t, "ages"), History: rapid.Bool().Draw(t, "history"),
			Pairs: rapid.Bool().Draw(t, "pairs"), Sum: rapid.Bool().Draw(t, "sum")},
	}
	if rapid.Bool().Draw(t, "no selections") {
		w.SelectionTimeout = 0
	}
	if rapid.Bool().Draw(t, "remembers for a time") {
		w.Remember = w.ParkingTime + time.Duration(rapid.Int64Range(0, 90*24*3600).Draw(t, "remember"))*time.Second
	}
	return w
}

// TestIDs_Remembered: with remember: horizon each id is stored from its impression until the payoff deadline and the
// parking time after it. Otherwise an ended one is stored for a while. A pending one is stored for less than
// docs/do/size.md says for the case that all possible selections are made and none is paid.
func TestIDs_Remembered(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := drawWorkload(t)
		require.NoError(t, w.Validate())
		if w.Remember == config.UntilHorizon {
			assert.InEpsilon(t, w.Rate*(w.PayoffHorizon+w.ParkingTime).Seconds(), w.IDs().All(), 1e-9)
			return
		}
		ids := w.IDs()
		assert.InEpsilon(t, w.Rate*w.Remember.Seconds(), ids.Ended, 1e-9)
		if w.SelectionTimeout > 0 {
			pending := w.Rate * (w.SelectionTimeout.Seconds() + w.Selected*w.PayoffHorizon.Seconds())
			assert.LessOrEqual(t, ids.Undecided+ids.Selected, pending*(1+1e-9))
			w.Paid = 0
			ids = w.IDs()
			assert.InEpsilon(t, pending-w.Rate*w.Selected*w.SelectionTimeout.Seconds(), ids.Undecided+ids.Selected, 1e-9)
		}
	})
}

// TestIDs_Played plays impressions one by one, and counts the stored ids.
func TestIDs_Played(t *testing.T) {
	w := Standard()
	w.Rate, w.PayoffHorizon, w.PaidAfter, w.SelectionTimeout, w.ParkingTime, w.Remember = 1, 1000*time.Second, 300*time.Second, 100*time.Second, 50*time.Second, 200*time.Second
	w.Selected, w.Paid = 0.25, 0.5
	var got IDs
	for age := range 2000 { // one of each age, of each kind by its share
		one := func(share float64, selected bool, ends int) {
			switch {
			case age >= ends+200:
			case age >= ends:
				got.Ended += share
			case selected:
				got.Selected += share
			default:
				got.Undecided += share
			}
		}
		one(0.75, false, 100)
		one(0.125, true, 300)
		one(0.125, true, 1000)
	}
	want := w.IDs()
	assert.InDelta(t, want.Undecided, got.Undecided, 1e-9)
	assert.InDelta(t, want.Selected, got.Selected, 1e-9)
	assert.InDelta(t, want.Ended, got.Ended, 1e-9)
}

// TestEstimate_Sane: nothing is negative or no number, more traffic never needs less room, and the report can be written.
func TestEstimate_Sane(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := drawWorkload(t)
		e := NewEstimate(w)
		twice := *w
		twice.Rate *= 2
		more := NewEstimate(&twice)
		sums := func(e *Estimate) []Sum { return []Sum{e.Redis, e.Worker, e.Kafka, e.Commands, e.Cores, e.Server} }
		for i, s := range sums(e) {
			for _, p := range s {
				assert.True(t, p.Amount >= 0 && !math.IsInf(p.Amount, 0), "%s: %v", p.Name, p.Amount)
			}
			if i < 3 { // who has more to do looks at others less often
				assert.GreaterOrEqual(t, sums(more)[i].Total(), s.Total())
			}
		}
		var b strings.Builder
		require.NoError(t, Write(&b, w, e))
	})
}

// TestPackedNumber against the binary digits of the largest number.
func TestPackedNumber(t *testing.T) {
	for _, numbers := range []int{1, 2, 100, 128, 129, 20_000, 3_000_000} {
		assert.InDelta(t, float64(len(strconv.FormatInt(int64(numbers-1), 2)))/8, packedNumber(numbers), 1e-9, numbers)
	}
}

func TestValidate_NamesAllFaults(t *testing.T) {
	err := (&Workload{Rate: -1, Selected: 2, Paid: math.NaN()}).Validate()
	for _, part := range []string{"a rate of -1", "0 candidates", "items", "ids of 0 bytes", "selected from", "NaN of the selections", "payoff horizon", "checkpoint interval", "0 partitions", "0 workers"} {
		assert.ErrorContains(t, err, part)
	}
	assert.NoError(t, Standard().Validate())
}

// TestEntries_Tops: where impressions count for the item on top, the leaders are kept until the selection, if there are selections.
func TestEntries_Tops(t *testing.T) {
	for yaml, want := range map[string]float64{
		"payoffs: stochastic": 2, "payoffs: stochastic, policy: optimistic": 2, "payoffs: stochastic, policy: thompson": 2,
		"payoffs: stochastic, policy: greedy": 2, "payoffs: stochastic, policy: klucb": 2,
		"payoffs: stochastic, delay: qpmd": 0, "payoffs: stochastic, policy: utility": 0,
	} {
		w := workload(t, "{"+yaml+"}")
		with, after, _ := w.entries()
		w.SelectionTimeout = 0
		without, afterToo, _ := w.entries()
		assert.InDelta(t, want, with-without, 1e-9, yaml)
		assert.InDelta(t, after, afterToo, 1e-9, yaml)
	}
}

// TestLevers: a worker's known ids name the setting that keeps most of them.
func TestLevers(t *testing.T) {
	w := Standard()
	w.Selected, w.Paid, w.SelectionTimeout = 0.5, 0.1, time.Minute
	w.PayoffHorizon, w.PaidAfter, w.Remember, w.ParkingTime = 7*24*time.Hour, 24*time.Hour, 24*time.Hour, time.Hour
	lever := func() string {
		require.NoError(t, w.Validate())
		e := NewEstimate(w)
		i := slices.IndexFunc(e.Worker, func(p Part) bool { return p.Name == "known ids" })
		return e.Worker[i].Setting
	}
	require.Greater(t, w.IDs().Selected, w.IDs().Ended)
	require.Equal(t, "payoff_horizon, or more workers", lever())
	w.Remember = 30 * 24 * time.Hour
	require.Equal(t, "join.remember, or more workers", lever())
	w.Selected, w.SelectionTimeout, w.Remember = 0, 2*24*time.Hour, 24*time.Hour
	require.Equal(t, "selection_timeout, or more workers", lever())
}
