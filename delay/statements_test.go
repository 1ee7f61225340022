package delay

import (
	"fmt"
	"math"
	"testing"

	"pgregory.net/rapid"

	"github.com/ranker-worker/ranker-worker/internal/test/theoremtest"
	"github.com/ranker-worker/ranker-worker/policy"
)

// instead replaces a learner; check is the check of a statement about it.
type (
	instead = func(Learner) Learner
	check   = theoremtest.Check[instead]
)

func itself(l Learner) Learner { return l }

// byUtility shows the users' own order, whatever its learner would.
type byUtility struct{ Learner }

func (u byUtility) Decide(candidates []policy.Item, about *policy.Context, key policy.Key, d *Decision) {
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
type deaf struct{ Learner }

func (d deaf) Paid(fb Feedback) { d.Expired(fb) }

var nonLearners = map[string]instead{
	"utility": func(l Learner) Learner { return byUtility{l} },
	"deaf":    func(l Learner) Learner { return deaf{l} },
}

// seeded is the first seed of several runs.
type seeded uint64

// mean is the mean over runs, and its standard error.
func (s seeded) mean(runs uint64, run func(seed uint64) float64) (mean, stderr float64) {
	var sum, squares float64
	for k := range runs {
		x := run(uint64(s) + k)
		sum += x
		squares += x * x
	}
	n := float64(runs)
	return sum / n, math.Sqrt(max(0, squares-sum*sum/n) / (n - 1) / n)
}

func below(x, limit float64, what string) error {
	if !(x < limit) {
		return fmt.Errorf("%s: %.4g is not below %.4g", what, x, limit)
	}
	return nil
}

// holdAlways fails t unless the property holds at random examples, and those at which it is checked.
func holdAlways(t *testing.T, property func(instead) func(*rapid.T)) {
	rapid.Check(t, property(itself))
	theoremtest.Holds(t, always(property), itself)
}

// always is the check of a property at 200 random examples, which ends with the first that lacks it.
func always(property func(instead) func(*rapid.T)) []check {
	return []check{{World: "random", Run: func(_ testing.TB, i instead) error {
		example := rapid.Custom(func(t *rapid.T) (err error) {
			defer func() {
				if x := recover(); x != nil && t.Failed() {
					err = fmt.Errorf("%v", x)
				} else if x != nil {
					panic(x)
				}
			}()
			property(i)(t)
			return nil
		})
		for seed := range 200 {
			if err := example.Example(seed); err != nil {
				return fmt.Errorf("seed %d: %w", seed, err)
			}
		}
		return nil
	}}}
}

// Each test of a statement sees that a learner learns nothing: one that ranks by utility, and one that hears of no payoff.
func TestStatements_SeeNonLearners(t *testing.T) {
	theoremtest.SeeNonLearners(t, "delay", nonLearners, []theoremtest.Test[instead]{
		{Name: "TestTheorem42_RegretIsBelowTheBound", Checks: bounded()},
		{Name: "TestAppendixC2_BOLDsRegretIsBelowTheBound", Checks: late()},
		{Name: "TestAppendixC2_BOLDIsItsDefinition", Checks: always(boldIsItsDefinition)},
		{Name: "TestAppendixC2_BOLDWithConstantDelayIsInterleavedRuns", Checks: interleaved()},
		{Name: "TestAppendixC2_QPMDIsItsDefinition", Checks: always(qpmdIsItsDefinition)},
		{Name: "TestAppendixC2_BaseSeesTheUndelayedSequence", Checks: always(baseSeesTheUndelayedSequence)},
		{Name: "TestAppendixC2_DelayAddsAtMostNTauUnderLazyWindows", Checks: additive()},
		{Name: "TestAppendixC2_LinearRegretUnderBlockWindows", Checks: heldUp()},
		{Name: "TestSection41_RegretGrowsAsTheTwoThirdsPower", Checks: twoThirds()},

		{Name: "TestPreferring_AfterTheBurnInDecidesAsWithGivenUtilities",
			Blind: "compares two learners with the same input, for which it holds with any policy"},
	})
}
