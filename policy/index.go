package policy

import "math"

// Index is a policy by which the candidate with the largest index leads: MOSS, UCB (optimistic), Thompson sampling, kl-UCB or greedy. The file
// of that name has the formula. It has no state.
type Index struct {
	rule   string
	belief *Belief
	plain  bool
	// complete sets the fields of common that the policy uses besides the expectation; may be nil.
	complete func(x *common, b *Belief, in *Input)
	// of returns a candidate's mean and index. An index below best may be replaced by any number below best.
	of func(x *common, in *Input, k int32, best float64) (mean, index float64)
}

// common holds the terms of an index that all candidates share.
type common struct {
	expectation
	log    float64 // log f(t) of optimistic and kl-UCB
	spread float64 // the squared bonus of weight 1: 2σ² for MOSS, without its logarithm; 2σ²·log f(t) for optimistic

	// MOSS
	fair    float64 // t/n
	spared  float64 // 8·(1 − c/n)/2
	few     float64 // below this N_i+κ, assumed replaces spread; 0: never
	assumed float64 // 2·(assumed σ)²
}

var (
	_ Policy     = (*Index)(nil)
	_ Explainer  = (*Index)(nil)
	_ Estimating = (*Index)(nil)
)

// common returns the terms that all candidates share. They are in ws, since a local variable would be allocated for the call of p.of.
func (p *Index) common(in *Input, ws *Workspace) *common {
	x := &ws.common
	*x = common{expectation: p.belief.expected(in)}
	if p.complete != nil {
		p.complete(x, p.belief, in)
	}
	return x
}

// Rank implements Policy in O(n).
func (p *Index) Rank(in *Input, ws *Workspace, dst []int32) {
	x := p.common(in, ws)
	r := newRace(in, ws)
	for k := int32(len(in.Items)) - 1; k >= 0; k-- {
		mean, index := p.of(x, in, k, r.best)
		r.enter(k, mean, index)
	}
	ws.byMean(dst)
}

// Rule implements Explainer.
func (p *Index) Rule() string { return p.rule + "; candidates that it blocks follow in falling mean" }

// Weigh implements Explainer.
func (p *Index) Weigh(in *Input, ws *Workspace, why []Reason) {
	x := p.common(in, ws)
	for k := range why {
		_, why[k].Index = p.of(x, in, int32(k), math.Inf(-1))
	}
}

// Belief implements Estimating.
func (p *Index) Belief() *Belief { return p.belief }

// Plain returns whether the index has a bound for estimates from features alone (Known.Plain).
func (p *Index) Plain() bool { return p.plain }

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
