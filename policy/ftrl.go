package policy

import (
	"errors"
	"fmt"
	"math"
)

// ErrAdversarial is wrapped by errors about an adversarial policy's settings.
var ErrAdversarial = errors.New("policy: adversarial settings are faulty")

// FTRL is follow the regularised leader over the admissible set C with the Tsallis-½ regulariser F(p) = −2Σ√p_i (J. Zimmert, Y.
// Seldin, "Tsallis-INF", JMLR 2021; with late payoffs the Tsallis half of "An optimal algorithm for adversarial bandits with
// arbitrary delays", AISTATS 2020). Its point is argmin over C of ⟨L,p⟩ + F(p)/η_t, where L are the cumulative loss estimates and
// η_t = c/√t with t = 1 + number of payoffs. For c = 1 its regret without delay is at most 4√(nT).
//
// With losses by utility rank, one vector per list length, L is that sum, and unknown ranks are 0. With losses by item and changing
// candidates, that would favour rarely shown items. So an update adds ℓ̂_i − (1−r) for each shown candidate, a shift that changes
// no point if candidates stay the same. An unknown item starts at the median of the other candidates. The median is computed when
// needed, and stored with the item's first update.
type FTRL struct {
	scale   float64
	shifted bool
}

var ftrlSpec = Spec{Name: "ftrl", Colour: "#ce2a0e", About: "follows the regularised leader over the admissible set",
	Oppose: func(p *Parameters) (Adversarial, error) {
		if p.Eta == 0 {
			return NewFTRL(1, !p.ByRank) // scale 1 has the regret bound
		}
		return NewFTRL(p.Eta, !p.ByRank)
	}}

var _ Adversarial = (*FTRL)(nil)

// NewFTRL returns an FTRL with η_t = scale/√t, scale within (2⁻⁶⁴, 2⁶⁴); 1 has the regret bound. With shifted, losses belong to
// items, else to ranks. It fails with ErrAdversarial.
func NewFTRL(scale float64, shifted bool) (*FTRL, error) {
	if !(scale > 0x1p-64 && scale < 0x1p64) {
		return nil, fmt.Errorf("%w: the learning rate of ftrl is %v/√t", ErrAdversarial, scale)
	}
	return &FTRL{scale: scale, shifted: shifted}, nil
}

func (f *FTRL) Name() string { return "ftrl" }

// Shifted returns whether losses belong to items.
func (f *FTRL) Shifted() bool { return f.shifted }

func (f *FTRL) Valid(x float64) bool { return math.Abs(x) <= mostLoss && (f.shifted || x >= 0) }

// Eta returns the learning rate after so many payoffs.
func (f *FTRL) Eta(rounds int64) float64 { return f.scale / math.Sqrt(1+float64(rounds)) }

func (f *FTRL) Point(v *Vector, coordinates []int32, q, p []float64, ws *AdversarialWorkspace) {
	ws.g = sized(ws.g, len(coordinates))
	f.losses(v, coordinates, ws)
	ws.solver.Solve(p, ws.g, q, f.Eta(v.rounds))
}

func (f *FTRL) losses(v *Vector, coordinates []int32, ws *AdversarialWorkspace) {
	ws.gather(v, coordinates, ws.g)
	if f.shifted {
		ws.startAtMedian(ws.g)
	}
}

// Feed implements Adversarial. It uses neither q nor the order of the coordinates.
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
