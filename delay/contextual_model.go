package delay

import (
	"github.com/ranker-worker/ranker-worker/delay/history"
	"github.com/ranker-worker/ranker-worker/policy"
	"github.com/ranker-worker/ranker-worker/policy/contextual"
	"github.com/ranker-worker/ranker-worker/policy/features"
)

// settle sets changed groups in the model.
func (u *contexts) settle(t *policy.Table) {
	for i := range u.stale.All() {
		if u.groups == 1 {
			u.changedGroups.Note(i, 1)
			continue
		}
		u.eachGroup(i, func(group int32) { // the groups' shares of the item's weight in flight change
			if u.sumsOf(group).awaited > 0 || u.differsInGroup(group) {
				u.changedGroups.Note(group, 1)
			}
		})
	}
	u.stale.Clear()
	if u.changedGroups.Len() == 0 {
		return
	}
	u.silent.known = false
	for group := range u.changedGroups.All() {
		u.setGroup(t, group)
	}
	u.changedGroups.Clear()
	u.newData = true
}

func (u *contexts) setGroup(t *policy.Table, group int32) {
	i := group / u.groups
	at, ok := u.path(i, group%u.groups)
	if !ok {
		return
	}
	e, fed := t.Evidence(i), t.Pooled(i)
	share := u.silentShare(i, group%u.groups)
	c := u.sumsOf(group)
	silent := contextual.Silent{W: share * (e.W - float64(fed.N)), R: share * (e.R - fed.R), Q: share * max(0, e.Q-fed.Q), X: u.mean}
	w, r := float64(c.fed)+silent.W, float64(c.r)/history.Units+silent.R
	if w == 0 && r == 0 && !u.model.Has(at[0]) {
		return
	}
	switch {
	case c.awaited > 0 && c.x != nil:
		u.average(c.x, c.awaited)
	case c.fed > 0 && c.s != nil:
		u.average(c.s, c.fed)
	default:
		u.average(nil, 1)
	}
	u.model.Set(at, w, r, c.s, silent)
}

func (u *contexts) average(sum []int64, n int64) {
	clear(u.mean)
	for j, s := range sum {
		u.mean[j] = float64(s) / (float64(n) * features.One)
	}
}

// each returns the weight of one selection in flight in some segments; 1 where none is known.
func (u *contexts) each(segments []int32) float64 {
	var n, w float64
	for _, segment := range segments {
		level := segment % u.levels
		n, w = n+u.silent.n[level], w+u.silent.w[level]
	}
	if n == 0 {
		return 1
	}
	return w / n
}

// silentShare returns one group's part of an item's weight in flight: its number of selections in flight times each, over the sum of
// these. Equal weights would make young hours look worse than they are.
func (u *contexts) silentShare(i policy.Item, within int32) float64 {
	if u.groups == 1 {
		return 1
	}
	s := &u.silent
	if !s.known || s.item != i {
		s.read(i)
		s.item, s.known, s.shares = i, true, s.shares[:0]
		var all float64
		for at := range u.groups {
			silent := float64(max(0, u.sumsOf(i*u.groups+at).awaited)) * u.each(u.members[at])
			s.shares = append(s.shares, silent)
			all += silent
		}
		for at := range s.shares {
			if all > 0 {
				s.shares[at] /= all
			}
		}
	}
	return s.shares[within]
}
