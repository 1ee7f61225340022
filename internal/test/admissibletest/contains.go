// Package admissibletest checks in tests whether probabilities are admissible.
package admissibletest

import (
	"fmt"
	"math"
)

// Contains returns nil if p is in the set C of admissible selection probabilities for the folded window distribution q (package admissible)
// of the same length, else the reason. tolerance is that of each sum.
func Contains(p, q []float64, tolerance float64) error {
	if len(p) != len(q) || len(p) == 0 {
		return fmt.Errorf("%d probabilities for %d windows", len(p), len(q))
	}
	var sum, most float64
	for k, v := range p {
		if !(v >= 0) {
			return fmt.Errorf("probability %d is %v", k+1, v)
		}
		sum += v
		most += q[k]
		if k < len(p)-1 && !(sum <= most+tolerance) {
			return fmt.Errorf("the first %d probabilities sum to %v, the windows to %v", k+1, sum, most)
		}
	}
	if !(math.Abs(sum-1) <= tolerance) {
		return fmt.Errorf("the probabilities sum to %v", sum)
	}
	return nil
}
