package policy

import (
	"testing"

	"github.com/ranker-worker/ranker-worker/internal/test/theoremtest"
)

// instead replaces a policy; check is the check of a statement about it.
type (
	instead = func(Policy) Policy
	check   = theoremtest.Check[instead]
)

func itself(p Policy) Policy { return p }

// deaf ranks as its policy does without payoffs.
type deaf struct {
	Policy
	nothing *Table
}

func (d *deaf) Rank(in *Input, ws *Workspace, dst []int32) {
	d.nothing.Grow(in.Table.Len() - d.nothing.Len())
	without := *in
	without.Table = d.nothing
	d.Policy.Rank(&without, ws, dst)
}

// Each test of a statement sees that a policy learns nothing: one that ranks by utility, and one that hears of no payoff.
func TestStatements_SeeNonLearners(t *testing.T) {
	theoremtest.SeeNonLearners(t, "policy", map[string]instead{
		"utility": func(Policy) Policy { return NewUtility() },
		"deaf":    func(p Policy) Policy { return &deaf{p, NewTable(0)} },
	}, []theoremtest.Test[instead]{
		{Name: "TestTheorem31_InversionIsASampleOfTheDominatedItem", Checks: inversions()},
		{Name: "TestTheorem31_PrintedConstantIsNotABound", Checks: printedConstant()},
		{Name: "TestTheorem31_RegretBoundUnderChangingUtilities", Checks: changingUtilities()},
		{Name: "TestTheorem31_OptimisticInversions", Checks: optimisticInversions()},
		{Name: "TestTheorem32_RegretBound", Checks: fixedUtilities()},
		{Name: "TestTheorem32_RegretIsAsMeasuredElsewhere", Checks: elsewhere()},

		{Name: "TestAlgorithm2_FindPermutationIsTheLiteralOne", Blind: "one ranking from statistics that are given; nothing is fed"},
		{Name: "TestLemma33_BestPermutation", Blind: "about means that are known; no policy ranks"},
		{Name: "TestLemma34_GoodEvent", Blind: "about payoffs and the radius; no policy ranks"},
		{Name: "TestLemma34_PrintedRadiusIsTooSmallForUnitVariance", Blind: "about payoffs and the radius; no policy ranks"},
		{Name: "TestSection41_PaperMixtureIsUniform", Blind: "how to explore, which asks no statistics"},
		{Name: "TestSection41_CouplingIsUniform", Blind: "how to explore, which asks no statistics"},
		{Name: "TestSection41_SelectionsFollowThePropensities", Blind: "rankings from statistics that are given; nothing is fed"},
	})
}
