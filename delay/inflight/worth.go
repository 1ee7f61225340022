package inflight

import "math"

// Payoffs below the default (refunds, complaints) may be later than others. Then what has come so far is better than what will, and a
// selection that is old enough to be taken for one that is never paid may be one whose bad news is still to come. So the lateness of
// both is estimated apart, and an awaited selection counts as so much of one that is never paid, and so much of one that is paid
// below the default.

// rounds is how often the share paid and the share of these that are below the default are reckoned, each by the other. Where payoffs
// below the default are a small part of all selections, the second round changes next to nothing.
const rounds = 3

// Shares are the share of all selections that are paid, see Share, and which part of these is below the default; of the awaited
// selections it mixes Come by that. Nothing is below where nothing has been.
func Shares(settled Outcomes, awaited ...Intervals) (paid, below float64) {
	if settled.Below == 0 {
		return Share(settled, awaited...), 0
	}
	below = float64(settled.Below) / float64(settled.Paid)
	for range rounds {
		mix(below, awaited)
		paid = Share(settled, awaited...)
		below = belowShare(paid, seen{}, settled, awaited)
	}
	mix(below, awaited)
	return Share(settled, awaited...), below
}

// ItemShares are those of one item, drawn towards those of all; see ItemShare.
func ItemShares(paidOfAll, belowOfAll float64, settled Outcomes, awaited ...Intervals) (paid, below float64) {
	if belowOfAll == 0 {
		return ItemShare(paidOfAll, settled, awaited...), 0
	}
	prior := seen{above: trust * paidOfAll * (1 - belowOfAll), below: trust * paidOfAll * belowOfAll, unpaid: trust * (1 - paidOfAll)}
	paid, below = paidOfAll, belowOfAll
	for range rounds {
		mix(below, awaited)
		paid = ItemShare(paidOfAll, settled, awaited...)
		below = belowShare(paid, prior, settled, awaited)
	}
	mix(below, awaited)
	return ItemShare(paidOfAll, settled, awaited...), below
}

// mix sets Come, the share of all payoffs that have come, where so large a share of those that come is below the default.
func mix(below float64, awaited []Intervals) {
	for _, list := range awaited {
		for i := range list {
			x := &list[i]
			x.Come = x.come(below)
		}
	}
}

// come is the share of all payoffs that have come, where so large a share of those that come is below the default.
func (x *Interval) come(below float64) float64 { return x.Above + float64(below*(x.Below-x.Above)) }

// seen are settled selections that an estimate begins with.
type seen struct{ above, below, unpaid float64 }

// belowShare is which part of the payoffs that come is below the default, the likeliest where a share c of selections is paid: of
// both kinds those that have come, by how many could have.
func belowShare(c float64, prior seen, settled Outcomes, awaited []Intervals) float64 {
	above, below := prior.above+float64(settled.Paid-settled.Below), prior.below+float64(settled.Below)
	never := (prior.unpaid + float64(settled.Unpaid)) / (1 - c)
	soon, late := never, never
	for _, list := range awaited {
		for i := range list {
			per := float64(list[i].N) / (1 - float64(c*list[i].Come))
			soon += float64(per * list[i].Above)
			late += float64(per * list[i].Below)
		}
	}
	if !(soon > 0 && late > 0) { // all that has begun was paid
		return below / (above + below)
	}
	above, below = above/soon, below/late
	return below / (above + below)
}

// Worth is what awaited selections count as: in selections that are never paid, and in such as are paid below the default. Both are
// multiples of 2⁻²⁰.
type Worth struct {
	Unpaid, Below float64
	// Back is the part of the sums so far that returns will take off, see Back. It weighs nothing.
	Back float64
}

// Sum is the weight of both.
func (w Worth) Sum() float64 { return w.Unpaid + w.Below }

// Weigh is what awaited selections of an item count as, where a share c of its selections is paid, and of these a share below the
// default. With F for Above, G for Below, and H for what the two are mixed by that share, it is in selections that are never paid
// (1−c)·F/(1−c·H) each. Where nothing is below, so that H is F, that is the probability that it never will be paid, in as far
// as that is known by now: 0 at the selection, 1 at the horizon, F where payoffs are rare, and 0 throughout where all is paid. In
// selections that are paid below the default it is c·below·(F−G)/(1−c·H), as many as would have come by now if they were as soon
// as others. So with what was paid each selection counts as F, and is worth what it comes to. Where payoffs below are the sooner
// ones, none of them is missed.
func Weigh(c, below float64, awaited ...Intervals) Worth {
	var unpaid, missed float64
	for _, list := range awaited {
		for i := range list {
			w := list[i].Weigh(c, below)
			unpaid, missed = unpaid+w.Unpaid, missed+w.Below
		}
	}
	return Worth{Unpaid: math.Round(unpaid*(1<<20)) / (1 << 20), Below: math.Round(missed*(1<<20)) / (1 << 20)}
}

// Weigh is what the selections of one span count as, not rounded; see Weigh. It does not go by Come, which is as of when shares were
// estimated with this span last: it may never have been.
func (x *Interval) Weigh(c, below float64) Worth {
	per := float64(x.N) / (1 - float64(c*x.come(below)))
	return Worth{Unpaid: float64(per * ((1 - c) * x.Above)), Below: float64(per * (c * below * max(0, x.Above-x.Below)))}
}
