package learners_test

import (
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ranker-worker/ranker-worker/config"
	"github.com/ranker-worker/ranker-worker/delay"
	"github.com/ranker-worker/ranker-worker/internal/lab"
	"github.com/ranker-worker/ranker-worker/internal/learners"
	"github.com/ranker-worker/ranker-worker/policy"
)

// another is a value of each setting that is not for all policies, other than its default.
var another = map[string]string{
	"radius": "paper", "prior": "none", "sigma": "0.05", "delta": "1e-30", "max_instances": "3", "loss_index": "rank", "eta": "0.1",
	"windows": "{list: [0.9, 0.1]}",
}

// read reads a learner the way a file is read; idle are the settings of which it is said that they have no effect with the
// policy.
func read(settings ...string) (l *config.Learner, idle map[string]bool, err error) {
	const prefix, says = "learners.feed.", "has no effect with policy"
	cfg, warnings, err := config.Load("table.yaml", []byte("kafka: {brokers: [127.0.0.1:9092], group: table}\n"+
		"redis: {url: 'redis://127.0.0.1:6379'}\nlearners: {feed: {"+strings.Join(settings, ", ")+"}}\n"), nil)
	if err != nil {
		return nil, nil, err
	}
	idle = map[string]bool{}
	for _, w := range warnings {
		if strings.HasPrefix(w.Message, says) {
			idle[strings.TrimPrefix(w.Key, prefix)] = true
		}
	}
	return &cfg.Learners[0], idle, nil
}

// TestTable walks the table of policies, with each delay handling: valid combinations are the same for lint, for simulate and for
// the worker's constructor of learners. A valid one is played, and learns. Each setting has an effect there, or is documented to
// have none.
func TestTable(t *testing.T) {
	for _, k := range policy.Specs {
		require.NotEmpty(t, k.About, k.Name)
		makers := 0
		for _, has := range []bool{k.Rank != nil, k.Explore != nil, k.Oppose != nil, k.Follow != nil} {
			if has {
				makers++
			}
		}
		require.Equal(t, 1, makers, "%s is made in one way", k.Name)
		payoffs, scenario := config.Stochastic, lab.Scenario("lazy")
		if k.IsAdversarial() {
			payoffs, scenario = config.Adversarial, "stationary"
		}
		for _, d := range config.Delays() {
			t.Run(k.Name+" "+string(d), func(t *testing.T) {
				base := []string{"policy: " + k.Name, "delay: " + string(d), "payoffs: " + string(payoffs),
					"on_expiry: {default: 0}"}
				l, _, err := read(base...)
				e := &lab.Experiment{Scenario: scenario, Items: 10, Horizon: 1000, Runs: 1}
				combined, _, _ := lab.Combine(e, &lab.Settings{Policies: []string{k.Name}, Delays: []string{string(d)}})
				together := config.Together(config.Policy(k.Name), d) == nil
				require.Equal(t, together, err == nil, "lint: %v", err)
				require.Equal(t, together, len(combined) == 1, "simulate")
				if !together {
					other := config.DefaultLearner("feed", payoffs)
					other.Policy, other.Delay = config.Policy(k.Name), d
					_, err := learners.New(&other)
					require.Error(t, err)
					return
				}
				t.Parallel()
				_, better := play(t, l, 6000)
				if k.Name != "utility" {
					require.Greater(t, better, 0.05, "the mean payoff of the last quarter is no higher than that of the users' own order")
				}
				const few = 1500
				before, _ := play(t, l, few)
				for key, value := range another {
					changed, idle, err := read(append([]string{key + ": " + value}, base...)...)
					require.NoError(t, err, key)
					after, _ := play(t, changed, few)
					require.Equal(t, idle[key], before == after, "lint says that %s: %s has no effect: %t", key, value, idle[key])
				}
			})
		}
	}
}

// play lets a learner rank, once a second, for users who like best the items that pay least; payoffs come late. It gives a
// fingerprint of all decisions, and the gain of the last quarter's mean payoff over that of the users' own order.
func play(t *testing.T, l *config.Learner, rounds int) (decisions uint64, better float64) {
	t.Helper()
	build, err := learners.New(l)
	require.NoError(t, err)
	const items, shown, late = 8, 6, 7
	learner := build()
	learner.Grow(items)
	rng := rand.New(rand.NewPCG(11, 7))
	hash := fnv.New64a()
	type owed struct {
		at int
		o  delay.Feedback
	}
	var waiting []owed
	var d delay.Decision
	own := 0.0
	for n := range rounds {
		for len(waiting) > 0 && waiting[0].at <= n {
			learner.Paid(waiting[0].o)
			waiting = waiting[1:]
		}
		learner.Advance(int64(n) * 1000)
		candidates := make([]policy.Item, 0, shown) // of increasing utility, which is their number
		for _, i := range rng.Perm(items)[:shown] {
			candidates = append(candidates, policy.Item(i))
		}
		slices.Sort(candidates)
		d = delay.Decision{Order: d.Order[:0], Propensities: d.Propensities[:0], Expected: d.Expected[:0]}
		learner.Decide(candidates, nil, policy.DecisionKey(1, 2, "feed", 0, int64(n)), &d)
		fmt.Fprint(hash, d.Order, d.Propensities, d.Instance)
		window := 1 + rng.IntN(2)
		at := 0
		for k := range min(window, len(d.Order)) {
			if d.Order[k] > d.Order[at] {
				at = k
			}
		}
		fb := delay.Feedback{Ref: int64(n), Began: int64(n) * 1000, Item: candidates[d.Order[at]], Candidates: candidates,
			Order: append([]int32(nil), d.Order...), Instance: d.Instance}
		if len(d.Propensities) > 0 {
			fb.Propensity = d.Propensities[at]
		}
		if len(d.Expected) > 0 {
			fb.Expected, fb.HasExpected = d.Expected[at], true
		}
		learner.Selected(fb)
		mean := func(i policy.Item) float64 { return 0.9 - 0.1*float64(i) }
		fb.Payoff = min(max(mean(fb.Item)+0.2*rng.NormFloat64(), 0), 1)
		waiting = append(waiting, owed{n + 1 + late, fb})
		if n >= rounds*3/4 {
			better += mean(fb.Item) - mean(candidates[shown-1])
			own++
		}
	}
	return hash.Sum64(), better / own
}
