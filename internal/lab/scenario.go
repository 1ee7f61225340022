package lab

import (
	"fmt"
	"math"
	"slices"
	"strings"
)

// Scenario is a world of users, by its name.
type Scenario string

// The scenarios. Payoffs of the first four are N(μ_i, 1); the other means and payoffs lie within [0,1].
const (
	// Blocks has windows w_t = 1 + ⌊(t−1)·n/T⌋, the paper's worst case (Theorem 3.5), and μ_i = 1 − (i−1)/n.
	Blocks Scenario = "blocks"
	// Lazy has windows P(w) ∝ e^{−(w−1)/2} and the means of Blocks.
	Lazy Scenario = "lazy"
	// Mixed has uniform windows and μ = .2 .9 .1 .7 .6 .3 .5 0 .4 .15, repeated.
	Mixed Scenario = "mixed"
	// Changing has the windows of Lazy, the means of Mixed, and a fresh order of utilities in each impression.
	Changing Scenario = "changing"
	// Stationary has windows P(w) ∝ 0.7^{w−1} and Bernoulli payoffs of mean 0.8 − 0.6(i−1)/n.
	Stationary Scenario = "stationary"
	// Constrained has the windows of Stationary; with the phase ⌊log_{1.6}(t+1)⌋ odd, means are 0.8, else 0, and item 3
	// has always 0.15 more (the stochastically constrained adversary of J. Zimmert and Y. Seldin, 2021).
	Constrained Scenario = "constrained"
	// Switching has the windows of Stationary; up to 0.3·T item ⌈0.8n⌉ has mean 0.9 and the others 0.1, then item 2 has
	// 0.9 and the others 0.05.
	Switching Scenario = "switching"
	// Catalog draws 20 candidates per impression from a catalogue; the items' centres are drawn from N(0.75, 0.08²),
	// payoffs from N(centre, 0.23²), both clipped to [0,1]; the order of utilities is random, and stays. Windows are
	// those of Stationary.
	Catalog Scenario = "catalog"
	// Ranks is Constrained with a fresh order of utilities in each impression, and payoffs that belong to utility ranks.
	Ranks Scenario = "ranks"
)

// Scenarios are all of them, in the order in which they are documented.
func Scenarios() []Scenario {
	return []Scenario{Blocks, Lazy, Mixed, Changing, Stationary, Constrained, Switching, Catalog, Ranks}
}

// ParseScenario finds a scenario by its name.
func ParseScenario(name string) (Scenario, error) {
	if s := Scenario(name); slices.Contains(Scenarios(), s) {
		return s, nil
	}
	var names []string
	for _, s := range Scenarios() {
		names = append(names, string(s))
	}
	return "", fmt.Errorf("%q is unknown; there are %s", name, strings.Join(names, ", "))
}

// listLength is how many candidates an impression of Catalog has.
const listLength = 20

// DefaultItems is how many items there are unless it is said.
func (s Scenario) DefaultItems() int {
	if s == Catalog {
		return 2000
	}
	return 10
}

// Candidates is how many candidates each impression has, where there are so many items.
func (s Scenario) Candidates(items int) int {
	if s == Catalog {
		return min(items, listLength)
	}
	return items
}

// Gaussian tells whether payoffs are N(μ, 1); they lie within [0,1] otherwise.
func (s Scenario) Gaussian() bool {
	return s == Blocks || s == Lazy || s == Mixed || s == Changing
}

// Sigma is the sub-Gaussian parameter of payoffs.
func (s Scenario) Sigma() float64 {
	if s.Gaussian() {
		return 1
	}
	return 0.5 // whatever lies within [0,1] (Hoeffding)
}

// FitsAdversarial tells whether policies for adversarial payoffs can run: their payoffs have to lie within [0,1], and the
// windows to be drawn from one distribution.
func (s Scenario) FitsAdversarial() bool { return !s.Gaussian() }

// AgainstFixed tells whether regret is Σ_w q_w·max_{i≥w} L_i − Σ_t μ_{t,y_t}, against the best fixed ranking, of ranks
// for Ranks. It is Σ_t (μ_{y*_t} − μ_{y_t}) otherwise, against the best ranking of each impression's candidates.
func (s Scenario) AgainstFixed() bool {
	return s == Stationary || s == Constrained || s == Switching || s == Ranks
}

// fixedOrder tells whether candidates and utilities are the same in each impression.
func (s Scenario) fixedOrder() bool { return s != Changing && s != Catalog && s != Ranks }

// stableOrder tells whether items have the same order of utilities in all impressions, so that it can be found.
func (s Scenario) stableOrder() bool { return s != Changing && s != Ranks }

// Ratio is that of the distribution of windows, P(w) ∝ ratio^w on 1..Candidates; 0 where windows are not drawn (Blocks).
func (s Scenario) Ratio() float64 {
	switch s {
	case Blocks:
		return 0
	case Lazy, Changing:
		return math.Exp(-0.5)
	case Mixed:
		return 1
	}
	return 0.7
}

// means are the mean payoffs of n items, where they do not change and are not drawn.
func (s Scenario) means(n int) []float64 {
	mixed := [...]float64{.2, .9, .1, .7, .6, .3, .5, 0, .4, .15}
	means := make([]float64, n)
	for i := range means {
		switch s {
		case Blocks, Lazy:
			means[i] = 1 - float64(i)/float64(n)
		case Mixed, Changing:
			means[i] = mixed[i%len(mixed)]
		case Stationary:
			means[i] = 0.8 - 0.6*float64(i)/float64(n)
		}
	}
	return means
}

// period is a stretch of impressions during which means stay as they are.
type period struct {
	from  int64 // the first t
	level int   // which means
}

// levels are the means that there are, and when which of them hold: periods in order, the first from t = 1. Not for
// Catalog, whose means are drawn.
func (s Scenario) levels(n int, horizon int64) (means [][]float64, periods []period) {
	all := func(mean float64) []float64 {
		m := make([]float64, n)
		for i := range m {
			m[i] = mean
		}
		return m
	}
	set := func(m []float64, item int, mean float64) { // items from 1; with few items there may be no such one
		if item <= n {
			m[item-1] = mean
		}
	}
	switch s {
	case Constrained, Ranks:
		even, odd := all(0), all(0.8)
		set(even, 3, 0.15)
		set(odd, 3, 0.95)
		phase := func(t int64) int { return int(math.Log(float64(t+1)) / math.Log(1.6)) }
		for t := int64(1); t <= horizon; {
			k := phase(t)
			periods = append(periods, period{t, k % 2})
			next := max(t+1, int64(math.Pow(1.6, float64(k+1)))-2) // about where the phase ends, from below
			for phase(next) == k {
				next++
			}
			t = next
		}
		return [][]float64{even, odd}, periods
	case Switching:
		before, after := all(0.1), all(0.05)
		set(before, (4*n+4)/5, 0.9)
		set(after, 2, 0.9)
		periods = append(periods, period{1, 0})
		if begins := 3*horizon/10 + 1; begins > 1 {
			periods = append(periods, period{begins, 1})
		} else {
			periods[0].level = 1
		}
		return [][]float64{before, after}, periods
	}
	return [][]float64{s.means(n)}, []period{{1, 0}}
}
