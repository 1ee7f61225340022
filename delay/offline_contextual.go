package delay

import (
	"fmt"
	"math"
	"slices"

	"github.com/ranker-worker/ranker-worker/policy"
	"github.com/ranker-worker/ranker-worker/policy/contextual"
)

func (u cellsHash) merge(other storedHash, numbers []policy.Item, additive bool) error {
	if !additive {
		return nil
	}
	from := other.(cellsHash)
	if u.dim != from.dim || u.segments != from.segments {
		return fmt.Errorf("of %d features and %d segments from %d and %d", u.dim, u.segments, from.dim, from.segments)
	}
	for theirs, i := range numbers {
		for segment := range u.segments {
			cell, ok := from.cell(policy.Item(theirs), segment)
			to, fits := u.cell(i, segment)
			if c := from.own.Get(cell); ok && fits && len(c.rows) > 0 {
				u.addOwn(to, &cellRows{rows: slices.Clone(c.rows)}) // selections in flight come by Carry
				u.cells.Note(to, 1)
			}
		}
	}
	u.newData = true
	return nil
}

func (u categoriesHash) merge(other storedHash, numbers []policy.Item, additive bool) error {
	if !additive || !u.categories.look {
		return nil
	}
	from := other.(categoriesHash)
	for theirs, i := range numbers {
		if name := from.categories.name(policy.Item(theirs)); name != "" && u.categories.of(i) == 0 {
			u.categorise(i, name)
			u.publishCategory(i)
		}
	}
	return nil
}

func (u linearHash) merge(other storedHash, _ []policy.Item, additive bool) error {
	if !additive {
		return nil
	}
	from := other.(linearHash)
	for _, row := range from.linear.rows {
		l := contextual.NewLinear(u.dim)
		l.Plus(row.Sum.Linear)
		row.Sum.Linear = l
		u.changeLinear(&u.linear.rows, func() { u.linear.rows = u.linear.rows.Add(linearRows{row}) })
	}
	for i := range u.linear.rows {
		u.linear.note(u.linear.rows[i].Bucket)
	}
	u.contexts.merge(max(u.tick, from.tick))
	return nil
}

// beliefs returns the variance components at the middle of all features' ranges.
func (u *contexts) beliefs() *policy.Components {
	c := &policy.Components{Sigma: u.model.Deviation(-1), Tau: math.Inf(1)}
	c.Mean, _ = u.model.Coefficient(0)
	for level, cause := range u.causes() {
		if cause == OfItem {
			c.Tau = u.model.Deviation(level)
		}
	}
	return c
}

// Contribution is one cause's share of a candidate's expected payoff, in payoff ranges.
type Contribution struct {
	Cause   Cause   `json:"level"`
	Feature string  `json:"feature,omitempty"` // the feature's name, if Cause is OfFeatures
	Group   string  `json:"group,omitempty"`   // hours and days, if Cause is OfCell and the clock is divided
	Adds    float64 `json:"adds"`
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
