package lab

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/ranker-worker/ranker-worker/policy/admissible"
)

// Scenario is the name of a simulated world. docs/laboratory/scenarios.md defines all.
type Scenario string

// definition describes a scenario's items and users. Zero fields are the most common case.
type definition struct {
	name        Scenario
	about       string // in a line
	items       int    // default number; 0 is 10
	impressions int64  // default T; 0 is 100,000
	late        int64  // default delay of payoffs in impressions
	clock       clock  // 0 is everySecond
	// fewer says that an impression shows listLength of the items; otherwise it shows all.
	fewer bool

	ratio   float64               // of windows P(w) ∝ ratio^(w−1); 0 is 0.7
	windows func(n int) []float64 // distribution of windows in place of ratio; nil: none
	blocks  bool                  // windows w_t = 1 + ⌊(t−1)·n/T⌋ in place of both

	againstFixed bool // regret is against the best fixed ranking
	reorders     bool // each impression has a fresh order of utilities
	byRank       bool // payoffs belong to utility ranks instead of items
	silent       bool // payoffs of 0 do not come

	payoffs   payoffs
	deviation float64 // of clipped payoffs
	// levels returns items' means by level; draw draws them. Both are nil for scenarios with a model below.
	levels func(n int) [][]float64
	draw   func(w *World, items int, r *rand.Rand) [][]float64
	level  func(w *World) int // level of the present impression; nil: the first
	move   func(w *World)     // sets the present means; nil: they stay

	// At most one of these is set.
	delays   *delayModel
	contexts *contextModel
	shop     *shop
	news     bool
}

// payoffs is a distribution of payoffs by mean.
type payoffs uint8

const (
	bernoulli payoffs = iota // 1 with the mean as probability, else 0
	normal                   // N(mean, 1)
	clipped                  // N(centre, deviation²), clipped to [0,1]
	jackpot                  // item 1's are bernoulli, the others' N(mean, jackpotNoise²), clipped
)

// scenarios are all in the order of documentation.
var scenarios = slices.Concat(ofLevels, ofContexts, ofDelays, ofShops, ofTime)

// family returns a constructor of scenarios that differ from a base in some settings. base makes a new one each time.
func family(base func() *definition) func(name Scenario, about string, changes ...func(*definition)) *definition {
	return func(name Scenario, about string, changes ...func(*definition)) *definition {
		d := base()
		d.name, d.about = name, about
		for _, change := range changes {
			change(d)
		}
		return d
	}
}

// definition returns the scenario's; nil for an unknown name.
func (s Scenario) definition() *definition {
	for _, d := range scenarios {
		if d.name == s {
			return d
		}
	}
	if s == ofNumbers.name {
		return ofNumbers
	}
	return nil
}

// Scenarios returns all in the order of documentation.
func Scenarios() []Scenario {
	names := make([]Scenario, len(scenarios))
	for k, d := range scenarios {
		names[k] = d.name
	}
	return names
}

// ParseScenario returns the scenario of a name. It fails for an unknown one.
func ParseScenario(name string) (Scenario, error) {
	s := Scenario(name)
	if s.definition() != nil {
		return s, nil
	}
	var names []string
	for _, s := range Scenarios() {
		names = append(names, string(s))
	}
	return "", fmt.Errorf("%q is unknown; there are %s", name, strings.Join(names, ", "))
}

// listLength is the number of candidates in an impression that shows only some items.
const listLength = 20

// About describes the scenario in a line.
func (s Scenario) About() string { return s.definition().about }

// DefaultItems returns the default number of items.
func (s Scenario) DefaultItems() int { return cmp.Or(s.definition().items, 10) }

// DefaultHorizon returns the default T.
func (s Scenario) DefaultHorizon() int64 { return cmp.Or(s.definition().impressions, 100_000) }

// DefaultPayoffDelay returns the payoffs' default delay.
func (s Scenario) DefaultPayoffDelay() PayoffDelay { return PayoffDelay{Mean: s.definition().late} }

// OwnDelays returns whether the scenario defines the payoffs' delays.
func (s Scenario) OwnDelays() bool { return s.definition().delays != nil }

// PayoffHorizon returns the number of impressions after which an unpaid selection expires; 0 if all are paid.
func (s Scenario) PayoffHorizon() int64 {
	if t := s.definition().delays; t != nil {
		return t.horizon
	}
	return 0
}

func (s Scenario) clock() clock { return cmp.Or(s.definition().clock, everySecond) }

// payoffRange returns the range of payoffs for learners' normalisation; normal payoffs are not normalised.
func (s Scenario) payoffRange() (low, high float64) {
	if t := s.definition().delays; t != nil {
		return t.payoffRange()
	}
	return 0, 1
}

// Candidates returns the number of candidates per impression, given the number of items.
func (s Scenario) Candidates(items int) int {
	if s.definition().fewer {
		return min(items, listLength)
	}
	return items
}

// Gaussian returns whether payoffs are N(μ, 1).
func (s Scenario) Gaussian() bool { return s.definition().payoffs == normal }

// Sigma returns the sub-Gaussian parameter of payoffs, in payoff ranges.
func (s Scenario) Sigma() float64 {
	if s.Gaussian() {
		return 1
	}
	return 0.5 // any payoff within [0,1] (Hoeffding)
}

// FitsAdversarial returns whether adversarial policies can run: they need payoffs within a range and one distribution of windows.
func (s Scenario) FitsAdversarial() bool { return !s.Gaussian() && !s.definition().blocks }

// AgainstFixed returns whether regret is Σ_w q_w·max_{i≥w} L_i − Σ_t μ_{t,y_t}, against the best fixed ranking, of ranks if payoffs
// belong to them. Otherwise it is Σ_t (μ_{y*_t} − μ_{y_t}), against each impression's best ranking.
func (s Scenario) AgainstFixed() bool { return s.definition().againstFixed }

// fixedOrder returns whether all impressions have the same candidates in the same order of utilities.
func (d *definition) fixedOrder() bool { return !d.reorders && !d.fewer }

// constant returns whether means are constant and not drawn.
func (d *definition) constant() bool { return d.levels != nil && d.level == nil && d.move == nil }

// Ratio returns the ratio of the window distribution P(w) ∝ ratio^w on 1..Candidates; 0 if windows are not drawn.
func (s Scenario) Ratio() float64 {
	d := s.definition()
	if d.blocks {
		return 0
	}
	return cmp.Or(d.ratio, 0.7)
}

// distribution returns the probabilities of windows 1..n; nil if windows are not drawn.
func (s Scenario) distribution(n int) ([]float64, error) {
	switch d := s.definition(); {
	case d.blocks:
		return nil, nil
	case d.windows != nil:
		return d.windows(n), nil
	}
	windows, err := admissible.Geometric(s.Ratio(), n)
	if err != nil {
		return nil, fmt.Errorf("windows of scenario %s: %w", s, err)
	}
	return windows.Fold(make([]float64, n)), nil
}
