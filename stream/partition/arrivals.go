package partition

import "github.com/ranker-worker/ranker-worker/policy"

// arrivals lists items, by the process's numbers, in the order in which a whole read something that one source has published of them.
//
// At each epoch the source's own machine compares its sums of these items with those that the whole has read. Its own changes do not show
// all differences: the sums may come back to those of the checkpoint that was read last before a checkpoint in between arrives.
type arrivals struct {
	items []int32
	lost  int // how many arrived before those
}

// mostArrivals bounds the list. A machine that lags further behind compares all its items.
const mostArrivals = 4096

// add notes that something of an item has arrived.
func (a arrivals) add(process int32) arrivals {
	if oldest := mostArrivals / 2; len(a.items) == mostArrivals {
		a.items = append(a.items[:0], a.items[oldest:]...)
		a.lost += oldest
	}
	a.items = append(a.items, process)
	return a
}

// ofAll notes that something of any item may have arrived.
func (a arrivals) ofAll() arrivals { return arrivals{a.items[:0], a.end() + 1} }

// end is the number of arrivals so far.
func (a arrivals) end() int { return a.lost + len(a.items) }

// refresh makes a learner go over to the present state of the whole that it is part of.
func (k *PooledState) refresh(l *learner, partition int32) {
	a, before := k.wholes[l.name].arrivals[partition], l.arrived
	l.arrived = a.end()
	if before < a.lost {
		l.sharing.Refresh(l.items.all())
		return
	}
	l.sharing.Refresh(func(yield func(policy.Item) bool) {
		for _, process := range a.items[before-a.lost:] {
			if i, ours := l.items.number(process); ours && !yield(i) {
				return
			}
		}
	})
}
