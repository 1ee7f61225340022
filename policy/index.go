package policy

import "math"

// race finds the leaders of all suffixes where the largest index leads. The leader of a suffix is its first candidate or the leader
// of the rest, so one scan from the right finds all. Ties go to fewer payoffs, then fewer selections in flight, then a random draw.
//
// Whatever the indices, a user of window w selects the item with the largest index of those from the w-th lowest utility on. For let
// the leaders be ℓ_1 < ℓ_2 < … = n, in increasing utility. ℓ_k has the largest index from ℓ_{k−1}+1 on, and stands at place ℓ_{k−1}+1,
// behind all below it. So it is seen if ℓ_{k−1} < w. The last leader seen, ℓ_K, is selected, because items between leaders are liked
// less than the leader before them. It has the largest index of a set that contains w..n, and ℓ_K ≥ w; else the next leader would be
// seen.
type race struct {
	in      *Input
	ws      *Workspace
	leaders []int32
	best    float64 // the leader's index
	leader  int32
}

func newRace(in *Input, ws *Workspace) race {
	ws.leaders, ws.means = sized(ws.leaders, len(in.Items)), sized(ws.means, len(in.Items))
	return race{in: in, ws: ws, leaders: ws.leaders, best: math.Inf(-1), leader: -1}
}

// enter adds position i with its mean and index, neither NaN. An index below best may be any number below best.
func (r *race) enter(i int32, mean, index float64) {
	r.ws.means[i] = mean
	if r.leader < 0 || index > r.best || index == r.best && r.alike(i) {
		r.leader, r.best = i, index
	}
	r.leaders[i] = r.leader
}

// alike returns whether position i, whose index equals the leader's, leads before it.
func (r *race) alike(i int32) bool {
	t := r.in.Table
	a, b := t.Evidence(r.in.Items[i]).W, t.Evidence(r.in.Items[r.leader]).W
	return a < b || a == b && r.in.tie(i, r.leader)
}

// blockedInWords ends a Rule of policies that order blocked items by mean.
const blockedInWords = "; candidates that it blocks follow in falling mean"
