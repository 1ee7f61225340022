//go:build !race

package lab

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// The users estimated from the selections of a run are the true ones, whichever policy ranked for them. The bounds are more than
// five deviations of the estimate, and the seeds fixed.
func TestUserModel(t *testing.T) {
	for _, noise := range []float64{0, 0.1} {
		e := &Experiment{Scenario: "catalog", Items: Scenario("catalog").DefaultItems(), Horizon: 40_000, Runs: 1, Seed: 7, Noise: noise}
		all, _, err := Combine(e, &Settings{Policies: []string{"egreedy", "moss", "utility"}})
		require.NoError(t, err)
		results, err := Run(t.Context(), e, all)
		require.NoError(t, err)
		for _, r := range results {
			x := r.UserModel
			t.Logf("%s, noise %v: %+v", r.Policy, noise, x)
			require.EqualValues(t, e.Horizon, x.Selections)
			if r.Policy == "utility" && noise == 0 {
				continue // the best item stands first: all windows select it, and give no evidence of their length
			}
			require.InDelta(t, noise, x.Noise, 0.02)
			require.InDelta(t, 0.3002, x.Windows[0], 0.05, "P(w) ∝ 0.7^w")
		}
	}
}
