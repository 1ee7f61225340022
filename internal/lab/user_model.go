package lab

import "github.com/ranker-worker/ranker-worker/policy/propensity"

// UserModel estimates, from selections alone, users' windows and noise. Off-policy values of other rankings use it.
type UserModel struct {
	Selections int64     `json:"selections"`
	Blocked    int64     `json:"blocked"` // of items behind a better one
	Noise      float64   `json:"noise"`   // share of users who select any item
	Windows    []float64 `json:"windows"` // probabilities of windows 1, 2, …
}

// FewBlocked is the number of blocked selections below which noise is unknown: with rankings against utilities nearly all items lead.
const FewBlocked = 30

// userModelPasses bounds the iterations of an estimate.
const userModelPasses = 200

func newUserModel(s *propensity.Selections, longest int) *UserModel {
	t := &UserModel{}
	t.Selections, t.Blocked = s.Total()
	t.Windows, t.Noise = s.Estimate(longest, userModelPasses)
	return t
}
