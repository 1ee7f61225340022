package recency

import "github.com/ranker-worker/ranker-worker/policy"

// shortestOfItems is the shortest half-life of items. The first is for levels only, which a jump shows first.
const shortestOfItems = 1

// past holds an item's payoffs minus levels, and its chances, by half-life from its newest row.
type past struct{ n, sum, chances perHorizon }

// tails are an item's last 4, 8, 16 … payoffs, without weights.
type tails struct {
	mean, worth, chances [mostTails]float64
	count                int
	next                 float64
}

const (
	shortestTail = 4
	mostTails    = 40 // up to 2⁴⁰ payoffs
)

// note adds a tail of n payoffs, if n is enough for the next one.
func (t *tails) note(n, sum, chances float64) {
	if n < t.next || t.count == mostTails {
		return
	}
	t.mean[t.count], t.worth[t.count], t.chances[t.count] = sum/n, n, chances
	t.count++
	for t.next <= n {
		t.next *= 2
	}
}

// Read returns an item's recent mean as of the estimate's tick, and that of its whole past. The recent one is the mean of payoffs minus levels over the longest half-life
// that no shorter one, and no tail, contradicts. Half-lives count from the newest row, so that an item without new payoffs keeps
// its mean; its weight falls with time.
func (e *Estimate) Read(i Item) (policy.Recent, policy.AllTime) {
	var p past
	t := tails{next: shortestTail}
	newest := e.add(&p, &t, i)
	if newest == nil {
		return policy.Recent{}, policy.AllTime{}
	}
	count, sigma := e.halves.count(), e.spread.Sigma
	var mean perHorizon
	for h := range count {
		mean[h] = p.sum[h] / p.n[h]
	}
	allTime := policy.AllTime{Mean: mean[count-1], Worth: p.n[count-1]}
	allTime.Changed = t.contradict(allTime.Mean, sigma) || anyContradicts(mean[shortestOfItems:count-1], p.n[shortestOfItems:count-1], allTime.Mean, 1,
		wholeContradiction, sigma)
	h := shortestOfItems + longest(mean[shortestOfItems:count], p.n[shortestOfItems:count], 1, contradiction, sigma)
	now := e.levels.now
	age := e.tick - newest.Middle()
	r := policy.Recent{Mean: mean[h], Worth: p.n[h], Chances: p.chances[h]}
	common := p.chances[now] * e.halves.weight(now, age)
	if at, cut := t.cut(&r, sigma); cut {
		r, h = policy.Recent{Mean: t.mean[at], Worth: t.worth[at], Chances: t.chances[at]}, count-1
	}
	weight := e.halves.weight(h, age)
	r.Worth *= weight
	r.Chances = min(r.Chances*weight, common)
	return r, allTime
}

// add sums up rows and selections in flight, and returns the bucket of the newest; nil without any. The newest is the one where the
// last of them reach one payoff, so that a slight weight does not count as new.
func (e *Estimate) add(p *past, t *tails, i Item) (newest *common) {
	w, count, from := e.walk(i), e.halves.count(), 0
	weight := ones
	var n, sum, chances float64
	var last *common
	within := false
	for s := w.next(); s != nil; s = w.next() {
		c := &w.of[w.at]
		if n < 1 {
			newest = c
		} else if c != last && !within { // a bucket with much weight in flight is as old as its newest part
			last = c
			for h := from; h < count; h++ {
				weight[h] = newest.since(&c.stamp, h)
			}
			for weight[from] == 0 { // the infinite half-life ends this
				from++
			}
		}
		within = s.within
		r := s.R - c.level*s.W
		for h := from; h < count; h++ {
			p.n[h] += weight[h] * s.W
			p.sum[h] += weight[h] * r
			p.chances[h] += weight[h] * s.chances
		}
		n, sum, chances = n+s.W, sum+r, chances+s.chances
		if !s.within { // otherwise it would be the paid part of a bucket without the unpaid
			t.note(n, sum, chances)
		}
	}
	if n == 0 {
		return nil
	}
	return newest
}

var ones = perHorizon{1, 1, 1, 1, 1, 1, 1, 1, 1}

// cut returns the longest tail that no shorter one contradicts, if a tail shorter than r contradicts r. It serves items that are
// selected so rarely that half-lives hold only a few of their payoffs.
func (t *tails) cut(r *policy.Recent, sigma float64) (at int, cut bool) {
	for t.count > 0 && t.worth[t.count-1] >= r.Worth {
		t.count--
	}
	if !t.contradict(r.Mean, sigma) {
		return 0, false
	}
	return longest(t.mean[:t.count], t.worth[:t.count], 0, tailContradiction, sigma), true
}

// contradict returns whether a tail contradicts a mean of more payoffs.
func (t *tails) contradict(mean, sigma float64) bool {
	return anyContradicts(t.mean[:t.count], t.worth[:t.count], mean, 0, tailContradiction, sigma)
}
