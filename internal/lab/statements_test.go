//go:build !race

package lab

import (
	"context"
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ranker-worker/ranker-worker/config"
	"github.com/ranker-worker/ranker-worker/delay"
	"github.com/ranker-worker/ranker-worker/internal/learners"
	"github.com/ranker-worker/ranker-worker/internal/test/theoremtest"
	"github.com/ranker-worker/ranker-worker/policy"
)

// instead replaces a learner; check is the check of a statement about it.
type (
	instead = func(delay.Learner) delay.Learner
	check   = theoremtest.Check[instead]
)

func itself(l delay.Learner) delay.Learner { return l }

// byUtility shows the users' own order, whatever its learner would.
type byUtility struct{ delay.Learner }

func (u byUtility) Decide(candidates []policy.Item, about *policy.Context, key policy.Key, d *delay.Decision) {
	u.Learner.Decide(candidates, nil, key, d)
	for k := range d.Order {
		d.Order[k] = int32(len(candidates) - 1 - k)
	}
	if len(d.Propensities) > 0 {
		clear(d.Propensities)
		d.Propensities[0] = 1
	}
}

// deaf hides all payoffs from a learner: each paid selection has expired for it.
type deaf struct{ delay.Learner }

func (d deaf) Paid(fb delay.Feedback) { d.Expired(fb) }

var nonLearners = map[string]instead{
	"utility": func(l delay.Learner) delay.Learner { return byUtility{l} },
	"deaf":    func(l delay.Learner) delay.Learner { return deaf{l} },
}

// playInstead plays one combination, with changes of its configuration, and with something in its learner's place.
func playInstead(t testing.TB, e *Experiment, s Settings, i instead, changes ...func(*config.Learner)) *Result {
	t.Helper()
	all := combine(t, e, s)
	require.Len(t, all, 1)
	for _, change := range changes {
		change(&all[0].Learner)
	}
	learner, err := learners.New(&all[0].Learner)
	require.NoError(t, err)
	all[0].new = func() delay.Learner { return i(learner()) }
	results, err := Run(context.Background(), e, all)
	require.NoError(t, err)
	return results[0]
}

// belowBound holds the mean of a result's runs, with five standard errors, to its bound.
func belowBound(t testing.TB, r *Result) error {
	require.NotNil(t, r.Bound, r.Label())
	return below(t, r, r.Regret.Mean+5**r.Regret.Stderr, *r.Bound, "bound")
}

// below compares a function of a result's mean with a limit.
func below(t testing.TB, r *Result, x, limit float64, what string) error {
	t.Logf("%s, %s, %s late: regret %.0f ± %.0f, %s %.0f", r.Label(), r.Scenario, r.PayoffDelay, r.Regret.Mean, *r.Regret.Stderr, what, limit)
	if !(x < limit) {
		return fmt.Errorf("a regret of %.0f ± %.0f, %s %.0f", r.Regret.Mean, *r.Regret.Stderr, what, limit)
	}
	return nil
}

// leastLost is the loss of the better of the non-learners in one run.
func leastLost(t testing.TB, e Experiment, s Settings) float64 {
	e.Runs = 1
	world := fmt.Sprintf("%+v %+v", e, s)
	least, known := leastLosses[world]
	if known {
		return least
	}
	least = math.Inf(1)
	for _, i := range nonLearners {
		least = min(least, playInstead(t, &e, s, i).Regret.Mean)
	}
	leastLosses[world] = least
	return least
}

// leastLosses are leastLost's results by world: each is asked for of the learner itself and of each non-learner.
var leastLosses = map[string]float64{}

// learnt is the share of the loss without learning that a learner must stay below.
const learnt = 0.75

// belowNonLearners compares the mean of a result's runs with the loss of the better of the non-learners in the same world.
func belowNonLearners(t testing.TB, r *Result, least float64) error {
	return below(t, r, r.Regret.Mean, learnt*least, fmt.Sprintf("%g of what is lost without learning", learnt))
}

// Each test of a statement sees that a learner learns nothing: one that ranks by utility, and one that hears of no payoff.
func TestStatements_SeeNonLearners(t *testing.T) {
	theoremtest.SeeNonLearners(t, "lab", nonLearners, []theoremtest.Test[instead]{
		{Name: "TestTheorem31_RegretIsBelowTheBoundAtAnyDelay", Checks: changingUtilities()},
		{Name: "TestTheorem32_RegretIsBelowTheBoundAtAnyDelay", Checks: fixedUtilities()},
		{Name: "TestTheorem35_EliminationIsAboveTheLowerBound", Checks: lowerBound()},
		{Name: "TestTheorem42_RegretIsBelowTheBoundAtAnyDelay", Checks: adversarial()},
		{Name: "TestAppendixC2_QPMDsDelayIsAdditive", Checks: additive()},

		{Name: "TestInverseGaps", Blind: "about the formulas of the bounds"},
		{Name: "TestUtilities_RegretAfterTheBurnInIsThatOfGivenOnes",
			Blind: "compares two learners that differ in how they know the order; it holds whatever they learn, and has one of utility"},
	})
}
