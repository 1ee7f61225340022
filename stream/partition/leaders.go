package partition

import "github.com/ranker-worker/ranker-worker/policy"

// Of the order of utilities most learners need only the leaders: the items with a higher utility than all shown before them. They say which
// windows select an item, and whether one blocks it. Of all orders with the same leaders, entries then keep one. In it the items between two
// leaders are those just below the first, in the order shown.

// keepLeaders replaces utility ranks by position shown by those of the order that is kept.
func keepLeaders(ranks []int32) {
	for from := 0; from < len(ranks); {
		next := policy.NextAbove(ranks, from, len(ranks))
		fillBehind(ranks, from, next)
		from = next
	}
}

// fillBehind sets the ranks from a leader to the one before the next.
func fillBehind(ranks []int32, from, next int) {
	ranks[from] = int32(next - 1)
	for k := from + 1; k < next; k++ {
		ranks[k] = int32(k - 1)
	}
}

// ofLeaders reports whether ranks are those of the order that is kept.
func ofLeaders(ranks []int32) bool {
	for from := 0; from < len(ranks); {
		next := policy.NextAbove(ranks, from, len(ranks))
		if ranks[from] != int32(next-1) {
			return false
		}
		for k := from + 1; k < next; k++ {
			if ranks[k] != int32(k-1) {
				return false
			}
		}
		from = next
	}
	return true
}

const leaderBits = 7 // of a byte; the highest says that a further one follows

// appendLeaders appends which positions lead, from the second on: a bit each, up to the last leader.
func appendLeaders(dst []byte, ranks []int32) []byte {
	var group byte
	for first, at := 1, policy.NextAbove(ranks, 0, len(ranks)); at < len(ranks); at = policy.NextAbove(ranks, at, len(ranks)) {
		for ; at-first >= leaderBits; first += leaderBits {
			dst, group = append(dst, group|1<<leaderBits), 0
		}
		group |= 1 << (at - first)
	}
	return append(dst, group)
}
