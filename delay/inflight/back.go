package inflight

import "slices"

// Partial payoffs include returns and cancellations, which lower a sum and may come later than the amounts that raise it. A young
// selection's sum then exceeds its final one. So both have a delay distribution of their own, and a share of the sum is taken off.

// Apart estimates, at a tick, the delay distributions of amounts that raise sums, late[0], and of returns, late[1], and the share
// of returns in all amounts. If returns are the larger part, as with a high default, the two change places, so that the share is at
// most 0.5. If there are no returns, or they are not later, late[0] is of all amounts and the share is 0. Ages count amounts, one
// list per partition; one is the amount of a payoff of 1.
func Apart(g *Scheme, tick int64, one float64, rises, falls []*Ages) (late [2]DelayDistribution, share float64) {
	if amount(falls) > amount(rises) {
		rises, falls = falls, rises
	}
	if amount(falls) > 0 {
		late[0], late[1] = Estimate(g, tick, one, rises...), Estimate(g, tick, one, falls...)
		if late[1].earlier() < late[0].earlier() {
			return late, taken(g, tick, late, rises, falls)
		}
	}
	return [2]DelayDistribution{Estimate(g, tick, one, slices.Concat(rises, falls)...), {}}, 0
}

func amount(ages []*Ages) (sum float64) {
	for _, a := range ages {
		for i := range a.rows {
			sum += a.rows[i].amount
		}
	}
	return sum
}

// earlier returns a measure that grows as payoffs come earlier, by the logarithm of their age.
func (l *DelayDistribution) earlier() (sum float64) {
	for _, x := range l.come {
		sum += x
	}
	return sum
}

// taken returns the share of returns in all amounts, at most 0.5. Of selections of one bucket, shares F of the rises and G of the
// returns have come. So if rises amount to R now, returns amount to the final ratio of both, times R·G/F.
func taken(g *Scheme, tick int64, late [2]DelayDistribution, rises, falls []*Ages) float64 {
	var could float64
	for _, a := range rises {
		for i := range a.rows {
			r, part := &a.rows[i], 1.0
			if f := late[0].Share(g, r.block, tick); f > 0 {
				part = min(1, late[1].Share(g, r.block, tick)/f)
			}
			could += float64(r.amount * part)
		}
	}
	back := amount(falls)
	return min(0.5, back/(back+could))
}

// Back returns the share of the present sums that returns will take off, given the share of returns in all amounts. A selection
// with final rises 1 and returns t has F−tG now, and should have F·(1−t).
func Back(share float64, awaited ...Intervals) float64 {
	if share == 0 {
		return 0
	}
	var rises, falls float64
	for _, list := range awaited {
		for i := range list {
			rises += float64(float64(list[i].N) * list[i].Above)
			falls += float64(float64(list[i].N) * list[i].Below)
		}
	}
	t := share / (1 - share)
	come := rises - float64(t*falls)
	if falls >= rises || come <= 0 {
		return 0
	}
	return float64(t*(rises-falls)) / come
}
