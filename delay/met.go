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
}

func newMet(s *features.Space) met {
	var totals policy.Totals[firstMet]
	totals.KeepApart() // only our own is read
	return met{space: s, column: newColumn(&totals, format[firstMet]{
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

// merge implements storedHash. Each partition reads its own times alone, so every one takes them over, with additive or without.
func (m *met) merge(from storedHash, numbers []policy.Item, _ bool) error {
	return m.column.merge(from, numbers, true)
}

const hashMet = "met"
