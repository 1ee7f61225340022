package e2e

import (
	"cmp"
	"iter"
	"math"
	"slices"
)

// whole returns the mean and the number of all of an item's payoffs, and whether recent ones contradict the mean.
func (e *robustEstimate) whole(rows []sumsRow) (mean, n float64, changed bool) {
	if len(rows) == 0 {
		return 0, 0, false
	}
	means, worths, _ := e.decayed(rows)
	forEver := len(halfLives) - 1
	mean, n = means[forEver], worths[forEver]
	for h := 1; h < forEver; h++ {
		changed = changed || worths[h] >= 1 && differ(means[h], worths[h], mean, 4, e.sigma)
	}
	var last, sum float64 // of the last payoffs
	for k, next := len(rows)-1, 4.; k >= 0; k-- {
		x := &rows[k]
		last, sum = last+x.n, sum+x.sum-x.n*e.level[e.at(x)]
		changed = changed || last >= next && differ(sum/last, last, mean, 4, e.sigma)
		for next <= last {
			next *= 2
		}
	}
	return mean, n, changed
}

// leading returns the selection probabilities of MOSS's ranking by whole pasts, for each outcome of draws between equal items, and
// whether any mean has changed. flying are the numbers of selections in flight.
func (e *robustEstimate) leading(items *[robustItems][]sumsRow, flying *[robustItems]int, q []float64) (outcomes [][]float64, changed bool) {
	var index, mean, fed [robustItems]float64
	fair, few := 0.0, 0.0
	for i, rows := range items {
		var differs bool
		mean[i], fed[i], differs = e.whole(rows)
		changed = changed || differs
		fair += fed[i] / robustItems
	}
	if 16*e.sigma*e.sigma < 0.25 { // few payoffs are taken to vary by 0.5
		few = 2*math.Sqrt(fair) + e.kappa()
	}
	for i, n := range fed {
		weight, spread := n+e.kappa()+float64(flying[i]), 2*e.sigma*e.sigma
		if weight < few {
			spread = 2 * 0.25
		}
		index[i] = (n*mean[i]+e.kappa()*e.mean)/(n+e.kappa()) + math.Sqrt(spread/weight*math.Log(1+fair/weight))
	}
	for draw := range permutations(robustItems) {
		p := make([]float64, robustItems)
		for first := 0; first < robustItems; {
			leader := first
			for i := first + 1; i < robustItems; i++ {
				switch d := index[i] - index[leader]; {
				case math.Abs(d) > 1e-9 && d > 0,
					math.Abs(d) <= 1e-9 && cmp.Or(cmp.Compare(fed[i], fed[leader]), cmp.Compare(flying[i], flying[leader]), cmp.Compare(draw[i], draw[leader])) < 0:
					leader = i
				}
			}
			for w := first; w <= leader; w++ {
				p[leader] += q[w]
			}
			first = leader + 1
		}
		if !slices.ContainsFunc(outcomes, func(other []float64) bool { return slices.Equal(p, other) }) {
			outcomes = append(outcomes, p)
		}
	}
	return outcomes, changed
}

// permutations yields those of 0 to n−1, each valid until the next.
func permutations(n int) iter.Seq[[]int] {
	return func(yield func([]int) bool) {
		var place func(p []int) bool
		place = func(p []int) bool {
			if len(p) == n {
				return yield(p)
			}
			for i := range n {
				if !slices.Contains(p, i) && !place(append(p, i)) {
					return false
				}
			}
			return true
		}
		place(make([]int, 0, n))
	}
}

// halfOf returns the mean of a point and of MOSS's probabilities: of the outcome that is the nearest to the recorded propensities.
func halfOf(p []float64, outcomes [][]float64, shown []int, recorded []float64) []float64 {
	var nearest []float64
	least := math.Inf(1)
	for _, o := range outcomes {
		both, apart := make([]float64, robustItems), 0.0
		for i := range both {
			both[i] = (p[i] + o[i]) / 2
		}
		for k, i := range shown {
			apart += math.Abs(both[i] - recorded[k])
		}
		if apart < least {
			nearest, least = both, apart
		}
	}
	return nearest
}
