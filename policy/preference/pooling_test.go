package preference

import (
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/ranker-worker/ranker-worker/policy"
)

// TestPooling_IsOneOrder: once all is published, finders below a global one sort and explore as a finder does that had every selection. They
// have numbers of their own, and some are read whole again.
func TestPooling_IsOneOrder(t *testing.T) {
	social := func() Finder {
		s, err := NewSocial(SocialConfig{Sigma: 1})
		require.NoError(t, err)
		return s
	}
	for name, make := range map[string]func() Finder{"sorted": func() Finder { return NewSorted() }, "social": social} {
		t.Run(name, func(t *testing.T) { rapid.Check(t, func(t *rapid.T) { poolOrders(t, make) }) })
	}
}

// pooledPart is a partition's finder, its stored fields, and its items in the global finder's numbers.
type pooledPart struct {
	Finder
	numbers []policy.Item
	fields  map[string][]byte
	changed []string
}

func (p *pooledPart) number(i policy.Item) policy.Item { return p.numbers[i] }

func (p *pooledPart) translate(i policy.Item) (policy.Item, bool) { return p.numbers[i], true }

func (p *pooledPart) harvest() {
	p.Harvest(func(field, value []byte) {
		p.fields[string(field)] = append([]byte(nil), value...)
		p.changed = append(p.changed, string(field))
	})
}

func poolOrders(t *rapid.T, make func() Finder) {
	const items = 5
	all, global := make(), make()
	all.Grow(items)
	global.BeGlobal(func(i policy.Item) uint64 { return uint64(i) * 0x9e3779b97f4a7c15 })
	global.Grow(20)
	parts := []*pooledPart{}
	for range 3 {
		p := &pooledPart{Finder: make(), fields: map[string][]byte{}}
		for _, i := range rapid.Permutation([]policy.Item{0, 1, 2, 3, 4}).Draw(t, "numbers") {
			p.numbers = append(p.numbers, 17-3*i) // the process has other items, too
		}
		p.Share(global, p.number)
		p.Grow(items)
		p.Loaded()
		parts = append(parts, p)
	}
	local := func(p *pooledPart, i policy.Item) policy.Item { return policy.Item(slices.Index(p.numbers, 17-3*i)) }
	sync := func(p *pooledPart) {
		p.harvest()
		if rapid.IntRange(0, 2).Draw(t, "whole") == 0 {
			read := map[policy.Item]bool{}
			source := int32(slices.Index(parts, p))
			global.BeginResync(source)
			for field, value := range p.fields {
				global.SetSource(source, []byte(field), value, p.translate)
				if i, err := parseItem([]byte(field), math.MaxInt32); err == nil {
					read[p.numbers[i]] = true
				}
			}
			global.EndResync(source, func(i policy.Item) bool { return read[i] })
		} else {
			for _, field := range p.changed {
				global.SetSource(int32(slices.Index(parts, p)), []byte(field), p.fields[field], p.translate)
			}
		}
		p.changed = nil
	}
	for range rapid.IntRange(1, 30).Draw(t, "selections") {
		p := parts[rapid.IntRange(0, 2).Draw(t, "by")]
		shown := rapid.Permutation([]policy.Item{0, 1, 2, 3, 4}).Draw(t, "shown")
		s := Selection{At: rapid.IntRange(0, items-1).Draw(t, "at"), HasUtility: true}
		s.Items = slices.Clone(shown)
		s.Utility = float64(rapid.IntRange(-40, 40).Draw(t, "utility"))/4 + 0.371*float64(shown[s.At]) // no two means are equal
		all.Selected(&s)
		for k, i := range shown {
			s.Items[k] = local(p, i)
		}
		p.Selected(&s)
		if rapid.IntRange(0, 3).Draw(t, "publish") == 0 {
			sync(p)
			global.Commit(items)
			global.Grow(rapid.IntRange(1, 200).Draw(t, "items of the process"))
		}
	}
	for _, p := range parts {
		sync(p)
	}
	global.Commit(items)
	key := policy.Key(rapid.Uint64().Draw(t, "key"))
	candidates := rapid.Permutation([]policy.Item{0, 1, 2, 3, 4}).Draw(t, "candidates")[:rapid.IntRange(1, items).Draw(t, "n")]
	sorted := func(f Finder, candidates []policy.Item) (order, undecided []int32) {
		order = append(order, candidates...)
		undecided = f.Sort(candidates, key, order, nil)
		return order, undecided
	}
	order, undecided := sorted(all, candidates)
	if s, ok := all.(*Sorted); ok && s.varied() { // scores are of few passes, whose result depends on the order of items
		require.True(t, global.(*Sorted).varied())
		return
	}
	for _, p := range parts {
		var ours []policy.Item
		for _, i := range candidates {
			ours = append(ours, local(p, i))
		}
		gotOrder, gotUndecided := sorted(p, ours)
		require.Equal(t, order, gotOrder)
		require.Equal(t, undecided, gotUndecided)
		p.Advance(1 << 40)
		all.Advance(1 << 40)
		require.Equal(t, all.Status().Undecided, p.Status().Undecided)
		if len(undecided) > 0 {
			var first, second [items]int32
			items, shared := pick(candidates, order), pick(ours, gotOrder)
			all.Explore(items, undecided, key, first[:len(items)])
			p.Explore(shared, undecided, key, second[:len(items)])
			if _, ok := all.(*Social); ok || key.Float64(drawKind) >= insertionShare { // which goes by numbers
				require.Equal(t, first, second)
			}
		}
	}
}

func pick(items []policy.Item, order []int32) (picked []policy.Item) {
	for _, at := range order {
		picked = append(picked, items[at])
	}
	return picked
}

// TestPooling_KeepsOneRelation: the finders of partitions have no relation, whose size is the square of the number of items.
func TestPooling_KeepsOneRelation(t *testing.T) {
	global, s := NewSorted(), NewSorted()
	global.BeGlobal(func(i policy.Item) uint64 { return uint64(i) })
	s.Share(global, func(i policy.Item) policy.Item { return i })
	s.Grow(MaxItems)
	s.Loaded()
	s.Selected(&Selection{Items: []policy.Item{0, 1}, At: 1})
	require.Zero(t, s.relation.Len())
}
