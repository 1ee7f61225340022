package faults

import "slices"

const (
	// the first 1/warmUp of a run fills caches and state
	warmUp = 4
	// The rest is divided into blocks. Each stands for its median, which excludes moments of other load, or before a garbage collection.
	blocks = 12
	// enough for blocks of one sample
	fewestSamples = blocks * warmUp / (warmUp - 1)
)

// growth returns the relative growth of an evenly sampled series from the end of its warm-up to its end:
// the slope by Theil and Sen, the median of the slopes between any two blocks, as a share of the median.
// It tolerates up to 29% of outlying blocks. It is 0 for fewer than fewestSamples, or a median of 0.
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

func medianOf(all []int64) float64 {
	sorted := slices.Sorted(slices.Values(all))
	n := len(sorted)
	return (float64(sorted[(n-1)/2]) + float64(sorted[n/2])) / 2
}
