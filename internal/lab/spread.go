package lab

import "gonum.org/v1/plot/vg"

type extent struct{ above, below vg.Length }

func (e extent) size() vg.Length { return e.above + e.below }

// spread moves labels apart: it returns positions, ascending, at which none overlaps another and all lie between low and high, with
// the least sum of squared moves. If there is not enough room, they are stacked from low.
func spread(wanted []vg.Length, extents []extent, low, high vg.Length) []vg.Length {
	// With the sizes of those below subtracted, "no overlap" is "in ascending order": the nearest ascending sequence is found by
	// pooling (isotonic regression), and cut off at the limits.
	type pool struct {
		sum   vg.Length
		count int
	}
	var pools []pool
	mean := func(k int) vg.Length { return pools[k].sum / vg.Length(pools[k].count) }
	offsets := make([]vg.Length, len(wanted))
	filled := vg.Length(0)
	for k, e := range extents {
		offsets[k] = filled + e.below
		filled += e.size()
		pools = append(pools, pool{wanted[k] - offsets[k], 1})
		for n := len(pools) - 1; n > 0 && mean(n-1) > mean(n); n-- {
			pools[n-1].sum += pools[n].sum
			pools[n-1].count += pools[n].count
			pools = pools[:n]
		}
	}
	places := make([]vg.Length, 0, len(wanted))
	for k, p := range pools {
		base := max(low, min(high-filled, mean(k)))
		for range p.count {
			places = append(places, base+offsets[len(places)])
		}
	}
	return places
}
