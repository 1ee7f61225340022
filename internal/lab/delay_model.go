package lab

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/ranker-worker/ranker-worker/policy"
)

// delayModel describes payoffs of a scenario in which a selection is paid late, and only for a good outcome; others are silent until the
// payoff horizon. Items differ by a quality from 0, the worst, to 1, the best. Times are in impressions.
type delayModel struct {
	horizon int64 // default payoff horizon; all payoffs come earlier
	// paid is an item's share of paid selections; wait its mean delay, exponential below horizon.
	paid, wait func(quality float64) float64
	// unequal draws qualities as products of two uniform variables; otherwise they are evenly spaced in random order.
	unequal bool
	// replaced, unless 0, is the number of impressions after which a random live item is replaced.
	replaced int64
	// delay, unless nil, is the payoff's delay by a uniform luck, in place of wait.
	delay func(luck float64) int64
	// spread, unless 0, makes payoffs lognormal of median 1 and this deviation of the log, cut at most (1 for 0).
	spread, most float64
	// surely makes every second item pay its share with each selection, in place of 1 with its share.
	surely bool
	// returned is the share of selections that pay −1, by quality, and returns their delay.
	returned func(quality float64) float64
	returns  int64
	// sums adds all payoffs of a selection until the horizon (aggregate: sum), within the range: several payments, paid being their
	// mean number, or a sale and its return.
	sums, several bool
	// course, unless nil, draws the payments of selections in place of paid and wait; with sums.
	course func(items int, draws *stream) paymentSchedule
	// tide, unless nil, multiplies all shares paid at a time in milliseconds.
	tide func(at int64) float64
	// slower multiplies the delays of every second item, and changed all delays from 0.3·T on; 0 for none.
	slower, changed float64
	// daily delivers payoffs at the end of the day.
	daily bool
	// down and up bound the impressions in which payoffs get lost; 0 and 0 for none.
	down, up int64
}

func rates(low, high float64) func(float64) float64 {
	return func(quality float64) float64 { return low + (high-low)*quality }
}

// growing rises from first for the worst items to times as much for the best.
func growing(first, times float64) func(float64) float64 {
	return func(quality float64) float64 { return first * math.Pow(times, quality) }
}

func always(x float64) func(float64) float64 { return func(float64) float64 { return x } }

// inDays returns a number of days in impressions, one a minute.
func inDays(x float64) int64 { return everyMinute.in(time.Duration(x * float64(day))) }

// Families of scenarios with delays: few are paid, of ten items; items come and go; an impression a minute; and payments in parts.
var (
	conversions = family(func() *definition {
		return &definition{impressions: 60_000, delays: &delayModel{horizon: 12_000, paid: rates(0.02, 0.1), wait: always(3000)}}
	})
	churn = family(func() *definition {
		return &definition{items: 200, fewer: true,
			delays: &delayModel{horizon: 20_000, paid: rates(0.02, 0.32), wait: always(4000), unequal: true, replaced: 250}}
	})
	sales = family(func() *definition {
		return &definition{clock: everyMinute,
			delays: &delayModel{horizon: inDays(30), paid: rates(0.02, 0.1), wait: always(float64(inDays(3)))}}
	})
	inParts = family(func() *definition {
		return &definition{items: 20, impressions: 5000, clock: everyMinute, delays: scheduled(traceHorizon, 0, nil)}
	})
)

// scheduled are delays of payments by a schedule, whose sums are cut at most (1 for 0).
func scheduled(horizon int64, most float64, course func(items int, draws *stream) paymentSchedule) *delayModel {
	return &delayModel{horizon: horizon, paid: always(0), wait: always(0), sums: true, most: most, course: course}
}

