package inflight

import "math"

// Payoffs below the default (refunds, complaints) may be later than others. A selection old enough to be taken for never paid may
// then still become one of those. So both have a delay distribution of their own, and a selection in flight has a weight as one
// never paid and one as paid below the default.

// rounds is the number of iterations between the shares paid and below the default; the second changes little.
const rounds = 3

// trustBelow is the weight, in payoffs, of all items' share below the default in an item's. It is large: the share comes from a few old
// selections, and is applied to all young ones, so that its chance errors have the weight of these.
const trustBelow = 256

// Shares returns the share of all selections that are paid, see Share, and the share of payoffs below the default, 0 if there have
// been none. It sets Come of the selections in flight.
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

// ItemShares returns those of one item, drawn towards those of all; see ItemShare.
func ItemShares(paidOfAll, belowOfAll float64, settled Outcomes, awaited ...Intervals) (paid, below float64) {
	if belowOfAll == 0 {
		return ItemShare(paidOfAll, settled, awaited...), 0
	}
	prior := seen{above: trustBelow * (1 - belowOfAll), below: trustBelow * belowOfAll, unpaid: trustBelow * (1 - paidOfAll) / paidOfAll}
	paid, below = paidOfAll, belowOfAll
	for range rounds {
		mix(below, awaited)
		paid = ItemShare(paidOfAll, settled, awaited...)
		below = belowShare(paid, prior, settled, awaited)
	}
	mix(below, awaited)
	return ItemShare(paidOfAll, settled, awaited...), below
}

// mix sets Come for a share of payoffs below the default.
func mix(below float64, awaited []Intervals) {
	for _, list := range awaited {
		for i := range list {
			x := &list[i]
			x.Come = x.come(below)
		}
	}
}

func (x *Interval) come(below float64) float64 { return x.Above + float64(below*(x.Below-x.Above)) }

// seen are the ended selections of a prior.
type seen struct{ above, below, unpaid float64 }

// belowShare returns the most likely share of payoffs below the default, where a share c of selections is paid: payoffs of each
// kind by the number that could have come.
func belowShare(c float64, prior seen, settled Outcomes, awaited []Intervals) float64 {
	above, below := prior.above+float64(settled.Paid-settled.Below), prior.below+float64(settled.Below)
	soon, late := could(c, prior.unpaid+float64(settled.Unpaid), awaited)
	if !(soon > 0 && late > 0) { // all begun selections were paid
		return below / (above + below)
	}
	above, below = above/soon, below/late
	return below / (above + below)
}

// could returns the number of selections from which payoffs of each kind could have come by now. A share c is paid; so many ended unpaid.
func could(c, unpaid float64, awaited []Intervals) (soon, late float64) {
	never := unpaid / (1 - c)
	soon, late = never, never
	for _, list := range awaited {
		for i := range list {
			per := float64(list[i].N) / (1 - float64(c*list[i].Come))
			soon += float64(per * list[i].Above)
			late += float64(per * list[i].Below)
		}
	}
	return soon, late
}

// BelowSoFar returns the share of an item's present payoffs that is below the default, in the mean, if below is the final share. Those
// payoffs may be later than others. A share c of its selections is paid, see ItemShares.
func BelowSoFar(c, below float64, unpaid int64, awaited ...Intervals) float64 {
	soon, late := could(c, float64(unpaid), awaited)
	if !(soon > 0) {
		return below
	}
	late *= below
	return late / (late + float64((1-below)*soon))
}

// Worth is the weight of selections in flight: as never paid, and as paid below the default. Both are multiples of 2⁻²⁰.
type Worth struct {
	Unpaid, Below float64
	// Back is the share of partial payoffs that returns will take off, see Back. It has no weight.
	Back float64
}

// Sum is the weight of both.
func (w Worth) Sum() float64 { return w.Unpaid + w.Below }

// Weigh returns the weight of an item's selections in flight, where a share c of its selections is paid, and a share below of
// payoffs is below the default. With F for Above, G for Below, and H for their mean by that share, each weighs (1−c)·F/(1−c·H) as
// never paid. If below is 0, this is the posterior probability of never being paid. It is 0 at the selection, 1 at the horizon, F
// for rare payoffs, and 0 if all are paid. As paid below the default each weighs c·below·(F−G)/(1−c·H): those that would have come
// by now were they as early as others; none where they are earlier.
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

// Weigh returns the weight of one interval, not rounded; see Weigh. It does not use Come, which may not be set.
func (x *Interval) Weigh(c, below float64) Worth {
	per := float64(x.N) / (1 - float64(c*x.come(below)))
	return Worth{Unpaid: float64(per * ((1 - c) * x.Above)), Below: float64(per * (c * below * max(0, x.Above-x.Below)))}
}
