package partition

import (
	"cmp"
	"slices"

	"github.com/ranker-worker/ranker-worker/policy"
)

const (
	frequentKept  = 32
	frequentHalve = 1 << 13 // after this many additions all counts are halved, so that old ones fade
)

// frequent counts the items that come up most often, in fixed memory: Space-Saving (A. Metwally, D. Agrawal, A. El Abbadi, "Efficient
// computation of frequent and top-k elements in data streams", ICDT 2005). A new item takes the place and the count of the least counted
// one, so counts are too high by that at most.
type frequent struct {
	counts []itemCount // at most frequentKept
	total  int64       // of all additions, halved with the counts
	adds   int
}

type itemCount struct {
	item policy.Item
	n    int64
}

func (f *frequent) add(i policy.Item) {
	if f.adds++; f.adds == frequentHalve {
		f.adds = 0
		f.total /= 2
		for k := range f.counts {
			f.counts[k].n /= 2
		}
	}
	f.total++
	least := 0
	for k := range f.counts {
		if f.counts[k].item == i {
			f.counts[k].n++
			return
		}
		if f.counts[k].n < f.counts[least].n {
			least = k
		}
	}
	if len(f.counts) < frequentKept {
		f.counts = append(f.counts, itemCount{i, 1})
		return
	}
	f.counts[least] = itemCount{i, f.counts[least].n + 1}
}

func (f *frequent) top(n int) []itemCount {
	all := slices.Clone(f.counts)
	slices.SortFunc(all, func(a, b itemCount) int { return cmp.Or(cmp.Compare(b.n, a.n), cmp.Compare(a.item, b.item)) })
	return all[:min(n, len(all))]
}

func (f *frequent) of(i policy.Item) int64 {
	for _, c := range f.counts {
		if c.item == i {
			return c.n
		}
	}
	return 0
}
