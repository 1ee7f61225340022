package delay

import (
	"math"

	"github.com/ranker-worker/ranker-worker/policy"
	"github.com/ranker-worker/ranker-worker/policy/features"
	"github.com/ranker-worker/ranker-worker/policy/words"
)

// firstMet is the event time in milliseconds at which an item was first met; 0: not yet. It depends on the log alone.
type firstMet int64

// Add implements policy.Summand: the earlier of both.
func (m firstMet) Add(o firstMet) firstMet {
	if m == 0 || o > 0 && o < m {
		return o
	}
	return m
}

// met holds when this partition first met each item.
type met struct {
	column[firstMet]
	space *features.Space
	holds func(policy.Item) bool // has selections in flight, whose features go by the time
}

func newMet(s *features.Space, holds func(policy.Item) bool) met {
	var totals policy.Totals[firstMet]
	totals.KeepApart() // only our own is read
	return met{space: s, holds: holds, column: newColumn(&totals, format[firstMet]{
		hash:   hashMet,
		append: func(dst []byte, at firstMet) []byte { return words.Append(dst, ' ', int64(at)) },
		read:   func(r *words.Reader) firstMet { return firstMet(r.Int(1, math.MaxInt64)) },
		equal:  same[firstMet],
	})}
}

func (m *met) meet(items []policy.Item, at int64) {
	for _, i := range items {
		if m.Own(i) == 0 {
			m.AddOwn(i, firstMet(max(at, 1)), 1)
		}
	}
}

// merge implements storedHash. Each partition reads its own times alone, so every one takes them over, with additive or without. An item
// with selections in flight keeps its own, or none: their features, which the sums of cells contain, are computed once more as they end.
func (m *met) merge(from storedHash, numbers []policy.Item, _ bool) error {
	f := from.(*met)
	for theirs, i := range numbers {
		if at := f.Own(policy.Item(theirs)); at > 0 && !m.holds(i) {
			m.AddOwn(i, at, 1)
		}
	}
	return nil
}

var hashMet = named("met")
