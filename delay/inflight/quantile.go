package inflight

import "math"

// Known returns whether the distribution was estimated, and is not the zero value.
func (l *DelayDistribution) Known() bool { return len(l.come) > 0 }

// Age returns the quantile of a share in [0,1]: the age in milliseconds by which that share of payoffs has come, linear within bins.
func (l *DelayDistribution) Age(g *Scheme, share float64) int64 {
	if len(l.come) == 0 {
		return int64(math.Round(share * float64(g.horizon)))
	}
	k := 0
	for k < len(l.come)-1 && l.come[k] < share {
		k++
	}
	var start int64
	var low float64
	if k > 0 {
		start, low = g.ends[k-1], l.come[k-1]
	}
	end := min(g.ends[k], g.horizon)
	if l.come[k] <= low {
		return start
	}
	return start + int64(math.Round(float64(end-start)*(share-low)/(l.come[k]-low)))
}
