package admissible

import (
	"testing"

	"github.com/ranker-worker/ranker-worker/internal/test/theoremtest"
)

// The statements here are about the set C and rankings drawn from its points: there is no learner that could learn nothing.
// A new test of a statement is to be named here, or checked with learners that learn nothing.
func TestStatements_AreAboutNoLearner(t *testing.T) {
	const set, draw = "about the set C", "about how a point of C is drawn from, whoever chose the point"
	theoremtest.SeeNonLearners(t, "admissible", nil, []theoremtest.Test[struct{}]{
		{Name: "TestSection41_UniformExploration", Blind: set},
		{Name: "TestSection42_EveryRankingIsAdmissible", Blind: set},
		{Name: "TestSection42_ClosedFormIsTheHullOfAllRankings", Blind: set},
		{Name: "TestSection42_OutsideOfC", Blind: set},
		{Name: "TestSection42_ConstraintsC1ToC4", Blind: set},
		{Name: "TestAlgorithm4_IntegralPermutation", Blind: draw},
		{Name: "TestAlgorithm5_FindP", Blind: "about the minimum over C for losses that are given"},
		{Name: "TestSolver_FirstOrderOptimalOverAllRankings", Blind: "about the minimum over C for losses that are given"},
		{Name: "TestTheorem41_Decomposition", Blind: draw},
		{Name: "TestTheorem41_ExactInRationals", Blind: draw},
		{Name: "TestSample_PropensityIsExact", Blind: draw},
		{Name: "TestSample_FrequenciesFollowP", Blind: draw},
	})
}
