package delay

import (
	"github.com/ranker-worker/ranker-worker/delay/history"
	"github.com/ranker-worker/ranker-worker/policy"
)

func (u *contexts) begin(fb *Feedback) {
	if len(fb.X) == u.width {
		u.await(fb, 1)
	}
}

// await adds a selection in flight, or removes it with times -1. One that was never counted changes nothing.
func (u *contexts) await(fb *Feedback, times int64) {
	cell, ok := u.cell(fb.Item, fb.Segment)
	if !ok || len(fb.X) != u.width {
		return
	}
	x := u.vector(fb.X, fb.Item, fb.Began)
	own := u.own.At(cell)
	if times < 0 && own.awaited <= 0 {
		return
	}
	own.await(x, times)
	*u.awaited.At(fb.Item) += times
	if u.global == nil {
		u.pooled.At(u.groupOf(cell)).await(x, times)
	}
	u.cells.Note(cell, 1)
	u.note(cell)
}

// pay feeds a payoff. It returns the payoff rounded to units, and false for one without features, which does not count.
func (u *contexts) pay(fb *Feedback) (payoff float64, fed bool) {
	cell, ok := u.cell(fb.Item, fb.Segment)
	if !ok || len(fb.X) != u.width {
		u.unfed++
		return 0, false
	}
	x := u.vector(fb.X, fb.Item, fb.Began)
	u.await(fb, -1)
	units := history.InUnits(fb.Payoff)
	u.reach(fb.Began)
	own := u.own.At(cell)
	at := own.rows.Count(&u.grid, fb.Began, u.tick, paidSums{})
	own.pay(at, x, units)
	u.linear.in(&u.grid, fb.Began, u.tick, u.dim).Add(x, units)
	if u.global == nil && own.rows[at].Start() >= u.model.Since() {
		u.pooled.At(u.groupOf(cell)).pay(x, units)
		u.model.Total.Add(x, units)
	}
	u.cells.Note(cell, 1)
	u.note(cell)
	u.newData = true
	return float64(units) / history.Units, true
}

// advance fits the model if a fit is due, and looks for a change of effects.
func (u *contexts) advance(t *policy.Table) {
	u.settle(t)
	if !u.newData || u.global != nil {
		return
	}
	u.newData = false
	u.fit(t)
	if u.seek(t) {
		u.turn(t)
		u.fit(t)
	}
}

func (u *contexts) fit(t *policy.Table) {
	due := u.model.Due()
	if !u.model.Fit() {
		return
	}
	u.fits++
	u.unstored = true
	if due && u.regroup(t) {
		u.model.Fit()
	}
}

// know returns the estimates of an impression's candidates.
func (u *contexts) know(t *policy.Table, in *policy.Input) *policy.Known {
	u.settle(t)
	k := &u.known
	u.model.Common(k)
	k.Candidates = k.Candidates[:0]
	within := u.within(in.Context.SegmentOf())
	for at, i := range in.Items {
		x := u.row(in.Context, at, len(in.Items), i)
		path, ok := u.path(i, within)
		open := t.Evidence(i).Open
		if u.groups > 1 && open > 0 {
			if ok {
				open *= u.share(i, u.sumsOf(i*u.groups+within))
			} else {
				open = 0
			}
		}
		mean, weight := u.model.Known(path, x, open)
		k.Candidates = append(k.Candidates, policy.Estimate{Mean: mean, Weight: weight})
	}
	return k
}

// forgotten completes forget: the model drops the item, unless the global learner has it.
func (u *contexts) forgotten(t *policy.Table, i policy.Item) {
	u.settle(t)
	u.eachGroup(i, func(group int32) {
		if at, ok := u.path(i, group%u.groups); ok {
			u.model.Drop(at)
		}
	})
	u.categories.set(i, "")
}

// forget drops an item's sums, of all sources; forgotten completes it. Its contribution to the effects of features stays.
func (u cellsHash) forget(i policy.Item) {
	u.eachCell(i, func(cell int32) {
		own := u.own.Get(cell)
		if len(own.rows) > 0 {
			u.changeLinear(&u.linear.rows, func() { u.forgetRows(own.rows) })
		}
		if !own.none() {
			u.cells.Note(cell, 1)
		}
		u.own.Remove(cell)
		for _, theirs := range u.theirs {
			theirs.cells.Remove(cell)
			theirs.awaited.Remove(i)
		}
	})
	u.eachGroup(i, u.pooled.Remove)
	u.awaited.Remove(i)
	u.newData = true
}

func (u cellsHash) Release(i policy.Item) {
	u.settle(u.table)
	u.awaited.Remove(i)
}

// forgetRows removes a cell's payoffs from our linear sums, but for the differences among them.
func (u *contexts) forgetRows(rows history.Rows[paidSums]) {
	for i := range rows {
		if at, within := u.linear.rows.At(rows[i].Start()); within {
			u.linear.rows[at].Sum.Forget(rows[i].Sum.N, rows[i].Sum.R, rows[i].Sum.S)
			u.linear.note(u.linear.rows[at].Bucket)
		}
	}
}
