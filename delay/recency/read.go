package recency

import "github.com/ranker-worker/ranker-worker/policy"

// shortestOfItems is the horizon that items begin with. The shortest is the levels' alone: where a level jumps, the newest
// payoffs tell of the level before they tell of items.
const shortestOfItems = 1

// past is an item's payoffs, less their levels, and its chances, within horizons that count from its newest row.
type past struct{ n, sum, chances perHorizon }

// tails are an item's last payoffs, 4, 8, 16 … of them, all alike.
type tails struct {
	mean, worth, chances [mostTails]float64
	count                int
	next                 float64
}

const (
	shortestTail = 4
	mostTails    = 40 // of 2⁴⁰ payoffs
)

// note notes so many last payoffs, where they are enough for the next tail.
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

// Read is what there is of an item tells of it by the time of the estimate, for a decision. Its mean is that
// of its payoffs less the levels of their blocks, over the longest horizon that no shorter one contradicts, nor a number of its
// last payoffs. Horizons count from the newest row, so that what was learned of an item is not forgotten for want of payoffs;
// what it is worth falls as time goes on.
func (e *Estimate) Read(i Item) policy.Recent {
	var p past
	t := tails{next: shortestTail}
	newest := e.add(&p, &t, i)
	if newest == nil {
		return policy.Recent{}
	}
	count, sigma := e.halves.count(), e.spread.Sigma
	var mean perHorizon
	for h := range count {
		mean[h] = p.sum[h] / p.n[h]
	}
	h := shortestOfItems + longest(mean[shortestOfItems:count], p.n[shortestOfItems:count], 1, contradiction, sigma)
	now := e.levels.now
	age := e.pass - newest.Middle()
	r := policy.Recent{Mean: mean[h], Worth: p.n[h], Chances: p.chances[h]}
	common := p.chances[now] * e.halves.weight(now, age)
	if at, cut := t.cut(&r, sigma); cut {
		r, h = policy.Recent{Mean: t.mean[at], Worth: t.worth[at], Chances: t.chances[at]}, count-1
		if now == h {
			common = r.Chances
		}
	}
	weight := e.halves.weight(h, age)
	r.Worth *= weight
	r.Chances = min(r.Chances*weight, common)
	return r
}

// add adds up the rows and what is silent, and gives the block of the newest, nil where there is nothing. The newest is where the last
// of them come to a payoff: silence that has told next to nothing yet is as old as that.
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
		} else if c != last && !within { // all of a block of which much is silent is as old as the newest of it
			last = c
			for h := from; h < count; h++ {
				weight[h] = newest.since(&c.stamp, h)
			}
			for weight[from] == 0 { // for ever never is
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
		if !s.within { // else it would be of what was paid of a block, without what was not
			t.note(n, sum, chances)
		}
	}
	if n == 0 {
		return nil
	}
	return newest
}

// ones are weights of what is newest.
var ones = perHorizon{1, 1, 1, 1, 1, 1, 1, 1, 1}

// cut finds the longest tail that no shorter one contradicts, where one of those that are shorter than what an item was read as
// contradicts that. An item that is selected so rarely that no half-life holds more than a few of its payoffs may have changed long
// ago, and all of them have told since.
func (t *tails) cut(r *policy.Recent, sigma float64) (at int, cut bool) {
	for t.count > 0 && t.worth[t.count-1] >= r.Worth {
		t.count--
	}
	for j := range t.count {
		if contradicts(t.mean[j], t.worth[j], r.Mean, tailContradiction, sigma) {
			return longest(t.mean[:t.count], t.worth[:t.count], 0, tailContradiction, sigma), true
		}
	}
	return 0, false
}
