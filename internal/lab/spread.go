package lab

import "gonum.org/v1/plot/vg"

// extent is how far something reaches above and below where it is attached.
type extent struct{ above, below vg.Length }

func (e extent) size() vg.Length { return e.above + e.below }

// spread moves things apart that stand above each other: it says where they are attached so that none lies on another, all are
// between low and high, and the sum of the squared moves from where they are wanted is the least. They come and stay in rising
// order. Where there is not enough room for all they stand on each other's shoulders from low on.
func spread(wanted []vg.Length, extents []extent, low, high vg.Length) []vg.Length {
	// With the sizes of those below taken off, "none lies on another" is "in rising order": the nearest rising sequence is
	// found by pooling neighbours that are not (isotonic regression), and within limits by cutting it off at them.
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
