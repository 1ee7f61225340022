package delay

import (
	"fmt"
	"math"

	"github.com/ranker-worker/ranker-worker/policy"
)

// takeOver adds what another learner knows.
func (u *users) takeOver(from *users, numbers []policy.Item) error {
	if u.dim != from.dim || u.segments != from.segments {
		return fmt.Errorf("%w: of %d features and %d segments from %d and %d", ErrMerge, u.dim, u.segments, from.dim, from.segments)
	}
	for theirs, i := range numbers {
		if at := from.met.at.Get(policy.Item(theirs)); at > 0 && i >= 0 {
			u.met.takeOver(i, at)
		}
		for segment := range u.segments {
			cell, ok := from.cell(policy.Item(theirs), segment)
			to, fits := u.cell(i, segment)
			if c := from.own.Get(cell); ok && fits && c.fed > 0 {
				c.awaited, c.x = 0, nil // they are carried
				u.addOwn(to, &c)
				u.cells.Note(to, 1)
			}
		}
		if name := from.kinds.name(policy.Item(theirs)); name != "" && u.kinds.look && u.kinds.of(i) == 0 {
			u.categorise(i, name)
			u.publishKind(i)
		}
	}
	u.linear.Plus(from.linear)
	u.model.Total.Plus(from.linear)
	u.moved, u.told = true, true
	return nil
}

// beliefs are what payoffs are believed to be like, at the middle of all features' ranges.
func (u *users) beliefs() *policy.Components {
	c := &policy.Components{Sigma: u.model.Deviation(-1), Tau: math.Inf(1)}
	c.Mean, _ = u.model.Coefficient(0)
	for level, cause := range u.causes() {
		if cause == OfItem {
			c.Tau = u.model.Deviation(level)
		}
	}
	return c
}
