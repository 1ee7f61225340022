package lab

import "github.com/ranker-worker/ranker-worker/policy/propensity"

// UserModel is what a log would tell of users who are not asked, by what they selected from which rankings: how far they look, and how many take
// anything that they look at. What the rankings of another policy would have been worth is reckoned with that.
type UserModel struct {
	Selections int64     `json:"selections"`
	Blocked    int64     `json:"blocked"` // of an item below a better one
	Noise      float64   `json:"noise"`   // the share of users who take anything
	Windows    []float64 `json:"windows"` // how likely windows of 1, 2, … are
}

// FewBlocked selections of items below a better one do not tell how much noise there is: where a policy ranks against the users' utilities nearly all
// items lead.
const FewBlocked = 30

// toldPasses bounds what an estimate costs.
const toldPasses = 200

func newTold(s *propensity.Selections, longest int) *UserModel {
	t := &UserModel{}
	t.Selections, t.Blocked = s.Total()
	t.Windows, t.Noise = s.Estimate(longest, toldPasses)
	return t
}
