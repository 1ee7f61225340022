package delay

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/ranker-worker/ranker-worker/policy"
)

// A learner that has forgotten items has the knowledge of one that never met them, and stores nothing of them. This holds whatever
// had been paid, awaited or received from other sources before, and wherever it is loaded. How late payoffs are is not kept by
// item: both learners are given that.
func TestForgetting_IsNeverHavingMet(t *testing.T) {
	tried := 0
	for _, k := range kinds() {
		if _, ok := k.make(t).(ItemRemoving); !ok || k.make(t).Needs().Context { // the forgotten items' part in features stays
			continue
		}
		tried++
		t.Run(k.name, func(t *testing.T) { rapid.Check(t, func(t *rapid.T) { testForgetting(t, k) }) })
	}
	require.GreaterOrEqual(t, tried, 8)
}

func testForgetting(t *rapid.T, k kind) {
	const items = 6
	gone := rapid.SliceOfNDistinct(rapid.Int32Range(0, items-1), 1, items-1, rapid.ID[int32]).Draw(t, "gone")
	l, never := k.make(t).(ItemRemoving), k.make(t).(ItemRemoving)
	for _, x := range []Learner{l, never} {
		x.Grow(items)
		require.NoError(t, x.Loaded())
	}
	stored, storedNever := newStore(l), newStore(never)
	never.Count(items - len(gone))
	each := func(i policy.Item, do func(Learner)) {
		do(l)
		if !slices.Contains(gone, i) {
			do(never)
		}
	}
	now, ref := int64(1<<40), int64(0)
	for range rapid.IntRange(0, 40).Draw(t, "selections") {
		ref++
		fb := Feedback{Ref: ref, Item: rapid.Int32Range(0, items-1).Draw(t, "item"), Began: now, Propensity: 0.5}
		each(fb.Item, func(x Learner) { x.Selected(fb) })
		switch rapid.IntRange(0, 4).Draw(t, "what") {
		case 0:
			fb.Payoff = rapid.SampledFrom([]float64{0, 0.25, 1}).Draw(t, "payoff")
			each(fb.Item, func(x Learner) { x.Paid(fb) })
			if slices.Contains(gone, fb.Item) {
				countDelay(never, &fb)
			}
		case 1:
			fb.Defaulted = true
			each(fb.Item, func(x Learner) { x.Paid(fb) })
		case 2:
			each(fb.Item, func(x Learner) { x.Expired(fb) })
		case 3:
			each(fb.Item, func(x Learner) {
				x.SetSource(7, fb.Item, policy.Sums{N: 2, R: 1, Q: 1})
				for _, p := range x.Pooled() {
					if p.Hash == hashFlights {
						x.SetSourceField(7, hashFlights, fmt.Append(nil, fb.Item), []byte("3"), func(i policy.Item) (policy.Item, bool) { return i, true })
					}
				}
			})
		}
		if rapid.IntRange(0, 9).Draw(t, "harvest") == 0 {
			stored.harvest()
			storedNever.harvest()
		}
		if rapid.IntRange(0, 9).Draw(t, "time") == 0 {
			now += lifeHorizon / 8
			l.Advance(now)
			never.Advance(now)
		}
	}
	for k, i := range gone {
		l.Forget(i)
		l.Count(items - k - 1)
	}
	stored.harvest()
	storedNever.harvest()
	for hash, fields := range stored.hashes {
		for field := range fields {
			for _, i := range gone {
				require.False(t, field == fmt.Sprint(i) && slices.ContainsFunc(l.Pooled(), func(p Pooled) bool { return p.ByItem && p.Hash == hash }),
					"%s has %s", hash, field)
			}
		}
	}
	require.Equal(t, never.Status().Fed, l.Status().Fed)
	require.Equal(t, never.Status().Flights, l.Status().Flights)
	for i := range policy.Item(items) {
		require.Equal(t, never.Sums(i), l.Sums(i), "item %d", i)
	}
	later := now + lifeHorizon/4 // and all is calculated again
	l.Advance(later)
	never.Advance(later)
	for i := range policy.Item(items) {
		x, y := l.Evidence(i), never.Evidence(i)
		require.InDelta(t, x.W, y.W, 1e-6, "item %d: %+v, %+v", i, x, y)
		require.InDelta(t, x.R, y.R, 1e-6, "item %d: %+v, %+v", i, x, y)
		require.InDelta(t, x.Open, y.Open, 1e-6, "item %d: %+v, %+v", i, x, y)
	}
}

// countDelay counts in a learner the part of a payoff that is not kept by item.
func countDelay(l ItemRemoving, fb *Feedback) {
	l.PaidForgotten(*fb)
	var a *awaiting
	switch l := l.(type) {
	case *Direct:
		a = l.flights.awaiting
	case *Robust:
		a = l.flights.awaiting
	}
	if a == nil || a.law.InParts {
		return
	}
	side := sideAbove
	if fb.Payoff < a.law.Default {
		side = sideBelow
	}
	a.paid(fb, side, 1)
}
