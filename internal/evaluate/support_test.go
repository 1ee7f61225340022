//go:build !race

package evaluate

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ranker-worker/ranker-worker/config"
	"github.com/ranker-worker/ranker-worker/internal/simulate"
	"github.com/ranker-worker/ranker-worker/internal/test/syntheticlog"
)

// TestLog_ItselfInALargeCatalogue: a policy replayed on its own log is not better than itself. Of 600 items many are never selected, and the
// model expects the mean payoff of them, which is more than they are worth. Without that the interval of 1.96 standard errors would exclude 0.
func TestLog_ItselfInALargeCatalogue(t *testing.T) {
	for _, seed := range []uint64{0, 5} {
		c := simulate.Defaults(seed)
		c.Items, c.Candidates, c.Interval, c.MinDelay, c.MaxDelay, c.Horizon = 600, 20, time.Second, time.Second, time.Minute, time.Hour
		c.SelectionDelay, c.Alignment, c.Taste, c.Missing, c.Unselected, c.Late = 2*time.Second, 0.4, 0, 0, 0, 0
		w, err := syntheticlog.New(c, 0, config.Setting{"payoffs", "stochastic"})
		require.NoError(t, err)
		require.NoError(t, w.Play(15_000, seed))
		log, err := w.Journal(context.Background())
		require.NoError(t, err)
		r, err := Log(context.Background(), log, &w.Learner, targets(t, w, "learner:feed"), unit())
		require.NoError(t, err)
		require.NoError(t, log.Close())
		got := &r.Targets[0]
		require.Equal(t, OK, got.Verdict, got.Reasons)
		require.InDelta(t, 0.027, *got.Unsupported, 0.01)
		d := &got.Difference
		require.Positive(t, d.Value-deviations*d.Stderr, "seed %d", seed)
		require.Negative(t, *d.Lower, "seed %d", seed)
		require.Positive(t, *d.Upper, "seed %d", seed)
	}
}