// ofDelays are scenarios with delays of their own.
var ofDelays = []*definition{
	conversions("conversions", "2 to 10% are paid, in 3,000 impressions; unpaid ones end after 12,000"),
	conversions("conversions-slow", "the same; bad items pay in 500, good ones in 8,000", func(d *definition) { d.delays.wait = growing(500, 16) }),
	conversions("conversions-fast", "the same; bad items pay in 8,000, good ones in 500", func(d *definition) { d.delays.wait = growing(8000, 1./16) }),
	churn("churn", "20 candidates of 200 items that come and go; 2 to 32% are paid, in 4,000; silence after 20,000"),
	churn("churn-quick", "the same; paid in 200", func(d *definition) { d.delays.wait = always(200) }),
	churn("churn-slow", "the same; bad items pay in 1,000, good ones in 8,000", func(d *definition) { d.delays.wait = growing(1000, 8) }),
	conversions("instalments", "0.2 to 1 payments of 0.1 to 0.3 in the mean; their sum is final after 12,000", func(d *definition) {
		d.delays.paid, d.delays.sums, d.delays.several = rates(0.2, 1), true, true
	}),
	sales("bimodal", "a day has 1,440 impressions, as below unless said; silence after 30 days; 2 to 10%: 80% in an hour, 20% after 14 days",
		func(d *definition) { d.delays.delay = bimodal(0.8) }),
	sales("revenue", "2 to 10% are paid in 3 days, lognormally; the range has 100 medians",
		func(d *definition) { d.delays.spread, d.delays.most = 2, 100 }),
	sales("refunds", "2 to 10% are sold in 3 days; 1 to 4% come to −1 after 10", refunds),
	sales("refunds-sum", "2 to 10% are sold in 3 days, 1 to 4% are returned 10 days later; sums are final after 30", refunds,
		func(d *definition) { d.delays.sums = true }),
	sales("mostly-paid", "40 to 90% are paid, in 6 days", mostlyPaid),
	sales("sure-and-rare", "the same; every second item pays 0.4 to 0.9 with each selection", mostlyPaid,
		func(d *definition) { d.delays.surely = true }),
	sales("bimodal:late", "as bimodal; 20% in an hour, 80% after 14 days", func(d *definition) { d.delays.delay = bimodal(0.2) }),
	sales("halves", "2 to 10% are paid, in 3 days; every second item four times as late", func(d *definition) { d.delays.slower = 4 }),
	sales("halves:most", "the same; 40 to 90%", func(d *definition) { d.delays.paid, d.delays.slower = rates(0.4, 0.9), 4 }),
	churn("faster", "as churn; payoffs come four times as fast from 0.3·T on", func(d *definition) { d.delays.changed = 1. / 4 }),
	churn("slower", "as churn; paid in 1,000, and four times as late from 0.3·T on",
		func(d *definition) { d.delays.wait, d.delays.changed = always(1000), 4 }),
	churn("nightly", "as churn-quick, 8,640 impressions a day; payoffs are delivered at its end", func(d *definition) {
		d.clock, d.delays.horizon, d.delays.wait, d.delays.daily = everyTenSeconds, everyTenSeconds.in(3*day), always(200), true
	}),
	sales("waves", "2 to 8% are paid in 3 days, by day and week between a tenth and 2.7 times as many",
		func(d *definition) { d.delays.paid, d.delays.tide = rates(0.02, 0.08), tide }),
	sales("outage", "2 to 6% are paid in 3 days; payoffs of days 35 to 38 are lost",
		func(d *definition) {
			d.delays.paid, d.delays.down, d.delays.up = rates(0.02, 0.06), inDays(35), inDays(38)
		}),
	sales("rare", "20 candidates of 200 items; 0.2 to 2% are paid, in 3 days",
		func(d *definition) {
			d.items, d.impressions, d.fewer, d.delays.paid = 200, 200_000, true, rates(0.002, 0.02)
		}),
	sales("ten-rare", "0.5 to 2% are paid, in 3 days", func(d *definition) { d.delays.paid = rates(0.005, 0.02) }),
	sales("two", "2 items; 3 and 4% are paid, in 3 days", func(d *definition) { d.items, d.delays.paid = 2, rates(0.03, 0.04) }),

	inParts("traces", "20 items pay in four parts, early and late ones; sums are final after 1,800", correlated(0)),
	inParts("traces-alike", "the same; who pays much early pays much late, by a correlation of 0.9", correlated(0.9)),
	inParts("traces-contrary", "the same; who pays much early pays little late, by one of −0.7", correlated(-0.7)),
	{name: "customers", about: "8 items bring customers, ten a day, who spend up to 300 in a year; sums are final after it",
		items: customerBands, impressions: 500 * customersADay, clock: tenADay,
		delays: scheduled(customerDays*customersADay, customerMost,
			func(items int, draws *stream) paymentSchedule { return newCustomers(items, draws) })},
}

func refunds(d *definition) { d.delays.returned, d.delays.returns = rates(0.01, 0.04), inDays(10) }

func mostlyPaid(d *definition) {
	d.delays.paid, d.delays.wait = rates(0.4, 0.9), always(float64(inDays(6)))
}

// bimodal has a share of delays evenly within an hour, and the others of 14 days.
func bimodal(early float64) func(luck float64) int64 {
	return func(luck float64) int64 {
		if luck < early {
			return int64(luck / early * float64(everyMinute.in(time.Hour)))
		}
		return inDays(14)
	}
}

