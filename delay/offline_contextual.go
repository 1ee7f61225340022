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
	u.contexts.merge(max(u.pass, from.pass))
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
