package delay

import (
	"weak"

	"github.com/ranker-worker/ranker-worker/policy"
)

// atRest lets own values rest in the global learner, which has read them (policy.Totals.Rest).
type atRest struct {
	values    []resting
	recorded  policy.Changes // items recorded since the last Harvest that was Known
	published policy.Changes // items recorded before, or loaded
	global    *atRest
	source    int32
	// below has, in a global learner, the learner whose values rest here, by source. Learners of several sources set theirs side by side. So
	// wake makes the places, while no learner is in use.
	below map[int32]*weak.Pointer[atRest]
}

// resting are values by item. None of them rests until rest.
type resting interface {
	rest(i policy.Item)
	Wake(woken *policy.Changes)
}

// rest lets published values rest. Of items recorded since, the global learner may not have read the newest ones.
func (r *atRest) rest() {
	place := r.global.below[r.source]
	if place == nil {
		return
	}
	*place = weak.Make(r)
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
	if r.below == nil {
		r.below = map[int32]*weak.Pointer[atRest]{}
	}
	place := r.below[source]
	if place == nil {
		r.below[source] = new(weak.Pointer[atRest])
		return
	}
	l := place.Value()
	if l == nil {
		return
	}
	for i := range l.published.All() {
		l.recorded.Note(i, 1)
	}
	l.published.Clear()
	for _, v := range l.values {
		v.Wake(&l.recorded)
	}
}
