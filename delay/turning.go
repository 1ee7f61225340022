package delay

import (
	"math"
	"math/bits"
	"slices"

	"github.com/ranker-worker/ranker-worker/delay/inflight"
	"github.com/ranker-worker/ranker-worker/policy"
	"github.com/ranker-worker/ranker-worker/policy/contextual"
)

// reach moves the tick on to a paid selection's start time.
func (u *contexts) reach(began int64) {
	if tick := u.grid.Tick(began); tick > u.tick {
		u.merge(tick)
	}
}

// merge merges our own rows to the buckets of a tick.
func (u *contexts) merge(tick int64) {
	u.tick = tick
	u.changeLinear(&u.linear.rows, func() { u.linear.merge(&u.grid, tick) })
	for cell, c := range u.own.All() {
		if len(c.rows) == 0 {
			continue
		}
		counts := u.global == nil && u.model.Since() != contextual.Always
		before := *c
		if counts {
			before.rows = slices.Clone(c.rows)
		}
		if !c.rows.Merge(&u.grid, tick) {
			continue
		}
		switch u.cells.Note(cell, 1); {
		case counts:
			u.replace(cell, &before, c)
			u.note(cell)
		case u.global != nil:
			u.note(cell)
			u.weigh(u.itemOf(cell))
		}
	}
}

func (u *contexts) sources(do func(cells *policy.Pages[cellRows], linear linearRows)) {
	do(&u.own, u.linear.rows)
	for _, theirs := range u.theirs {
		do(&theirs.cells, theirs.linear)
	}
}

// newest returns the tick of the newest paid selection, of all sources.
func (u *contexts) newest() int64 {
	newest := u.tick
	for _, theirs := range u.theirs {
		if last := len(theirs.linear) - 1; last >= 0 {
			newest = max(newest, u.grid.Tick(theirs.linear[last].Start()))
		}
	}
	return newest
}

// seek searches for a change at a new tick, and returns whether one was found. It chooses the time of maximum likelihood among several.
func (u *contexts) seek(t *policy.Table) bool {
	tick := u.newest()
	if u.begins = inflight.Never; tick <= u.looked || u.model.Fits() == 0 {
		return false
	}
	u.settle(t)
	most, changes := 0.0, u.model.Changes()
	for _, time := range u.cuts(tick) {
		if nats := u.changedSince(changes, time); changes.Decisive(nats) && nats > most {
			most, u.begins = nats, time
		}
	}
	u.looked, u.unstored = tick, true
	return u.begins != inflight.Never
}

// cuts returns the times to compare: beginnings of buckets, fewer of long ago. The first search compares all.
func (u *contexts) cuts(tick int64) (all []int64) {
	step, first := 4*u.grid.Unit(), int64(math.MaxInt64) // first is the time of the first payoff
	u.sources(func(_ *policy.Pages[cellRows], rows linearRows) {
		if len(rows) > 0 {
			first = min(first, max(rows[0].Start(), u.model.Since()))
		}
	})
	u.sources(func(_ *policy.Pages[cellRows], rows linearRows) {
		for i := range rows {
			age := tick - rows[i].Start()
			if rows[i].Start() <= first || rows[i].Start()-first < u.period || age < max(u.settles, u.period) {
				continue
			}
			each := int64(1) << max(0, bits.Len64(uint64(age/step))-2)
			if u.looked == inflight.Never || tick/step%each == 0 {
				all = append(all, rows[i].Start())
			}
		}
	})
	slices.Sort(all)
	return slices.Compact(all)
}

// changedSince returns the evidence, in nats, that payoffs since a time follow another model.
func (u *contexts) changedSince(changes *contextual.Changes, time int64) float64 {
	linear := contextual.NewLinear(u.dim)
	var cells policy.Pages[cellSums]
	u.sources(func(theirs *policy.Pages[cellRows], rows linearRows) {
		eachSince(rows, time, linear.Plus)
		for cell, c := range theirs.All() {
			if last := len(c.rows) - 1; last >= 0 && c.rows[last].Start() >= time {
				sums := c.since(time)
				cells.At(u.groupOf(cell)).add(&sums, 1)
			}
		}
	})
	return changes.Since(linear, func(yield func(*contextual.Recent) bool) {
		for group, c := range cells.All() {
			if c.fed == 0 {
				continue
			}
			at, ok := u.path(group/u.groups, group%u.groups)
			if ok && !yield(&contextual.Recent{At: at, N: float64(c.fed), R: float64(c.r) / contextual.Units, S: c.s}) {
				return
			}
		}
	})
}

// turn drops payoffs before the time that seek found.
func (u *contexts) turn(t *policy.Table) {
	u.model.Begin(u.begins)
	u.turns++
	u.recount(t)
}

// recount sums up all sources' payoffs since the model's start.
func (u *contexts) recount(t *policy.Table) {
	u.model.Total.Clear()
	u.sources(func(_ *policy.Pages[cellRows], rows linearRows) { eachSince(rows, u.model.Since(), u.model.Total.Plus) })
	u.pool()
	u.settle(t)
}

// pool sums up all sources by group, and marks all groups as changed.
func (u *contexts) pool() {
	for group := range u.pooled.All() {
		u.changedGroups.Note(group, 1)
	}
	u.pooled = policy.Pages[cellSums]{}
	u.sources(func(theirs *policy.Pages[cellRows], _ linearRows) {
		for cell, c := range theirs.All() {
			if !c.none() {
				sums := c.since(u.model.Since())
				u.pooled.At(u.groupOf(cell)).add(&sums, 1)
				u.note(cell)
			}
		}
	})
}
