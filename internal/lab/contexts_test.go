//go:build !race

package lab

import (
	"context"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ranker-worker/ranker-worker/delay"
	"github.com/ranker-worker/ranker-worker/policy"
)

// audienceRegret is the mean regret of a policy over some runs. The users are the same in all calls. Random numbers are drawn from
// the seed, so that a result is always the same.
func audienceRegret(t *testing.T, s Scenario, policy string, horizon int64, blind bool) float64 {
	e := &Experiment{Scenario: s, Items: s.DefaultItems(), Horizon: horizon, PayoffDelay: s.DefaultPayoffDelay(), Runs: 2, Seed: 1, Blind: blind}
	settings := &Settings{}
	c, _, err := settings.learner(e, policy, "direct", variant{})
	require.NoError(t, err)
	require.Equal(t, !blind, c.Contexts)
	var sum float64
	for run := range e.Runs {
		out, err := play(context.Background(), e, c, run, []int64{horizon}, func(int64) {})
		require.NoError(t, err)
		sum += out.regret[0] / float64(e.Runs)
	}
	return sum
}

// TestContext_Pays: with features that payoffs depend on, regret is a fraction of the regret without.
func TestContext_Pays(t *testing.T) {
	for _, c := range []struct {
		scenario Scenario
		horizon  int64
		most     float64
		part     float64 // of the regret without
	}{{"predicted", 5000, 150, 0.5}, {"personal", 20_000, 800, 0.5}, {"linear", 20_000, 490, 0.5}, {"categories", 20_000, 850, 0.5}, {"segments", 50_000, 2150, 0.7}} {
		contextual, blind := audienceRegret(t, c.scenario, "moss", c.horizon, false), audienceRegret(t, c.scenario, "moss", c.horizon, true)
		t.Logf("%s: %.0f, without context %.0f", c.scenario, contextual, blind)
		require.Less(t, contextual, c.most, "%s", c.scenario)
		require.Less(t, contextual, c.part*blind, "%s", c.scenario)
	}
}

// TestContext_ForgetsWhatHasChanged: features' effects turn or flip, or predictions become outdated. Where all payoffs count,
// regret is 5,470, 5,582 and 1,173.
func TestContext_ForgetsWhatHasChanged(t *testing.T) {
	for s, most := range map[Scenario]float64{"linear-turn": 5050, "linear-flip": 3300, "stale": 1050} {
		contextual := audienceRegret(t, s, "moss", 20_000, false)
		t.Logf("%s: %.0f", s, contextual)
		require.Less(t, contextual, most, "%s", s)
	}
}

// TestContext_LogScaleResolvesALongTail: on even steps most items are one to the learner.
func TestContext_LogScaleResolvesALongTail(t *testing.T) {
	scaled := audienceRegret(t, "long-tail", "moss", 10_000, false)
	views.Log = false
	defer func() { views.Log = true }()
	linear := audienceRegret(t, "long-tail", "moss", 10_000, false)
	t.Logf("log %.0f, linear %.0f", scaled, linear)
	require.Less(t, scaled, 400.0)
	require.Less(t, scaled, 0.4*linear)
}

// TestContext_ThatSaysNothingCostsLittle: features, categories and segments without effect, and predictions that have nothing to do with payoffs.
func TestContext_ThatSaysNothingCostsLittle(t *testing.T) {
	for s, horizon := range map[Scenario]int64{"misled": 10_000, "useless": 20_000} {
		contextual, blind := audienceRegret(t, s, "moss", horizon, false), audienceRegret(t, s, "moss", horizon, true)
		t.Logf("%s: %.0f, without context %.0f", s, contextual, blind)
		require.Less(t, contextual, 1.05*blind, "%s", s)
	}
}

// TestContext_EveryPolicyOfIndicesGains.
func TestContext_EveryPolicyOfIndicesGains(t *testing.T) {
	for _, name := range []string{"optimistic", "thompson", "greedy"} {
		contextual, blind := audienceRegret(t, "predicted", name, 5000, false), audienceRegret(t, "predicted", name, 5000, true)
		t.Logf("%s: %.0f, without context %.0f", name, contextual, blind)
		require.Less(t, contextual, 0.75*blind, name)
	}
}

// TestContext_TheErrorIsBounded compares the estimates of optimistic without a prior, by features alone, with the bound that its
// regret bound rests on. It does so for all candidates at all times, with payoffs late or not, and with windows that grow. It fails
// by chance with a probability of 10⁻⁶ for each of the rows.
func TestContext_TheErrorIsBounded(t *testing.T) {
	const horizon, delta, sigma = 6000, 1e-6, 0.5
	for _, s := range []Scenario{"linear", "linear-blocks"} {
		for _, late := range []int64{0, 100, 1000} {
			e := &Experiment{Scenario: s, Items: 500, Horizon: horizon, PayoffDelay: PayoffDelay{Mean: late}, Runs: 1, Seed: 7}
			settings := &Settings{Prior: "none", Sigma: "0.5"}
			c, _, err := settings.learner(e, "optimistic", "direct", variant{})
			require.NoError(t, err)
			require.True(t, c.Contexts)
			p, err := newPlayer(e, c, 0)
			require.NoError(t, err)
			d := float64(p.world.visitors.space.Dim())
			closest := 0.0
			for at := int64(1); at <= horizon; at++ {
				p.impression(at)
				v := p.world.visitors
				why := p.learner.(delay.Inspector).Explain(p.world.candidates, &v.about, policy.Key(at)).Why
				for k := range why {
					beta := sigma*math.Sqrt(2*math.Log(1/delta)+d*math.Log(1+float64(at))) + 1
					part := math.Abs(why[k].Mean-v.centres[k]) / (beta / math.Sqrt(why[k].Worth))
					require.LessOrEqual(t, part, 1.0, "%s, %d late, impression %d", s, late, at)
					closest = max(closest, part)
				}
			}
			dim := d * math.Log(1+horizon)
			bound := 2*(sigma*math.Sqrt(2*math.Log(1/delta)+dim)+1)*math.Sqrt(4.4*horizon*dim) + float64(late)*dim/math.Ln2
			t.Logf("%s, %d late: regret %.0f, bound %.0f; errors up to %.2f of their bound", s, late, p.regret(), bound, closest)
			require.Less(t, p.regret(), bound)
			require.Less(t, p.regret(), horizon*0.15, "it learns")
		}
	}
}
