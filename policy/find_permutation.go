package policy

import "math"

type arm struct {
	upper float64 // μ̂ + c
	best  float64 // the largest μ̂ − c from this position on
	n     float64 // N
}

// findPermutation is the paper's Find-Permutation (Algorithm 2). spread is the squared confidence radius of an item with one
// payoff, positive and finite: c_i = √(spread/N_i).
//
// The remaining candidates are a suffix in utility order, so the largest μ̂−c among them is a running maximum from the right, and
// leaders are found by scans of suffixes. A scan for each leader would cost O(n²) if nearly all items lead. So scans are limited to
// a few times n steps, and further leaders come from a heap, in O(n log n). With few leaders, as is usual, scans alone are faster.
func findPermutation(in *Input, spread float64, ws *Workspace, dst []int32) {
	n := int32(len(in.Items))
	ws.arms = sized(ws.arms, int(n))
	arms := ws.arms
	best := math.Inf(-1)
	for i := n - 1; i >= 0; i-- {
		e := in.Table.Evidence(in.Items[i])
		lower, upper := interval(&e, spread)
		best = max(best, lower)
		arms[i] = arm{upper: upper, best: best, n: e.W}
	}
	budget := scans * n
	for first := int32(0); first < n; {
		if budget -= n - first; budget < 0 {
			ws.heapLeaders(in, first)
			follow(ws.leaders, first, dst)
			return
		}
		leader := scanLeader(in, arms, first)
		dst = place(dst, first, leader)
		first = leader + 1
	}
}

// interval returns the confidence interval μ̂ ± c; all numbers for an item without payoffs.
//
// Algorithm 2 requires μ̂_i + c_i > μ̂_j − c_j of an undominated item i for every j, itself included. If c_i is too small beside
// μ̂_i, the interval is widened by the smallest step, so that some item is never dominated.
func interval(e *Evidence, spread float64) (lower, upper float64) {
	if e.W == 0 {
		return math.Inf(-1), math.Inf(1)
	}
	mean, radius := e.R/e.W, math.Sqrt(spread/e.W)
	lower, upper = mean-radius, mean+radius
	if upper <= lower {
		upper = math.Nextafter(lower, math.Inf(1))
	}
	return lower, upper
}

// scans is the number of scans of all candidates before the heap, which costs about as much as five (BenchmarkFindPermutation).
const scans = 4

// scanLeader returns the least-sampled item of a suffix that none in it dominates.
func scanLeader(in *Input, arms []arm, first int32) int32 {
	best, fewest := arms[first].best, math.Inf(1)
	leader := int32(-1)
	for i := first; i < int32(len(arms)); i++ {
		a := &arms[i]
		if a.n > fewest || a.upper <= best {
			continue
		}
		if a.n < fewest || in.tie(i, leader) {
			leader, fewest = i, a.n
		}
	}
	return leader
}

type heapArm struct {
	n, upper float64
	position int32
}

// heapLeaders finds the leaders of all suffixes that begin at first or later.
//
// As a suffix grows to the left its bound rises, so an item once dominated stays dominated. A heap by (N, tie) holds those that may
// yet lead; dominated ones are evicted at the top. An item does not enter if another has fewer payoffs and no smaller upper end.
func (ws *Workspace) heapLeaders(in *Input, first int32) {
	n := int32(len(ws.arms))
	ws.leaders = sized(ws.leaders, int(n))
	ws.heap = sized(ws.heap, int(n-first))[:0]
	for i := n - 1; i >= first; i-- {
		a := &ws.arms[i]
		for len(ws.heap) > 0 && ws.heap[0].upper <= a.best {
			ws.pop(in)
		}
		if a.upper > a.best && ws.mayLead(in, a, i) {
			ws.push(in, heapArm{n: a.n, upper: a.upper, position: i})
		}
		ws.leaders[i] = ws.heap[0].position
	}
}

// mayLead returns whether position i may ever lead in the presence of the heap's top. It drops tops that never will in the presence
// of i: of two, the later one that is dominated no later.
func (ws *Workspace) mayLead(in *Input, a *arm, i int32) bool {
	for len(ws.heap) > 0 {
		top := &ws.heap[0]
		if !leadsBefore(in, a.n, i, top.n, top.position) {
			return a.upper > top.upper
		}
		if top.upper > a.upper {
			return true
		}
		ws.pop(in)
	}
	return true
}

func leadsBefore(in *Input, an float64, a int32, bn float64, b int32) bool {
	return an < bn || an == bn && in.tie(a, b)
}

// arity is the number of children in the heap. Four halve the depth of two, and lie in two cache lines.
const arity = 4

func (ws *Workspace) push(in *Input, e heapArm) {
	at := len(ws.heap)
	ws.heap = append(ws.heap, e)
	for at > 0 {
		parent := (at - 1) / arity
		if p := &ws.heap[parent]; !leadsBefore(in, e.n, e.position, p.n, p.position) {
			break
		}
		ws.heap[at] = ws.heap[parent]
		at = parent
	}
	ws.heap[at] = e
}

func (ws *Workspace) pop(in *Input) {
	last := len(ws.heap) - 1
	e := ws.heap[last]
	ws.heap = ws.heap[:last]
	if last == 0 {
		return
	}
	at := 0
	for {
		child := arity*at + 1
		if child >= last {
			break
		}
		c := &ws.heap[child]
		for k := child + 1; k < min(arity*at+1+arity, last); k++ {
			if d := &ws.heap[k]; leadsBefore(in, d.n, d.position, c.n, c.position) {
				child, c = k, d
			}
		}
		if !leadsBefore(in, c.n, c.position, e.n, e.position) {
			break
		}
		ws.heap[at] = *c
		at = child
	}
	ws.heap[at] = e
}