// correlated is the correlation of items' early and late payoffs.
func correlated(r float64) func(*definition) {
	return func(d *definition) {
		d.delays.course = func(items int, draws *stream) paymentSchedule { return newTraced(items, r, draws) }
	}
}

// tide returns the factor of payments at a time: ±0.8 over the day, ±0.5 over the week.
func tide(at int64) float64 {
	turns := func(d time.Duration) float64 { return 2 * math.Pi * float64(at) / float64(d.Milliseconds()) }
	return (1 + 0.8*math.Sin(turns(day))) * (1 + 0.5*math.Sin(turns(7*day)))
}

// all returns the number of items over so many impressions.
func (t *delayModel) all(items int, impressions int64) int64 {
	if t.replaced == 0 {
		return int64(items)
	}
	return int64(items) + (impressions-1)/t.replaced
}

// payoffRange returns the range of payoffs, defaults included.
func (t *delayModel) payoffRange() (low, high float64) {
	switch {
	case t.returned != nil:
		return -1, 1
	case t.most > 0:
		return 0, t.most
	}
	return 0, 1
}

// eventStream is a run with a delay model.
type eventStream struct {
	*delayModel
	clock   clock
	quality []float64 // by item, like the following
	paid    []float64
	waits   []float64
	course  paymentSchedule // nil without one
	live    []policy.Item   // with replaced, the live items
	line    []policy.Item   // their successors
	leaving []int           // index in live of each successor
	delays  *stream
	numbers *stream    // keys of the numbers of several payments
	late    float64    // luck of the present payoff's delay, uniform on [0,1)
	part    policy.Key // of the present impression
	pace    float64    // factor of all present delays
	turns   int64      // the first impression after the change
	parts   []part     // of the present reply
}

// newEventStream draws a run. Item numbers are the utility order, which is random, since items are drawn alike.
func newEventStream(t *delayModel, c clock, items int, horizon int64, seed uint64, run int) *eventStream {
	all := int(t.all(items, horizon))
	m := &eventStream{delayModel: t, clock: c, quality: make([]float64, all), paid: make([]float64, all), waits: make([]float64, all),
		delays: newStream(seed, run, forDelays), numbers: newStream(seed, run, forParts)}
	m.pace, m.turns = 1, 3*horizon/10+1
	draws := newStream(seed, run, forItems)
	order := shuffled(all, draws)
	for k, item := range order {
		switch {
		case t.unequal:
			m.quality[item] = draws.float64() * draws.float64()
		case all == 1:
			m.quality[item] = 1
		default:
			m.quality[item] = float64(k) / float64(all-1)
		}
		m.paid[item], m.waits[item] = t.paid(m.quality[item]), t.wait(m.quality[item])
		if t.slower > 0 && item%2 == 0 {
			m.waits[item] *= t.slower
		}
	}
	if t.course != nil {
		m.course = t.course(all, draws)
	}
	if t.replaced > 0 {
		m.live, m.line = order[:items], order[items:]
		m.leaving = make([]int, len(m.line))
		for k := range m.leaving {
			m.leaving[k] = draws.below(items)
		}
	}
	return m
}

func (m *eventStream) means() []float64 {
	means := make([]float64, len(m.paid))
	for i, paid := range m.paid {
		switch {
		case m.course != nil:
			means[i] = m.course.mean(policy.Item(i))
		case m.several:
			means[i] = meanSum(paid)
		case m.sums: // sales that were early enough are returned by the horizon
			in := func(within int64) float64 { return -math.Expm1(-float64(within) / m.waits[i]) }
			means[i] = paid - m.delayModel.returned(m.quality[i])*in(m.horizon-m.returns)/in(m.horizon)
		case m.returned != nil:
			means[i] = paid - m.delayModel.returned(m.quality[i])
		case m.spread > 0:
			means[i] = paid * cutLognormal(m.spread, m.most)
		default:
			means[i] = paid
		}
	}
	return means
}

func (m *eventStream) next(t int64) {
	m.late = m.delays.float64()
	if m.changed > 0 && t == m.turns {
		m.pace = m.changed
	}
	if m.several || m.course != nil {
		m.part = policy.Key(m.numbers.Uint64())
	}
	if m.replaced > 0 && t > 1 && (t-1)%m.replaced == 0 {
		k := (t-1)/m.replaced - 1
		m.live[m.leaving[k]] = m.line[k]
	}
}

