package partition

// arrivals lists items by their process-wide numbers, in the order in which a global learner read changes that one source has published.
//
// At each epoch the source's own machine compares its sums of these items with those read. Its own changes do not show all differences:
// sums may return to their values of the last checkpoint read, before a checkpoint in between arrives.
type arrivals struct {
	items []int32
	lost  int // arrivals dropped from the front of the list
}

// mostArrivals bounds the list. A machine that lags further behind compares all its items.
const mostArrivals = 4096

func (a arrivals) add(process int32) arrivals {
	if oldest := mostArrivals / 2; len(a.items) == mostArrivals {
		a.items = append(a.items[:0], a.items[oldest:]...)
		a.lost += oldest
	}
	a.items = append(a.items, process)
	return a
}

func (a arrivals) ofAll() arrivals { return arrivals{a.items[:0], a.end() + 1} }

func (a arrivals) end() int { return a.lost + len(a.items) }
