package inflight

import "slices"

// Where payoffs come in parts, returns and cancellations lower a sum, and may come later than the parts that raise it. Then the sum of a
// young selection is larger than it will be in the end. So the lateness of both is estimated apart, and a part of the sum is taken off.

// Apart is how late parts of payoffs are at a pass: [0] of those that raise sums, [1] of returns, which lower them, and the share of
// returns in all parts. Where most parts lower sums (the default is a high payoff), the two change places, so that the share is 0.5 at the
// most. The two stay together where there are no returns, or these are not later than the rest: then [0] is of all parts, and the share 0.
// Ages, of as many partitions as are given, count parts by their size; one is the size of the whole range of payoffs.
func Apart(g *Scheme, pass int64, one float64, rises, falls []*Ages) (late [2]DelayDistribution, share float64) {
	if amount(falls) > amount(rises) {
		rises, falls = falls, rises
	}
	if amount(falls) > 0 {
		late[0], late[1] = Estimate(g, pass, one, rises...), Estimate(g, pass, one, falls...)
		if late[1].earlier() < late[0].earlier() {
			return late, taken(g, pass, late, rises, falls)
		}
	}
	return [2]DelayDistribution{Estimate(g, pass, one, slices.Concat(rises, falls)...), {}}, 0
}

// amount is the sum of all counts.
func amount(ages []*Ages) (sum float64) {
	for _, a := range ages {
		for i := range a.rows {
			sum += a.rows[i].amount()
		}
	}
	return sum
}

func (r *ageRow) amount() (sum float64) {
	for _, n := range r.bins {
		sum += float64(n)
	}
	return sum
}

// earlier grows as payoffs come earlier, by the logarithm of their age.
func (l *DelayDistribution) earlier() (sum float64) {
	for _, x := range l.come {
		sum += x
	}
	return sum
}

// taken is the share of returns in all parts, 0.5 at the most. Of selections that began in one block a share F of the parts has come that
// raise sums, and a share G of the returns. So where the former amount to R by now, the latter are the ratio of both in the end times R·G/F.
func taken(g *Scheme, pass int64, late [2]DelayDistribution, rises, falls []*Ages) float64 {
	var could float64
	for _, a := range rises {
		for i := range a.rows {
			r, part := &a.rows[i], 1.0
			if f := late[0].Share(g, r.block, pass); f > 0 {
				part = min(1, late[1].Share(g, r.block, pass)/f)
			}
			could += float64(r.amount() * part)
		}
	}
	back := amount(falls)
	return min(0.5, back/(back+could))
}

// Back is the part of awaited selections' sums that returns will take off, by the share of returns in all parts. Of a selection whose parts
// add 1 and whose returns take t, F−tG has come by now. It weighs F, and so its sum is to be F·(1−t).
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
