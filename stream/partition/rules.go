package partition

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/ranker-worker/ranker-worker/stream/event"
)

// Cap allows at most Most candidates of a category in the first First places.
type Cap struct {
	Category    string // empty: of each category
	Most, First int
}

// Rules change the order of a ranking after its policy: pins move candidates to their places, and caps move candidates of a category down.
// Pins come first, and count for caps. A pin beyond the end is as far down as other pins leave room. Where no candidate is left that caps
// allow, the policy's order goes on.
//
// A ranking that rules could have changed is marked, whether they did or not: the order that was drawn does not decide which rankings
// count. It has no propensities of the policy's, since these are of rankings without rules.
type Rules struct {
	caps       []Cap
	only       []int32 // by cap: the number of its category, -1 for all
	pinned     []int32 // pinned candidates, the lowest place first
	places     []int32 // by candidate in the record's order: its place, -1 for any
	categories []int32 // likewise: the number of its category, -1 for none
	numbers    map[string]int32
	counts     []int32 // by category and cap: candidates in the cap's places

	from    []int32
	decided []int32
	at      []int32 // by place: position of its pinned candidate in the order, -1 for none
	placed  []bool  // by position in the order
	scratch []int32
	held    []int32 // by candidate: the cap that has moved it down, -1 for none
}

// mostNumbers bounds the categories whose numbers are kept for the next impression.
const mostNumbers = 1024

// Read reads an impression's rules, and returns whether they can change the order of its candidates.
func (r *Rules) Read(imp *event.Impression, caps []Cap) (bear bool) {
	n := len(imp.Candidates)
	r.caps, r.pinned = caps, r.pinned[:0]
	for i := range imp.Candidates {
		if imp.Candidates[i].Pin != 0 {
			r.pinned = append(r.pinned, int32(i))
		}
	}
	if n == 1 || len(r.pinned) == 0 && len(caps) == 0 {
		return false
	}
	slices.SortFunc(r.pinned, func(a, b int32) int { return cmp.Compare(imp.Candidates[b].Pin, imp.Candidates[a].Pin) })
	r.places = filled(r.places, n, -1)
	for k, i := range r.pinned {
		r.places[i] = min(imp.Candidates[i].Pin, int32(n-k)) - 1
	}
	r.categorise(imp)
	for i := range r.categories {
		r.count(i, 0)
	}
	bear = len(r.pinned) > 0
	for at, count := range r.counts {
		most := caps[at%len(caps)].Most
		bear = bear || int(count) > most && n > most
	}
	return bear
}

// categorise numbers the categories of the candidates and of the caps.
func (r *Rules) categorise(imp *event.Impression) {
	if r.numbers == nil || len(r.numbers) > mostNumbers {
		r.numbers = map[string]int32{}
	}
	r.only = r.only[:0]
	for k := range r.caps {
		r.only = append(r.only, numberOf(r.numbers, []byte(r.caps[k].Category)))
	}
	r.categories = filled(r.categories, len(imp.Candidates), -1)
	if len(r.caps) > 0 {
		for i := range imp.Context.Candidates {
			r.categories[i] = numberOf(r.numbers, imp.Context.Candidates[i].Category)
		}
	}
	r.counts = filled(r.counts, len(r.numbers)*len(r.caps), 0)
}

func numberOf(numbers map[string]int32, category []byte) int32 {
	if len(category) == 0 {
		return -1
	}
	n, ok := numbers[string(category)]
	if !ok {
		n = int32(len(numbers))
		numbers[string(category)] = n
	}
	return n
}

// filled returns list with n elements of the given value.
func filled(list []int32, n int, value int32) []int32 {
	list = slices.Grow(list[:0], n)[:n]
	for i := range list {
		list[i] = value
	}
	return list
}

// count counts a candidate at a place, from 0, for the caps that it falls under.
func (r *Rules) count(candidate, place int) {
	if c := r.categories[candidate]; c >= 0 {
		for k := range r.caps {
			if place < r.caps[k].First && (r.only[k] < 0 || r.only[k] == c) {
				r.counts[int(c)*len(r.caps)+k]++
			}
		}
	}
}

// full returns a cap that does not allow a candidate at a place; -1 for none.
func (r *Rules) full(candidate int32, place int) int32 {
	if c := r.categories[candidate]; c >= 0 {
		for k := range r.caps {
			x := &r.caps[k]
			if place < x.First && (r.only[k] < 0 || r.only[k] == c) && int(r.counts[int(c)*len(r.caps)+k]) >= x.Most {
				return int32(k)
			}
		}
	}
	return -1
}

// Show returns, by place, the position in a policy's order of the candidate to be shown there. The order holds
// positions in sorted, a list of candidates as numbered in the record; nil is the record's own list. The result is valid until the next call.
func (r *Rules) Show(order, sorted []int32) (from []int32) {
	n := len(order)
	candidate := func(at int) int32 {
		if sorted == nil {
			return order[at]
		}
		return sorted[order[at]]
	}
	r.counts, r.at, r.held = filled(r.counts, len(r.counts), 0), filled(r.at, n, -1), filled(r.held, n, -1)
	r.placed = slices.Grow(r.placed[:0], n)[:n]
	for at := range order {
		i := candidate(at)
		place := r.places[i]
		if r.placed[at] = place >= 0; place >= 0 {
			r.at[place] = int32(at)
			r.count(int(i), int(place))
		}
	}
	r.from = r.from[:0]
	next := 0
	for place := range order {
		at := int(r.at[place])
		if at < 0 {
			for next < n && r.placed[next] {
				next++
			}
			at = r.allowed(next, place, candidate)
			r.placed[at] = true
			r.count(int(candidate(at)), place)
		}
		r.from = append(r.from, int32(at))
	}
	return r.from
}

// Reorder puts an order, as in Show, into the one shown.
func (r *Rules) Reorder(order, sorted []int32) { move(order, &r.scratch, r.Show(order, sorted)) }

// allowed returns the first position from next on whose candidate caps allow at a place; next if there is none.
func (r *Rules) allowed(next, place int, candidate func(at int) int32) int {
	for at := next; at < len(r.placed); at++ {
		if r.placed[at] {
			continue
		}
		k := r.full(candidate(at), place)
		if k < 0 {
			return at
		}
		r.held[candidate(at)] = k
	}
	return next
}

// Decided returns the inverse of from: by position in the policy's order, the place. It is valid until the next call.
func (r *Rules) Decided(from []int32) []int32 {
	r.decided = filled(r.decided, len(from), 0)
	for place, at := range from {
		r.decided[at] = int32(place)
	}
	return r.decided
}

// Why says which rule kept a candidate, numbered as in the record, from its place in the policy's order in the last call of Show; "" for
// none.
func (r *Rules) Why(candidate int) string {
	switch k := r.held[candidate]; {
	case r.places[candidate] >= 0:
		return fmt.Sprintf("pinned to place %d", r.places[candidate]+1)
	case k < 0:
		return ""
	case r.only[k] < 0:
		return fmt.Sprintf("cap: at most %d of a category in the first %d", r.caps[k].Most, r.caps[k].First)
	default:
		return fmt.Sprintf("cap: at most %d of category %q in the first %d", r.caps[k].Most, r.caps[k].Category, r.caps[k].First)
	}
}

// move puts a list in the order shown; an empty one stays empty.
func move[T any](list []T, scratch *[]T, from []int32) {
	if len(list) == 0 {
		return
	}
	*scratch = append((*scratch)[:0], list...)
	for place, at := range from {
		list[place] = (*scratch)[at]
	}
}
