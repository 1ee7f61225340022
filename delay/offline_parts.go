package delay

import "github.com/ranker-worker/ranker-worker/policy"

// Contribution is what one thing adds to the payoff that is expected of a candidate, in payoff ranges.
type Contribution struct {
	Cause   Cause
	Feature string // its name, where Cause is OfFeatures
	Group   string // of hours and days, where Cause is OfCell and the clock is divided
	Adds    float64
}

// partialPayoffs are those of each candidate, by position: the features in their order, and then what is of groups, from the largest down. Those of a
// candidate add up to what is expected of it.
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
