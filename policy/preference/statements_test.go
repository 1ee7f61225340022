package preference

import (
	"testing"

	"github.com/ranker-worker/ranker-worker/internal/test/theoremtest"
)

// The statements here are about the order of utilities, which is found from selections: payoffs have no part in them. So they
// cannot be checked with learners that ignore payoffs. A new test of a statement is to be named here, or checked with such
// learners.
func TestStatements_AreAboutNoPayoffs(t *testing.T) {
	const why = "the order is found from selections; there are no payoffs"
	theoremtest.SeeNonLearners(t, "preference", nil, []theoremtest.Test[struct{}]{
		{Name: "TestBurnIn_OrderIsTheTrueOne", Blind: why},
		{Name: "TestSocial_OrderIsTheTrueOne", Blind: why},
		{Name: "TestSocial_LooksAtNeighboursOnly", Blind: why},
		{Name: "TestSocial_ItemsLikedAlikeAreNotExploredForEver", Blind: why},
	})
}
