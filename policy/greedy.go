package policy

// Greedy is a baseline: the leader is the item with the largest empirical mean payoff. Unseen items come before all
// others, those with the fewest selections in flight first, so that each is tried once. It has linear regret where the
// first payoffs mislead it. Equal means go to the item with fewer payoffs, then fewer in flight, then a random draw.
type Greedy struct{}

var greedyKind = Kind{Name: "greedy", About: "the best mean so far",
	Rank: func(*Parameters) (Policy, error) { return NewGreedy(), nil }}

var _ Policy = (*Greedy)(nil)

// NewGreedy makes the policy.
func NewGreedy() *Greedy { return &Greedy{} }

// Rank implements Policy in O(n): the leader of a suffix is its first item or the leader of the rest.
func (*Greedy) Rank(in *Input, ws *Workspace, dst []int32) {
	n := int32(len(in.Items))
	ws.leaders = sized(ws.leaders, int(n))
	leader := n - 1
	leading := in.Table.Pooled(in.Items[leader])
	for i := n - 1; i >= 0; i-- {
		if s := in.Table.Pooled(in.Items[i]); i < leader && leadsGreedily(in, s, i, leading, leader) {
			leader, leading = i, s
		}
		ws.leaders[i] = leader
	}
	follow(ws.leaders, dst)
}

// leadsGreedily tells whether position a, with sums s, goes before position b, with sums o.
func leadsGreedily(in *Input, s Sums, a int32, o Sums, b int32) bool {
	if s.N == 0 || o.N == 0 {
		return s.N < o.N || s.N == o.N && in.tie(a, b)
	}
	if ms, mo := s.R/float64(s.N), o.R/float64(o.N); ms != mo {
		return ms > mo
	}
	return s.N < o.N || s.N == o.N && in.tie(a, b)
}
