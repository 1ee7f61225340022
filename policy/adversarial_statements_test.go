package policy_test

import (
	"testing"

	"github.com/ranker-worker/ranker-worker/internal/test/theoremtest"
	"github.com/ranker-worker/ranker-worker/policy"
)

// instead replaces an adversarial policy; check is the check of a statement about it.
type (
	instead = func(policy.Adversarial) policy.Adversarial
	check   = theoremtest.Check[instead]
)

func itself(a policy.Adversarial) policy.Adversarial { return a }

// byUtility has the item of the highest utility selected, whatever was fed.
type byUtility struct{ policy.Adversarial }

func (byUtility) Point(_ *policy.Vector, _ []int32, _, p []float64, _ *policy.AdversarialWorkspace) {
	clear(p)
	p[len(p)-1] = 1
}

// deaf ignores feedback.
type deaf struct{ policy.Adversarial }

func (deaf) Feed(*policy.Vector, []int32, int, float64, float64, []float64, *policy.AdversarialWorkspace) bool {
	return true
}

// Each test of a statement fails for an adversarial policy that does not learn: one that ranks by utility, and one that ignores
// feedback.
func TestStatements_SeeAdversarialNonLearners(t *testing.T) {
	theoremtest.SeeNonLearners(t, "policy_test", map[string]instead{
		"utility": func(a policy.Adversarial) policy.Adversarial { return byUtility{a} },
		"deaf":    func(a policy.Adversarial) policy.Adversarial { return deaf{a} },
	}, []theoremtest.Test[instead]{
		{Name: "TestSection43_LossEstimatesAreUnbiased", Checks: unbiased()},
		{Name: "TestAlgorithm5_TheStepIsTheBregmanProjection", Checks: mirrorSteps()},
	})
}
