package delay

import (
	"maps"
	"math"
	"slices"

	"github.com/ranker-worker/ranker-worker/policy"
)

// instance is one BASE instance. One without outstanding decisions and payoffs is not stored.
type instance struct {
	number      int32
	outstanding int32 // decisions whose impression has not ended
	at          int32 // index in the heap; -1 outside it
	vectors     []vector

	noted  bool  // it is in pool.changed
	stored int32 // outstanding at the last harvest
}

// vector holds an instance's losses for one list length; length 0 with LossByItem.
type vector struct {
	policy.Vector
	length int32
	stored int64 // rounds at the last harvest
}

// vector returns the instance's vector; nil if it has none.
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

// blank returns whether the instance has neither losses nor outstanding decisions.
func (i *instance) blank() bool {
	for k := range i.vectors {
		if i.vectors[k].Rounds() > 0 {
			return false
		}
	}
	return i.outstanding == 0
}

// pool holds BOLD's instances, of which 0..limit-1 may be chosen. Those below next are in a heap with the fewest outstanding
// decisions on top (lowest number first), so that choosing and freeing take O(log n).
//
// Adopted or loaded instances from next on are in beside, as are those above a limit that was lowered. The latter are dropped once
// they wait for nothing.
type pool struct {
	limit  int32
	next   int32
	list   []*instance // by number, below next
	heap   []*instance
	beside map[int32]*instance

	changed []*instance // in order of their first change
}

func newPool(limit int) pool {
	if limit <= 0 || limit > math.MaxInt32 {
		limit = math.MaxInt32
	}
	return pool{limit: int32(limit), beside: map[int32]*instance{}}
}

// get returns an instance by number, or nil.
func (p *pool) get(number int32) *instance {
	if number < 0 {
		return nil
	}
	if number < p.next {
		return p.list[number]
	}
	return p.beside[number]
}

// make returns an instance by number, not negative, and makes it if needed.
func (p *pool) make(number int32) *instance {
	i := p.get(number)
	if i == nil {
		i = &instance{number: number, at: -1}
		p.beside[number] = i
	}
	return i
}

// all returns the instances by ascending number.
func (p *pool) all() []*instance {
	all := slices.Clone(p.list)
	for _, number := range slices.Sorted(maps.Keys(p.beside)) {
		all = append(all, p.beside[number])
	}
	return all
}

// choose returns the instance for the next impression: the lowest-numbered free one, else the one with the fewest outstanding decisions.
func (p *pool) choose() *instance {
	for p.next < p.limit && (p.next == 0 || p.heap[0].outstanding > 0) {
		p.enlist(p.next)
	}
	return p.heap[0]
}

func (p *pool) enlist(number int32) {
	i := p.make(number)
	delete(p.beside, number)
	p.list = append(p.list, i)
	p.next++
	i.at = int32(len(p.heap))
	p.heap = append(p.heap, i)
	p.rise(i)
}

// settle ends loading: it moves consecutive instances to the heap, and drops free ones above the limit.
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

func (p *pool) occupy(i *instance) {
	i.outstanding++
	p.note(i)
	if i.at >= 0 {
		p.sink(i)
	}
}

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

func (p *pool) forget(i *instance) {
	for k := range i.vectors {
		i.vectors[k].Forget()
		i.vectors[k].SetRounds(0)
	}
	p.note(i)
}

// harvested removes an instance from the changed ones. A blank one in beside is deleted.
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

func lessBusy(a, b *instance) bool {
	if a.outstanding != b.outstanding {
		return a.outstanding < b.outstanding
	}
	return a.number < b.number
}

func (p *pool) rise(i *instance) {
	for i.at > 0 {
		above := (i.at - 1) / 2
		if !lessBusy(i, p.heap[above]) {
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
		if right := below + 1; int(right) < len(p.heap) && lessBusy(p.heap[right], p.heap[below]) {
			below = right
		}
		if !lessBusy(p.heap[below], i) {
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
