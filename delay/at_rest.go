package delay

import (
	"slices"
	"sync"
	"weak"

	"github.com/ranker-worker/ranker-worker/policy"
)

// atRest lets own values rest in the global learner, which has read them (policy.Totals.Rest).
type atRest struct {
	values    []resting
	recorded  policy.Changes                   // items recorded since the last Harvest that was Known
	published policy.Changes                   // items recorded before, or loaded
	below     map[int32][]weak.Pointer[atRest] // of a global learner: its partitions' learners, by source
	sharing   sync.Mutex                       // of below: partitions of a process are loaded side by side
}

// resting are values by item. None of them rests until rest.
type resting interface {
	rest(i policy.Item)
	Wake(woken *policy.Changes)
}

// share adds a partition's learner to a global one's.
func (r *atRest) share(global *atRest, source int32) {
	global.sharing.Lock()
	defer global.sharing.Unlock()
	if global.below == nil {
		global.below = map[int32][]weak.Pointer[atRest]{}
	}
	gone := func(l weak.Pointer[atRest]) bool { return l.Value() == nil }
	global.below[source] = append(slices.DeleteFunc(global.below[source], gone), weak.Make(r))
}

// rest lets published values rest. Of items recorded since, the global learner may not have read the newest ones.
func (r *atRest) rest() {
	for i := range r.published.All() {
		if r.recorded.Has(i) {
			continue
		}
		for _, v := range r.values {
			v.rest(i)
		}
	}
	r.published.Clear()
}

// harvested ends a Harvest.
func (r *atRest) harvested(known, shares bool) {
	switch {
	case known:
		r.published, r.recorded = r.recorded, r.published
	case !shares:
		r.recorded.Clear()
	}
}

// wake makes a global learner's partition take back its values. The global one is about to read the partition's store, which may have
// gone back.
func (r *atRest) wake(source int32) {
	r.sharing.Lock()
	defer r.sharing.Unlock()
	for _, l := range r.below[source] {
		l := l.Value()
		if l == nil {
			continue
		}
		for i := range l.published.All() {
			l.recorded.Note(i, 1)
		}
		l.published.Clear()
		for _, v := range l.values {
			v.Wake(&l.recorded)
		}
	}
}

// release frees the memory of a forgotten item.
func (r *atRest) release(i policy.Item) {
	r.published.Release(i)
	r.recorded.Release(i)
}
