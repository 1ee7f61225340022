package checker

import (
	"bytes"
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/ranker-worker/ranker-worker/config"
	"github.com/ranker-worker/ranker-worker/stream/event"
)

// windowsOf returns the probabilities of windows of at most 1, 2, … results, if all configurations of a learner
// give the same. It returns nil otherwise, if windows are learned, and if the utilities that count are not the impression's.
func windowsOf(variants []*config.Learner) []float64 {
	var all []float64
	for i, v := range variants {
		upTo := cumulative(v.Windows)
		if upTo == nil || v.Utilities != config.Given || i > 0 && !slices.Equal(upTo, all) {
			return nil
		}
		all = upTo
	}
	return all
}

// cumulative returns the distribution function of windows; nil if the configuration gives none.
func cumulative(w config.Windows) []float64 {
	var weights []float64
	switch {
	case w.List != nil:
		weights = slices.Clone(w.List)
	case w.Geometric != nil:
		for k := range w.Max {
			weights = append(weights, math.Pow(*w.Geometric, float64(k)))
		}
	case w.Zipf != nil:
		for k := range w.Max {
			weights = append(weights, math.Pow(float64(k+1), -*w.Zipf))
		}
	}
	sum := 0.0
	for k, v := range weights {
		sum += v
		weights[k] = sum
	}
	for k := range weights {
		weights[k] /= sum
	}
	return weights
}

// admissibleSlack allows for rounding, besides the solver's error.
const admissibleSlack = 1e-9

// order sorts the candidates by increasing utility, ties by name, and notes the rank of each item shown if the learner depends on it.
func (f *fold) order(lf *learnerFold, l *life) {
	c := f.imp.Candidates
	if lf.windows == nil && !lf.ranks && lf.attraction == nil {
		return
	}
	slices.SortFunc(c, func(a, b event.Candidate) int {
		return cmp.Or(cmp.Compare(a.Utility, b.Utility), bytes.Compare(a.Item, b.Item))
	})
	if l.recorded || lf.attraction == nil && (!lf.ranks || len(l.propensities) == 0) {
		return
	}
	of := make(map[uint32]int32, len(c))
	for rank := range c {
		of[f.items.intern(c[rank].Item)] = int32(rank)
	}
	l.ranks = make([]int32, len(l.items))
	for k, item := range l.items {
		l.ranks[k] = of[item]
	}
}

// checkAdmissible checks that some distribution over rankings has the propensities (the paper's section 4.2). The best of the first w shown
// has at least the w-th lowest utility. So the probability that one of the k lowest is selected is at most that of a window of at most k.
func (f *fold) checkAdmissible(name any, lf *learnerFold, l *life) {
	c, n := f.imp.Candidates, len(l.items)
	if lf.windows == nil || !l.ordered || len(l.propensities) != n || len(c) != n {
		return
	}
	of := make(map[uint32]float64, n)
	for k, item := range l.items {
		of[item] = l.propensities[k]
	}
	sum := 0.0
	for k := range min(n-1, len(lf.windows)-1) {
		sum += of[f.items.intern(c[k].Item)]
		if !f.out.ok(rankingsAdmissible, sum <= lf.windows[k]+admissibleSlack) {
			f.out.breach(rankingsAdmissible, name, fmt.Sprintf("one of the %d lowest utilities with probability at most %v", k+1, lf.windows[k]),
				fmt.Sprint(sum))
			return
		}
	}
}
