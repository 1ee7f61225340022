package delay

import "github.com/ranker-worker/ranker-worker/policy"

// Contribution is one cause's share of a candidate's expected payoff, in payoff ranges.
type Contribution struct {
	Cause   Cause
	Feature string // the feature's name, if Cause is OfFeatures
	Group   string // hours and days, if Cause is OfCell and the clock is divided
	Adds    float64
}

// parts returns the contributions to each candidate's expected payoff: features in their order, then groups from the largest down.
// A candidate's contributions add up to its expected payoff.
func (u *contexts) parts(candidates []policy.Item, about *policy.Context) [][]Contribution {
	all := make([][]Contribution, len(candidates))
	causes, within := u.causes(), u.within(about.SegmentOf())
	for at, i := range candidates {
		x := u.row(about, at, len(candidates), i)
		path, _ := u.path(i, within)
		ofFeatures, ofLevels := u.model.Parts(path, x)
		for j, adds := range ofFeatures {
			all[at] = append(all[at], Contribution{Cause: OfFeatures, Feature: u.names[j], Adds: adds})
		}
		for level := len(ofLevels) - 1; level >= 0; level-- {
			p := Contribution{Cause: causes[level], Adds: ofLevels[level]}
			if p.Cause == OfCell {
				p.Group = u.groupName(within)
			}
			all[at] = append(all[at], p)
		}
	}
	return all
}

// groupName names the hours and days of a group within its item; "" where the clock is not divided.
func (u *contexts) groupName(within int32) string {
	now := &u.choices[u.chosen]
	return now.Name(within % now.Groups)
}
