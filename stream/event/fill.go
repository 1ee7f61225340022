package event

import (
	"math"
	"slices"
)

type Filler struct{ known []float64 }

// Fill gives the candidates at the positions Filled, sent without a utility, the median of the others' utilities (Median): an unknown
// candidate is not the least liked. If no candidate has one, the impression has no utilities.
func (f *Filler) Fill(i *Impression) {
	switch len(i.Filled) {
	case 0:
		i.HasUtilities = true
		return
	case len(i.Candidates):
		i.Filled = i.Filled[:0]
		return
	}
	i.HasUtilities = true
	f.known = f.known[:0]
	for k := range i.Candidates {
		if i.HasUtility(k) {
			f.known = append(f.known, i.Candidates[k].Utility)
		}
	}
	slices.Sort(f.known)
	middle := Median(f.known)
	for _, k := range i.Filled {
		i.Candidates[k].Utility = middle
	}
}

// Median returns the median of ascending finite numbers; the mean of the middle two if their number is even.
func Median(sorted []float64) float64 {
	low, high := sorted[(len(sorted)-1)/2], sorted[len(sorted)/2]
	mean := (low + high) / 2
	if math.IsInf(mean, 0) {
		mean = low/2 + high/2 // the half of the smallest number would be 0
	}
	return mean + 0 // -0 is 0
}

// HasUtility reports whether a candidate was sent with a utility.
func (r *Impression) HasUtility(candidate int) bool {
	_, filled := slices.BinarySearch(r.Filled, int32(candidate))
	return r.HasUtilities && !filled
}
