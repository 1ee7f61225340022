package simulate

import "slices"

// Window returns the attention window of a luck uniform on [0,1), by the prefix sums of its distribution; the last is 1.
func Window(upTo []float64, luck float64) int {
	// The first window with P(window ≤ w) > luck; it never has probability 0.
	k, _ := slices.BinarySearchFunc(upTo, luck, func(upTo, luck float64) int {
		if upTo > luck {
			return 1
		}
		return -1
	})
	return min(k+1, len(upTo))
}
