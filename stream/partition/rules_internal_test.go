package partition

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/ranker-worker/ranker-worker/stream/event"
)

// drawRuled draws an impression with pins and categories, and caps.
func drawRuled(t *rapid.T) (imp event.Impression, caps []Cap) {
	n := rapid.IntRange(1, 9).Draw(t, "candidates")
	pins := rapid.Permutation([]int32{1, 2, 3, 4, 5, 7, 9, 12, 40}).Draw(t, "pins")
	for i := range n {
		c := event.Candidate{Item: fmt.Append(nil, i)}
		if rapid.IntRange(0, 3).Draw(t, "pinned") == 0 {
			c.Pin = pins[i]
		}
		imp.Candidates = append(imp.Candidates, c)
		imp.Context.Candidates = append(imp.Context.Candidates, event.CandidateContext{
			Category: []byte(rapid.SampledFrom([]string{"", "ads", "news", "sport"}).Draw(t, "category"))})
	}
	for range rapid.IntRange(0, 3).Draw(t, "caps") {
		first := rapid.IntRange(1, 6).Draw(t, "first")
		caps = append(caps, Cap{rapid.SampledFrom([]string{"", "ads", "news"}).Draw(t, "of"), rapid.IntRange(0, first-1).Draw(t, "most"), first})
	}
	return imp, caps
}

func permutation(t *rapid.T, n int, name string) []int32 {
	all := make([]int32, n)
	for i := range all {
		all[i] = int32(i)
	}
	return rapid.Permutation(all).Draw(t, name)
}

// allows says whether a list of candidates keeps the caps.
func allows(imp *event.Impression, caps []Cap, shown []int32) bool {
	for _, c := range caps {
		seen := map[string]int{}
		for _, i := range shown[:min(c.First, len(shown))] {
			category := string(imp.Context.Candidates[i].Category)
			if seen[category]++; category != "" && (c.Category == "" || c.Category == category) && seen[category] > c.Most {
				return false
			}
		}
	}
	return true
}

// TestRules_Show: pinned candidates stand at their places, and caps hold wherever any order with these pins keeps them. Among the orders that keep
// both, the one shown is the first by the policy's order. Where rules cannot bear on an impression, no order changes.
func TestRules_Show(t *testing.T) {
	var r Rules
	feasible, infeasible, free := 0, 0, 0
	rapid.Check(t, func(t *rapid.T) {
		imp, caps := drawRuled(t)
		n := len(imp.Candidates)
		sorted, order := permutation(t, n, "sorted"), permutation(t, n, "order")
		bear := r.Read(&imp, caps)
		if n == 1 {
			require.False(t, bear)
			return
		}
		if !bear {
			free++
			if len(caps) == 0 {
				return
			}
		}
		from := slices.Clone(r.Show(order, sorted))
		require.ElementsMatch(t, slices.Sorted(slices.Values(from)), slices.Sorted(slices.Values(order)))
		shown := make([]int32, n)
		for place, at := range from {
			shown[place] = sorted[order[at]]
			require.EqualValues(t, place, r.Decided(from)[at])
		}
		if !bear {
			require.IsIncreasing(t, from)
			return
		}
		// The places of pins, the lowest first: as asked, or the lowest that is free.
		pinned := []int32{}
		for i := range imp.Candidates {
			if imp.Candidates[i].Pin > 0 {
				pinned = append(pinned, int32(i))
			}
		}
		slices.SortFunc(pinned, func(a, b int32) int { return int(imp.Candidates[b].Pin - imp.Candidates[a].Pin) })
		at := map[int]int32{}
		for last, i := n, pinned; len(i) > 0; i = i[1:] {
			last = min(last, int(imp.Candidates[i[0]].Pin)-1+1)
			require.Equal(t, i[0], shown[last-1])
			at[last-1] = i[0]
			last--
		}
		best := firstAllowed(&imp, caps, at, func(k int) int32 { return sorted[order[k]] })
		if best == nil {
			infeasible++
			return
		}
		feasible++
		require.Equal(t, best, shown, "pins %v caps %v", at, caps)
	})
	require.Positive(t, min(feasible, infeasible, free))
}

// firstAllowed tries all orders, the policy's first, with the candidates at their fixed places.
func firstAllowed(imp *event.Impression, caps []Cap, fixed map[int]int32, policys func(k int) int32) []int32 {
	n := len(imp.Candidates)
	used := map[int32]bool{}
	for _, i := range fixed {
		used[i] = true
	}
	var shown []int32
	var extend func() bool
	extend = func() bool {
		place := len(shown)
		if place == n {
			return true
		}
		for k := range n {
			i := policys(k)
			if f, ok := fixed[place]; ok {
				i = f
			} else if used[i] {
				continue
			}
			shown = append(shown, i)
			used[i] = true
			if allows(imp, caps, shown) && extend() {
				return true
			}
			shown = shown[:place]
			if _, ok := fixed[place]; ok {
				return false
			}
			delete(used, i)
		}
		return false
	}
	if !extend() {
		return nil
	}
	return shown
}

// TestRules_WhatCannotBeMet: caps go as far as the other candidates last, and then the policy's order goes on.
func TestRules_WhatCannotBeMet(t *testing.T) {
	var imp event.Impression
	for i, category := range []string{"ads", "ads", "ads", "news"} {
		imp.Candidates = append(imp.Candidates, event.Candidate{Item: fmt.Append(nil, i)})
		imp.Context.Candidates = append(imp.Context.Candidates, event.CandidateContext{Category: []byte(category)})
	}
	var r Rules
	require.True(t, r.Read(&imp, []Cap{{"ads", 1, 4}}))
	require.Equal(t, []int32{2, 3, 1, 0}, show(&r, 2, 1, 0, 3), "one ad, the news, and no more that are allowed")
	require.Equal(t, "cap: at most 1 of category \"ads\" in the first 4", r.Why(1))
	require.Empty(t, r.Why(3))
	imp.Candidates[0].Pin, imp.Candidates[1].Pin = 3, 9
	require.True(t, r.Read(&imp, []Cap{{"ads", 1, 4}}))
	require.Equal(t, []int32{3, 2, 0, 1}, show(&r, 2, 0, 1, 3), "pins come first, and count")
	require.Equal(t, "pinned to place 4", r.Why(1))
	require.False(t, r.Read(&event.Impression{Candidates: imp.Candidates[2:]}, []Cap{{"ads", 1, 4}}))
}

// show returns the candidates that rules show, in the record's order of numbers.
func show(r *Rules, order ...int32) (shown []int32) {
	for _, at := range r.Show(order, nil) {
		shown = append(shown, order[at])
	}
	return shown
}
