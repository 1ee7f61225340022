//go:build !race

package evaluate

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ranker-worker/ranker-worker/config"
	"github.com/ranker-worker/ranker-worker/internal/test/syntheticlog"
)

// TestLog_LookingFurther: a target is refused if the same item pays more to users who look further, and not otherwise.
func TestLog_LookingFurther(t *testing.T) {
	const reason = "for each place that users look further down"
	for seed := range uint64(2) {
		for _, share := range []float64{0, 3} {
			c := population(seed)
			c.MaxDelay, c.Horizon = 6*time.Hour, 12*time.Hour
			w, err := syntheticlog.New(c, 0, config.Setting{"payoffs", "stochastic"})
			require.NoError(t, err)
			w.Further = share
			require.NoError(t, w.Play(9000, seed))
			log, err := w.Journal(context.Background())
			require.NoError(t, err)
			r := judged(t, w, log, "utility", Logging)
			require.NoError(t, log.Close())
			t.Log(share, r.Targets[0].Reasons)
			require.Equal(t, share > 0, strings.Contains(fmt.Sprint(r.Targets[0].Reasons), reason))
			require.Equal(t, OK, r.Targets[1].Verdict)
		}
	}
}

// TestLog_Itself: the log's policy, played again with its log, is not better than itself, even if windows are wrong.
func TestLog_Itself(t *testing.T) {
	w, log := played(t, population(2), 0, 4000, config.Setting{"payoffs", "stochastic"}, config.Setting{"payoff_horizon", "48h"},
		config.Setting{"windows", "{geometric: 0.5}"})
	got := judged(t, w, log, "moss").Targets[0]
	t.Logf("%+v", got.Difference)
	require.InDelta(t, 0, got.Difference.Value, 0.01, "its standard error is 0.008")
}

// TestLooking: the slope is found again, and a change of payoffs that the ranking follows does not look like one.
func TestLooking(t *testing.T) {
	for _, slope := range []float64{0, 0.02} {
		var l looking
		rng := rand.New(rand.NewPCG(3, 1))
		for k := range 40_000 {
			wave := math.Sin(float64(k) / 5000)
			depth := 3 + 2*rng.Float64() - wave // shown higher while it pays more
			l.add(int32(rng.IntN(5)), rng.IntN(4), 0.5+0.3*wave+slope*depth+0.3*rng.NormFloat64(), depth)
		}
		got, off := l.slope()
		t.Log(slope, got, off)
		require.InDelta(t, slope, got, 0.015)
		require.Equal(t, slope > 0, off > isDeep)
	}
}

// TestCheckDepth_Shadow: a shadow with a tenth of the rows is as wrong as a target with all of them.
func TestCheckDepth_Shadow(t *testing.T) {
	j := judge{learner: &config.Learner{PayoffRange: config.Range{Min: 0, Max: 1}}, judged: 1000}
	rng := rand.New(rand.NewPCG(3, 1))
	for range 40_000 {
		depth := 5 * rng.Float64()
		j.looking.add(0, 0, 0.5+0.02*depth+0.3*rng.NormFloat64(), depth)
	}
	var reasons [][]string
	for _, n := range []float64{1000, 100} {
		var r TargetReport
		j.checkDepth(&player{depths: depths{rows: n, n: n, log: 2 * n, weights: n, target: 4 * n}}, &r)
		reasons = append(reasons, r.Reasons)
	}
	require.Len(t, reasons[0], 1)
	require.Equal(t, reasons[0], reasons[1])
}
