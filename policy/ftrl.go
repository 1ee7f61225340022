package policy

import (
	"errors"
	"fmt"
	"math"
)

// ErrAdversarial says that the settings of an adversarial policy make no sense.
var ErrAdversarial = errors.New("policy: adversarial settings are faulty")

// FTRL is follow the regularised leader over the admissible set C with the Tsallis-½ regulariser F(p) = −2Σ√p_i
// (J. Zimmert, Y. Seldin, "Tsallis-INF", JMLR 2021; with late payoffs the Tsallis half of their "An optimal algorithm for
// adversarial bandits with arbitrary delays", AISTATS 2020): the next point is argmin over C of ⟨L,p⟩ + F(p)/η_t, where
// L are the cumulative estimated losses and η_t = c/√t, t being 1 + the number of payoffs that made L. What it keeps is
// additive. For c = 1 its regret without delay is at most 4√(nT).
//
// Where losses belong to utility ranks, one vector per list length, L is just that sum, and what is not known is 0.
// Where they belong to items and candidates change, that would favour what is seldom shown. So each update adds
// ℓ̂_i − (1−r) for each candidate that was shown: where the candidates are always the same this shifts all alike, which
// changes no point; and an item met for the first time starts at the median of the other candidates. That is computed
// whenever it is needed, and stored only as part of the item's first update.
type FTRL struct {
	scale   float64
	shifted bool
}

var ftrlKind = Spec{Name: "ftrl", Colour: "#ce2a0e", About: "follows the regularised leader over what windows allow",
	Oppose: func(p *Parameters) (Adversarial, error) {
		if p.Eta == 0 {
			return NewFTRL(1, !p.ByRank) // the one with a bound
		}
		return NewFTRL(p.Eta, !p.ByRank)
	}}

var _ Adversarial = (*FTRL)(nil)

// NewFTRL makes an FTRL with η_t = scale/√t; scale is positive and finite, 1 is the one with a bound. With shifted the
// losses belong to items, else to ranks.
func NewFTRL(scale float64, shifted bool) (*FTRL, error) {
	if !(scale > 0x1p-64 && scale < 0x1p64) {
		return nil, fmt.Errorf("%w: the learning rate of ftrl is %v/√t", ErrAdversarial, scale)
	}
	return &FTRL{scale: scale, shifted: shifted}, nil
}

// Name implements Adversarial.
func (f *FTRL) Name() string { return "ftrl" }

// Shifted tells whether losses belong to items.
func (f *FTRL) Shifted() bool { return f.shifted }

// Valid implements Adversarial.
func (f *FTRL) Valid(x float64) bool { return math.Abs(x) <= MostLoss && (f.shifted || x >= 0) }

// Eta is the learning rate after so many payoffs.
func (f *FTRL) Eta(rounds int64) float64 { return f.scale / math.Sqrt(1+float64(rounds)) }

// Point implements Adversarial.
func (f *FTRL) Point(v *Vector, coordinates []int32, q, p []float64, ws *AdversarialWorkspace) {
	ws.g = sized(ws.g, len(coordinates))
	f.losses(v, coordinates, ws)
	ws.Solver.Solve(p, ws.g, q, f.Eta(v.rounds))
}

// losses fills ws.g.
func (f *FTRL) losses(v *Vector, coordinates []int32, ws *AdversarialWorkspace) {
	ws.gather(v, coordinates, ws.g)
	if f.shifted {
		ws.startAtMedian(ws.g)
	}
}

// Feed implements Adversarial. It needs neither q nor the order of the coordinates.
func (f *FTRL) Feed(v *Vector, coordinates []int32, selected int, payoff, propensity float64, _ []float64,
	ws *AdversarialWorkspace) bool {
	estimate, ok := Loss(payoff, propensity)
	if !ok {
		return false
	}
	v.rounds++
	if !f.shifted {
		before, _ := v.Get(coordinates[selected])
		v.Set(coordinates[selected], clampLoss(before+estimate))
		return true
	}
	ws.g = sized(ws.g, len(coordinates))
	f.losses(v, coordinates, ws)
	loss := 1 - payoff
	chosen := clampLoss(ws.g[selected] + (estimate - loss))
	for k, x := range ws.g {
		ws.g[k] = clampLoss(x - loss)
	}
	ws.g[selected] = chosen
	v.scatter(coordinates, ws.g)
	return true
}
