package policy

import "math"

// race finds the leaders of all suffixes for policies whose leader is the candidate with the largest index: the leader
// of a suffix is its first candidate or the leader of the rest, so that one pass from the right finds them all. Equal
// indices go to fewer payoffs, then fewer selections in flight, then a random draw.
type race struct {
	in      *Input
	ws      *Workspace
	leaders []int32
	best    float64 // the leader's index
	leader  int32
}

// newRace begins before the candidate of highest utility.
func newRace(in *Input, ws *Workspace) race {
	ws.leaders, ws.means = sized(ws.leaders, len(in.Items)), sized(ws.means, len(in.Items))
	return race{in: in, ws: ws, leaders: ws.leaders, best: math.Inf(-1), leader: -1}
}

// enter is the turn of position i, which has the given mean and index, neither NaN. An index that does not matter because it
// is below best may be any number below best.
func (r *race) enter(i int32, mean, index float64) {
	r.ws.means[i] = mean
	if r.leader < 0 || index > r.best || index == r.best && r.alike(i) {
		r.leader, r.best = i, index
	}
	r.leaders[i] = r.leader
}

// alike tells whether position i, whose index is the leader's, goes before it.
func (r *race) alike(i int32) bool {
	t := r.in.Table
	a, b := t.Evidence(r.in.Items[i]).W, t.Evidence(r.in.Items[r.leader]).W
	return a < b || a == b && r.in.tie(i, r.leader)
}

// blockedInWords ends the rule of policies that order blocked items by mean.
const blockedInWords = "; what it blocks follows in falling mean"
