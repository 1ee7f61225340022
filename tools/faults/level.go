package faults

import "slices"

const (
	// warmUp is the part of a run, one of so many, in which what is to be filled is filled.
	warmUp = 4
	// blocks are what the rest is divided into. Each stands for its median: a moment in which the machine does something else, or memory
	// waits to be collected, is none.
	blocks = 12
	// fewestSamples are enough for blocks of one sample.
	fewestSamples = blocks * warmUp / (warmUp - 1)
)

// growth is what a series of samples, taken at even intervals, grows by from the end of its warm-up to its end, as a share of its median
// then: the slope by Theil and Sen, which is the median of the slopes between any two blocks. Up to 29% of the blocks can be anywhere
// without moving it far. A series has at least fewestSamples, and a median above 0; otherwise it has not grown.
func growth(samples []int64) float64 {
	rest := samples[len(samples)/warmUp:]
	if len(rest) < blocks {
		return 0
	}
	var medians [blocks]float64
	for i := range medians {
		medians[i] = medianOf(rest[i*len(rest)/blocks : (i+1)*len(rest)/blocks])
	}
	var slopes []float64
	for i := range medians {
		for j := range i {
			slopes = append(slopes, (medians[i]-medians[j])/float64(i-j))
		}
	}
	slices.Sort(slopes)
	level := medianOf(rest)
	if level <= 0 {
		return 0
	}
	return (slopes[(len(slopes)-1)/2] + slopes[len(slopes)/2]) / 2 * blocks / level
}

// medianOf takes at least one value.
func medianOf(all []int64) float64 {
	sorted := slices.Sorted(slices.Values(all))
	n := len(sorted)
	return (float64(sorted[(n-1)/2]) + float64(sorted[n/2])) / 2
}
