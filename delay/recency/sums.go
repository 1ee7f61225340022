package recency

import (
	"math"

	"github.com/ranker-worker/ranker-worker/delay/history"
	"github.com/ranker-worker/ranker-worker/delay/inflight"
	"github.com/ranker-worker/ranker-worker/policy"
)

// Selections are sums over selections that have ended, of one item.
type Selections struct {
	history.Payoffs
	D int64 // Σ 1/max(propensity, 1/1000), in units of 2⁻¹⁰: in how many impressions the item could have been selected
}

const (
	chanceUnits = 1 << 10
	// leastCounted bounds what a rare selection counts as: a propensity that is wrong by much does no more harm.
	leastCounted = 1. / 1000
)

// SelectionOf is a single selection that ended with a normalised payoff, or a default in its place. propensity is that of its item
// in its decision; where that is not known, which is 0, it could have been selected once.
func SelectionOf(payoff, propensity float64) Selections {
	if propensity <= 0 {
		propensity = 1
	}
	return Selections{history.PayoffsOf(payoff), int64(math.Round(chanceUnits / max(propensity, leastCounted)))}
}

// Add implements history.Sums.
func (s Selections) Add(o Selections) Selections {
	return Selections{s.Payoffs.Add(o.Payoffs), s.D + o.D}
}

// Minus implements history.Sums.
func (s Selections) Minus(o Selections) Selections {
	return Selections{s.Payoffs.Minus(o.Payoffs), s.D - o.D}
}

// Bounded implements history.Sums.
func (s Selections) Bounded() Selections {
	for s.N > history.Full {
		s = Selections{history.Payoffs{N: s.N >> 1, R: s.R >> 1, Q: s.Q >> 1}, s.D >> 1}
	}
	return s
}

// Append implements history.Sums.
func (s Selections) Append(dst []byte) []byte { return history.AppendNumbers(dst, s.N, s.R, s.Q, s.D) }

// ParseSelections reads what Append writes of rows of selections; it fails with history.ErrText.
func ParseSelections(text []byte) (history.Rows[Selections], error) {
	return history.Parse(text, func(numbers []int64) (s Selections, ok bool) {
		last := len(numbers) - 1
		s.Payoffs, ok = history.PayoffsFrom(numbers[:max(0, last)])
		if ok {
			s.D = numbers[last]
		}
		return s, ok && s.D >= 0 && s.D <= history.Full*chanceUnits/leastCounted
	})
}

// Item is all that there is of an item: the rows of our own and of others, and what is silent, in blocks that do not overlap, in the
// order of time.
type Item struct {
	Own, Others Rows
	Silent      []Silent
}

// Silent is what awaited selections of an item count as that began in a block: so many payoffs, W, their sum and that of their squares,
// normalised.
type Silent struct {
	inflight.Bucket
	policy.Evidence
}

// Unheard is the same of all items' selections: so many payoffs, N, and what these bring above what was expected, normalised.
type Unheard struct {
	inflight.Bucket
	N, U float64
}

// Residual is what payoffs of all items brought above what was expected of them when they were shown.
type Residual struct {
	N int64 // payoffs
	U int64 // Σ(payoff − expected), in history.Units
}

// ResidualOf is that of a single payoff, both normalised.
func ResidualOf(payoff, expected float64) Residual {
	return Residual{1, history.InUnits(payoff) - history.InUnits(expected)}
}

// Add implements history.Sums.
func (s Residual) Add(o Residual) Residual { return Residual{s.N + o.N, s.U + o.U} }

// Minus implements history.Sums.
func (s Residual) Minus(o Residual) Residual { return Residual{s.N - o.N, s.U - o.U} }

// Bounded implements history.Sums.
func (s Residual) Bounded() Residual {
	for s.N > history.Full {
		s = Residual{s.N >> 1, s.U >> 1}
	}
	return s
}

// Append implements history.Sums.
func (s Residual) Append(dst []byte) []byte { return history.AppendNumbers(dst, s.N, s.U) }

// ParseResiduals reads what Append writes of rows of surprises; it fails with history.ErrText.
func ParseResiduals(text []byte) (history.Rows[Residual], error) {
	return history.Parse(text, func(numbers []int64) (s Residual, ok bool) {
		if len(numbers) != 2 {
			return s, false
		}
		s = Residual{numbers[0], numbers[1]}
		return s, s.N >= 1 && s.N <= history.Full && s.U <= history.Most && s.U >= -history.Most
	})
}