// reply returns the outcome of a selection in impression t by a uniform luck; its share paid is multiplied by factor. Not with sums.
func (m *eventStream) reply(t int64, item policy.Item, luck, factor float64) Reply {
	paid := m.paid[item] * factor
	switch {
	case m.surely && item%2 == 0:
		return Reply{Payoff: paid, Late: m.delayOf(item, m.late), Paid: true}
	case luck < paid:
		r := Reply{Payoff: 1, Late: m.delayOf(item, m.late)}
		if m.spread > 0 { // the remaining luck is uniform again
			r.Payoff = min(math.Exp(m.spread*math.Sqrt2*math.Erfinv(2*luck/paid-1)), m.most)
		}
		r.Paid = t+r.Late < m.down || t+r.Late >= m.up
		return r
	case m.returned != nil && luck < paid+m.returned(m.quality[item]):
		return Reply{Payoff: -1, Late: m.returns, Paid: true}
	}
	return Reply{}
}

func (m *eventStream) delayOf(item policy.Item, luck float64) int64 {
	if m.delay != nil {
		return m.delay(luck)
	}
	mean := m.waits[item] * m.pace
	return int64(-mean * math.Log1p(luck*math.Expm1(-float64(m.horizon)/mean)))
}

// nightFrom returns the number of impressions until the day ends.
func (m *eventStream) nightFrom(t int64) int64 {
	length := m.clock.in(day)
	return (length - t%length) % length
}

// Sizes of several payments, uniform; their sum counts as at most 1.
const (
	leastPart = 0.1
	partRange = 0.2
)

// replyInParts returns the partial payoffs of a selection, by a uniform luck, that come within so many impressions.
func (m *eventStream) replyInParts(item policy.Item, luck float64, within int64) Reply {
	m.parts = m.parts[:0]
	switch {
	case m.course != nil:
		m.parts = m.course.pay(item, m.part, m.parts)
	case m.several:
		m.payments(item, luck)
	default:
		m.sale(item, luck)
	}
	slices.SortFunc(m.parts, func(a, b part) int { return cmp.Compare(a.late, b.late) })
	var total float64
	kept := m.parts[:0]
	low, high := m.payoffRange()
	for _, p := range m.parts {
		if p.late < within {
			total += p.sum
			kept = append(kept, part{p.late, min(max(total, low), high)})
		}
	}
	return Reply{Payoff: min(max(total, low), high), Late: within, Paid: len(kept) > 0, parts: kept}
}

func (m *eventStream) payments(item policy.Item, luck float64) {
	mean := m.paid[item]
	probability := math.Exp(-mean) // of k payments
	for k := uint64(0); luck >= probability && k < manyParts; k++ {
		luck -= probability
		probability *= mean / float64(k+1)
		m.parts = append(m.parts, part{m.delayOf(item, m.part.Float64(2*k)), leastPart + partRange*m.part.Float64(2*k+1)})
	}
}

// sale draws a sale, and its return.
func (m *eventStream) sale(item policy.Item, luck float64) {
	paid := m.paid[item]
	if luck >= paid {
		return
	}
	sold := m.delayOf(item, m.late)
	m.parts = append(m.parts, part{sold, 1})
	if luck < m.delayModel.returned(m.quality[item]) {
		m.parts = append(m.parts, part{sold + m.returns, -1})
	}
}

// manyParts bounds the number of payments, against rounding.
const manyParts = 100

// meanSum returns the mean of several payments' sum.
func meanSum(mean float64) float64 {
	var value float64
	probability, rest := math.Exp(-mean), 1.0
	for k := 0; ; k++ {
		// The sum of k uniform variables has the distribution function Σ_j (−1)^j·C(k,j)·(x−j)₊^k/k! (Irwin and Hall); E min(X, c)
		// = c − ∫₀^c F.
		c := (1 - leastPart*float64(k)) / partRange
		if c <= 0 {
			return value + rest // 1 for any more
		}
		below, term := 0.0, 1.0
		for j := 0; j <= k && float64(j) < c; j++ {
			below += term * math.Pow(c-float64(j), float64(k+1))
			term *= -float64(k-j) / float64(j+1)
		}
		below /= math.Gamma(float64(k + 2))
		value += probability * (leastPart*float64(k) + partRange*(c-below))
		rest -= probability
		probability *= mean / float64(k+1)
	}
}

// cutLognormal returns the mean of a lognormal variable of median 1, cut at most.
func cutLognormal(deviation, most float64) float64 {
	cdf := func(x float64) float64 { return 0.5 * math.Erfc(-x/math.Sqrt2) }
	top := math.Log(most) / deviation
	return math.Exp(deviation*deviation/2)*cdf(top-deviation) + most*cdf(-top)
}
