package lab

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/ranker-worker/ranker-worker/internal/simulate"
	"github.com/ranker-worker/ranker-worker/policy"
)

// paymentSchedule draws the payments of selections whose sum counts.
type paymentSchedule interface {
	mean(item policy.Item) float64
	// pay appends a selection's payments, in any order; they are a function of key.
	pay(item policy.Item, key policy.Key, to []part) []part
}

// traceSpans are Traces' spans in minutes, one per impression; the first traceEarlySpans are early.
var traceSpans = [...]int64{70, 230, 600, 900}

const (
	traceHorizon     = 1800 // sum of traceSpans
	traceEarlySpans  = 2
	traceEarly       = 0.15 // mean early payoff over all items, evenly in time
	traceLate        = 0.3
	traceEarlySD     = 0.03 // between items
	traceLateSD      = 0.06
	traceNoise       = 0.25 // deviation of a selection's sum from its item's mean, with factors
	traceCommonNoise = 0.6  // common to all spans and
	traceOwnNoise    = 0.8  // of each span
)

type traced struct{ early, late []float64 }

func newTraced(items int, correlation float64, draws *stream) *traced {
	t := &traced{make([]float64, items), make([]float64, items)}
	next := normalOf(draws)
	for i := range items {
		e, own := next(), next()
		t.early[i] = traceEarly + traceEarlySD*e
		t.late[i] = traceLate + traceLateSD*(correlation*e+math.Sqrt(1-correlation*correlation)*own)
	}
	return t
}

// mean implements paymentSchedule. The sum is normal, cut to [0,1].
func (t *traced) mean(i policy.Item) float64 {
	return simulate.ClippedMean(t.early[i]+t.late[i], traceNoise)
}

// pay implements paymentSchedule, once in each span.
func (t *traced) pay(i policy.Item, key policy.Key, to []part) []part {
	draws := stream{key: key}
	next := normalOf(&draws)
	common := next()
	early := traceSpans[0] + traceSpans[1]
	late := traceSpans[2] + traceSpans[3]
	var from int64
	for k, span := range traceSpans {
		mean, all := t.early[i]*float64(span)/float64(early), traceEarly*float64(span)/float64(early)
		if k >= traceEarlySpans {
			mean, all = t.late[i]*float64(span)/float64(late), traceLate*float64(span)/float64(late)
		}
		share := all / (traceEarly + traceLate)
		noise := traceNoise * (traceCommonNoise*common*share + traceOwnNoise*math.Sqrt(share)*next())
		to = append(to, part{from + int64(draws.below(int(span))), mean + noise})
		from += span
	}
	return to
}

// Customers has ten impressions a day; a customer's repeat purchases within a year count, in dollars.
const (
	customersADay = 10
	customerDays  = 364
	customerMost  = 300
	// customerBands is the number of kinds of customers, by first purchase.
	customerBands = 8
)

// Customers are those of CDNOW, a music shop, by models fitted to a tenth of the 23,570 who first bought there in early 1997.
// Purchases and dropout are BG/NBD (P. Fader, B. Hardie, K. L. Lee, "Counting your customers the easy way", Marketing Science 2005,
// table 2; in weeks), amounts gamma-gamma (the same, "RFM and CLV", Journal of Marketing Research 2005).
const (
	cdnowCustomers     = 23_570
	cdnowR, cdnowAlpha = 0.243, 4.414
	cdnowA, cdnowB     = 0.793, 2.426
	cdnowP, cdnowQ     = 6.25, 3.74
	cdnowGamma         = 15.44
)

type purchase struct {
	week  float64 // since the first
	spent float64
}

// customers are by group; a selection of an item brings a random customer of its group.
type customers struct{ groups [][][]purchase }

func newCustomers(items int, draws *stream) *customers {
	r := rand.New(draws)
	all := make([][]purchase, cdnowCustomers)
	for k := range all {
		all[k] = newCustomer(r)
	}
	return dealt(all, items, draws)
}

// dealt gives each item a group: customers, sorted by first purchase, are cut into bands of equal size, and each band is dealt to
// its items. Items belong to bands in turn, in random order.
func dealt(all [][]purchase, items int, draws *stream) *customers {
	slices.SortStableFunc(all, func(a, b []purchase) int { return cmp.Compare(a[0].spent, b[0].spent) })
	c := &customers{groups: make([][][]purchase, items)}
	order := shuffled(items, draws)
	bands := min(customerBands, items)
	for k, bought := range all {
		band := k * bands / len(all)
		group := order[band+bands*(k%((items-band+bands-1)/bands))]
		c.groups[group] = append(c.groups[group], bought[1:])
	}
	return c
}

// newCustomer draws a customer's purchases within customerDays.
func newCustomer(r *rand.Rand) []purchase {
	rate := gamma(r, cdnowR) / cdnowAlpha
	a, b := gamma(r, cdnowA), gamma(r, cdnowB)
	lost := a / (a + b) // after each repeat purchase
	price := cdnowGamma / gamma(r, cdnowQ)
	bought := []purchase{{0, gamma(r, cdnowP) * price}}
	for week := r.ExpFloat64() / rate; week < customerDays/7.; week += r.ExpFloat64() / rate {
		bought = append(bought, purchase{week, gamma(r, cdnowP) * price})
		if r.Float64() < lost {
			break
		}
	}
	return bought
}

// gamma draws a gamma variable of scale 1 (G. Marsaglia, W. W. Tsang, "A simple method for generating gamma variables", ACM
// Transactions on Mathematical Software 2000).
func gamma(r *rand.Rand, shape float64) float64 {
	if shape < 1 {
		return gamma(r, shape+1) * math.Pow(1-r.Float64(), 1/shape)
	}
	d := shape - 1./3
	c := 1 / math.Sqrt(9*d)
	for {
		x := r.NormFloat64()
		v := 1 + c*x
		if v = v * v * v; v > 0 && math.Log(1-r.Float64()) < x*x/2+d*(1-v+math.Log(v)) {
			return d * v
		}
	}
}

func (c *customers) mean(i policy.Item) float64 {
	var sum float64
	for _, bought := range c.groups[i] {
		var spent float64
		for _, p := range bought {
			spent += p.spent
		}
		sum += min(spent, customerMost)
	}
	return sum / max(1, float64(len(c.groups[i])))
}

func (c *customers) pay(i policy.Item, key policy.Key, to []part) []part {
	group := c.groups[i]
	if len(group) == 0 { // more items than customers
		return to
	}
	for _, p := range group[int(key.Float64(0)*float64(len(group)))] {
		to = append(to, part{int64(p.week * 7 * customersADay), p.spent})
	}
	return to
}
