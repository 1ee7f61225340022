package delay

import (
	"maps"
	"math"
	"slices"

	"github.com/ranker-worker/ranker-worker/policy"
)

// instance is one BASE instance. One that waits for nothing and was never fed is as good as none.
type instance struct {
	number      int32
	outstanding int32 // decisions whose impression has not ended
	at          int32 // in the heap; -1 while it is not among those to choose from
	vectors     []vector

	noted  bool  // among the changed
	stored int32 // outstanding, as it was harvested last
}

// vector is what an instance knows for one list length, or, where losses belong to items, for all (length 0).
type vector struct {
	policy.Vector
	length int32
	stored int64 // rounds, as they were harvested last
}

// vector finds the instance's vector; nil where it knows nothing.
func (i *instance) vector(length int32) *vector {
	if at, found := i.find(length); found {
		return &i.vectors[at]
	}
	return nil
}

func (i *instance) makeVector(length int32) *vector {
	at, found := i.find(length)
	if !found {
		i.vectors = slices.Insert(i.vectors, at, vector{length: length})
	}
	return &i.vectors[at]
}

func (i *instance) find(length int32) (at int, found bool) {
	return slices.BinarySearchFunc(i.vectors, length, func(v vector, length int32) int { return int(v.length - length) })
}

// blank tells whether the instance knows nothing and waits for nothing.
func (i *instance) blank() bool {
	for k := range i.vectors {
		if i.vectors[k].Rounds() > 0 {
			return false
		}
	}
	return i.outstanding == 0
}

// pool is BOLD's list of instances: 0..limit-1 may be chosen. Those below next are in a heap, the one with the fewest
// outstanding decisions on top, of several the lowest-numbered. So finding the instance for an impression, and freeing
// it, takes O(log n) steps for n instances made so far, whether they are ten or a hundred thousand.
//
// Instances from next on have not been needed yet, but some may be known, adopted or loaded: those are beside, under
// their number, as are those above a limit that was lowered. The latter are forgotten as soon as they wait for nothing.
type pool struct {
	limit  int32
	next   int32
	list   []*instance // by number, below next
	heap   []*instance
	beside map[int32]*instance

	changed []*instance // in the order in which they first did
}

func newPool(limit int) pool {
	if limit <= 0 || limit > math.MaxInt32 {
		limit = math.MaxInt32
	}
	return pool{limit: int32(limit), beside: map[int32]*instance{}}
}

// get finds an instance by its number; nil where nothing is known of it.
func (p *pool) get(number int32) *instance {
	if number < 0 {
		return nil
	}
	if number < p.next {
		return p.list[number]
	}
	return p.beside[number]
}

// make finds or makes an instance, by its number, which is not negative.
func (p *pool) make(number int32) *instance {
	i := p.get(number)
	if i == nil {
		i = &instance{number: number, at: -1}
		p.beside[number] = i
	}
	return i
}

// choose is the instance for the next impression: the lowest-numbered that waits for nothing, known or not, else the
// one with the fewest outstanding.
func (p *pool) choose() *instance {
	for p.next < p.limit && (p.next == 0 || p.heap[0].outstanding > 0) {
		p.enlist(p.next)
	}
	return p.heap[0]
}

// enlist takes the next instance into the heap.
func (p *pool) enlist(number int32) {
	i := p.make(number)
	delete(p.beside, number)
	p.list = append(p.list, i)
	p.next++
	i.at = int32(len(p.heap))
	p.heap = append(p.heap, i)
	p.rise(i)
}

// settle ends loading: what follows on is enlisted, and what is above the limit and waits for nothing is forgotten.
func (p *pool) settle() {
	for p.next < p.limit && p.beside[p.next] != nil {
		p.enlist(p.next)
	}
	for _, number := range slices.Sorted(maps.Keys(p.beside)) {
		if i := p.beside[number]; number >= p.limit && i.outstanding == 0 {
			p.forget(i)
		}
	}
}

// occupy notes one more outstanding decision.
func (p *pool) occupy(i *instance) {
	i.outstanding++
	p.note(i)
	if i.at >= 0 {
		p.sink(i)
	}
}

// free notes that one has ended.
func (p *pool) free(i *instance) {
	i.outstanding--
	p.note(i)
	switch {
	case i.at >= 0:
		p.rise(i)
	case i.outstanding == 0 && i.number >= p.limit:
		p.forget(i)
	}
}

// forget drops what an instance knows.
func (p *pool) forget(i *instance) {
	for k := range i.vectors {
		i.vectors[k].Forget()
		i.vectors[k].SetRounds(0)
	}
	p.note(i)
}

// harvested ends that an instance is among the changed. One beside that is as good as none goes.
func (p *pool) harvested(i *instance) {
	i.noted = false
	if i.at < 0 && i.blank() {
		delete(p.beside, i.number)
	}
}

func (p *pool) note(i *instance) {
	if !i.noted {
		i.noted = true
		p.changed = append(p.changed, i)
	}
}

// before is the heap's order.
func before(a, b *instance) bool {
	if a.outstanding != b.outstanding {
		return a.outstanding < b.outstanding
	}
	return a.number < b.number
}

func (p *pool) rise(i *instance) {
	for i.at > 0 {
		above := (i.at - 1) / 2
		if !before(i, p.heap[above]) {
			return
		}
		p.swap(i.at, above)
	}
}

func (p *pool) sink(i *instance) {
	for {
		below := 2*i.at + 1
		if int(below) >= len(p.heap) {
			return
		}
		if right := below + 1; int(right) < len(p.heap) && before(p.heap[right], p.heap[below]) {
			below = right
		}
		if !before(p.heap[below], i) {
			return
		}
		p.swap(i.at, below)
	}
}

func (p *pool) swap(a, b int32) {
	h := p.heap
	h[a], h[b] = h[b], h[a]
	h[a].at, h[b].at = a, b
}
