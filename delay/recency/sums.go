package recency

import (
	"math"

	"github.com/ranker-worker/ranker-worker/delay/history"
	"github.com/ranker-worker/ranker-worker/delay/inflight"
	"github.com/ranker-worker/ranker-worker/policy"
	"github.com/ranker-worker/ranker-worker/policy/words"
)

// Selections are sums over an item's ended selections.
type Selections struct {
	history.Payoffs
	D int64 // Σ 1/max(propensity, 1/1000) in units of 2⁻¹⁰: impressions in which the item could have been selected
}

const (
	chanceUnits = 1 << 10
	// leastCounted bounds the weight of a rare selection, against faulty propensities.
	leastCounted = 1. / 1000
)

// SelectionOf returns one selection: its normalised payoff or default, and its item's propensity; 0 for unknown counts as 1.
func SelectionOf(payoff, propensity float64) Selections {
	if propensity <= 0 {
		propensity = 1
	}
	return Selections{history.PayoffsOf(payoff), int64(math.Round(chanceUnits / max(propensity, leastCounted)))}
}

func (s Selections) Add(o Selections) Selections {
	return Selections{s.Payoffs.Add(o.Payoffs), s.D + o.D}
}

func (s Selections) Minus(o Selections) Selections {
	return Selections{s.Payoffs.Minus(o.Payoffs), s.D - o.D}
}

func (s Selections) Bounded() Selections {
	for s.N > history.Full {
		s = Selections{history.Payoffs{N: s.N >> 1, R: s.R >> 1, Q: s.Q >> 1}, s.D >> 1}
	}
	return s
}

func (s Selections) Append(dst []byte) []byte { return history.AppendNumbers(dst, s.N, s.R, s.Q, s.D) }

// ReadSelections reads rows that Append wrote.
func ReadSelections(r *words.Reader) Rows {
	return history.Read(r, func(r *words.Reader) Selections {
		return Selections{history.ReadPayoffs(r), r.Int(0, history.Full*chanceUnits/leastCounted)}
	})
}

// Item holds an item's rows, and its selections in flight in disjoint buckets in the order of time, both of all sources.
type Item struct {
	Rows   Rows
	Silent []Silent
}

// Silent is the weight of an item's selections in flight that began in a bucket: number W, sum and sum of squares of normalised payoffs.
type Silent struct {
	inflight.Bucket
	policy.Evidence
}

// FlightResidual is the same for all items: N payoffs, and the sum U of their residuals, normalised.
type FlightResidual struct {
	inflight.Bucket
	N, U float64
}

// Residual sums payoffs minus the expectations of their decisions, over all items.
type Residual struct {
	N int64 // payoffs
	U int64 // Σ(payoff − expected), in history.Units
}

// ResidualOf returns the residual of one payoff; both arguments are normalised.
func ResidualOf(payoff, expected float64) Residual {
	return Residual{1, history.InUnits(payoff) - history.InUnits(expected)}
}

func (s Residual) Add(o Residual) Residual { return Residual{s.N + o.N, s.U + o.U} }

func (s Residual) Minus(o Residual) Residual { return Residual{s.N - o.N, s.U - o.U} }

func (s Residual) Bounded() Residual {
	for s.N > history.Full {
		s = Residual{s.N >> 1, s.U >> 1}
	}
	return s
}

func (s Residual) Crowded() bool { return s.N >= history.Full/2 }

func (s Residual) Append(dst []byte) []byte { return history.AppendNumbers(dst, s.N, s.U) }

// ReadResiduals reads rows that Append wrote.
func ReadResiduals(r *words.Reader) history.Rows[Residual] {
	return history.Read(r, func(r *words.Reader) Residual {
		return Residual{r.Int(1, history.Full), r.Int(-history.Most, history.Most)}
	})
}
