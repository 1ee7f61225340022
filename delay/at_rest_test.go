package delay

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ranker-worker/ranker-worker/policy"
)

// An item's own statistics rest in the global learner once that has read them. Those recorded since do not, and all are the partition's own
// again before the global learner reads a store that has gone back.
func TestAtRest(t *testing.T) {
	const source, items = 1, 40
	make := func() *Direct {
		d := NewDirect(policy.NewGreedy(), Silence{Law: SilenceAges, Horizon: 1000})
		d.LearnAttraction(0)
		return d
	}
	global, part := make(), make()
	global.BeGlobal(func(i policy.Item) uint64 { return uint64(i) })
	part.Share(global, source, func(i policy.Item) policy.Item { return i })
	for _, l := range []*Direct{global, part} {
		l.Grow(items)
	}
	require.NoError(t, part.Loaded())
	global.BeginResync(source)
	global.EndResync(source, func(string, policy.Item) bool { return false })
	s := newStore(part)
	pay := func(i policy.Item) {
		fb := Feedback{Ref: 1, Item: i, Payoff: 0.3, Candidates: []policy.Item{i, (i + 1) % items}, Order: []int32{0, 1}}
		part.Selected(fb)
		part.Paid(fb)
	}
	publish := func() {
		part.Harvest(s)
		s.publish(global, source, sameNumber)
		global.Estimate(global.Commit(items))
		part.Refresh(slices.Values(allItems(items)))
	}
	resting := func() (all [3]int) {
		for i := range policy.Item(items) {
			for k, rests := range []bool{part.table.Rests(i), part.attraction.table.Rests(i), part.flights.awaiting.settled.Rests(i)} {
				if rests {
					all[k]++
				}
			}
		}
		return all
	}
	own := func() string {
		return fmt.Sprint(maps.Collect(part.table.AllOwn()), maps.Collect(part.attraction.table.AllOwn()), maps.Collect(part.flights.awaiting.settled.AllOwn()))
	}

	for i := range policy.Item(items) {
		pay(i)
	}
	publish()
	require.Zero(t, resting(), "nobody says that the global learner has read them")
	s.known = true
	pay(3)
	publish() // notes all
	require.Equal(t, [3]int{}, resting(), "all were recorded since the last Known")
	before := own()
	pay(5)
	pay(6)
	publish()
	require.Equal(t, [3]int{items - 2, items - 2, items - 2}, resting(), "5 and 6 have changed")
	require.NotEqual(t, before, own())
	before = own()
	publish()
	require.Equal(t, [3]int{items, items, items}, resting())
	require.Equal(t, before, own())

	global.BeginResync(source)
	for i := range policy.Item(items) {
		global.SetSource(source, i, policy.Sums{})
	}
	global.EndResync(source, func(string, policy.Item) bool { return false })
	require.Zero(t, resting())
	require.Equal(t, before, own(), "a store that has gone back changes nothing here")
	s.known = false
	publish()
	s.known = true
	publish()
	publish()
	require.Equal(t, [3]int{items, items, items}, resting())
	require.Equal(t, before, own())
}
