package lab

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
)

// Scenario is the name of a simulated world.
type Scenario string

// The scenarios. Payoffs of the first four are N(μ_i, 1); others, and means, lie within [0,1] unless noted.
const (
	// Blocks has windows w_t = 1 + ⌊(t−1)·n/T⌋, the paper's worst case (Theorem 3.5), and μ_i = 1 − (i−1)/n.
	Blocks Scenario = "blocks"
	// Lazy has windows P(w) ∝ e^{−(w−1)/2} and the means of Blocks.
	Lazy Scenario = "lazy"
	// Mixed has uniform windows and μ = .2 .9 .1 .7 .6 .3 .5 0 .4 .15, repeated.
	Mixed Scenario = "mixed"
	// Changing has the windows of Lazy, the means of Mixed, and a fresh order of utilities in each impression.
	Changing Scenario = "changing"
	// Stationary has windows P(w) ∝ 0.7^{w−1}, as all that follow, and Bernoulli payoffs of mean 0.8 − 0.6(i−1)/n.
	Stationary Scenario = "stationary"
	// Constrained: with the phase ⌊log_{1.6}(t+1)⌋ odd, means are 0.8, else 0, and item 3 has always 0.15 more (the
	// stochastically constrained adversary of J. Zimmert and Y. Seldin, 2021).
	Constrained Scenario = "constrained"
	// Switching: up to 0.3·T item ⌈0.8n⌉ has mean 0.9 and the others 0.1, then item 2 has 0.9 and the others 0.05.
	Switching Scenario = "switching"
	// Catalog draws 20 candidates per impression from a catalogue. Items' centres are N(0.75, 0.08²), payoffs N(centre, 0.23²),
	// both clipped to [0,1]. The order of utilities is random, and stays.
	Catalog Scenario = "catalog"
	// Ranks is Constrained with a fresh order of utilities in each impression, and payoffs that belong to utility ranks.
	Ranks Scenario = "ranks"

	// Jackpot: item 1 pays 1 with probability 0.15, else 0; the others N(0.1, 0.01²).
	Jackpot Scenario = "jackpot"
	// JackpotOften is Jackpot with probability 0.3.
	JackpotOften Scenario = "jackpot-0.3"
	// Wandering has Bernoulli payoffs of mean 0.5 + 0.3·sin(2π(t/10⁵ + (7i mod 10)/10)), i from 0; 1,000 late by default.
	Wandering Scenario = "wandering"

	// Rising: item 8 has mean 0.5, item 2 has 0.1 and from 0.3·T on 0.9, the others 0.1: the change is silent. From here to Daily,
	// payoffs are Bernoulli, 1,000 impressions late by default.
	Rising Scenario = "rising"
	// Often: in the k-th of ten phases of T/10 item (8, 2, 6, 3, 9, 1, 4, 7, 5, 10)[k] has mean 0.8, the others 0.2; 100 late.
	Often Scenario = "often"
	// Wave is Constrained with levels 0 and 0.8 in turn, half a period each (2,000 impressions by default).
	Wave Scenario = "wave"
	// Fatigue is Stationary times 1 − load_i: loads decay by 0.999, and a selection adds 0.001 to its item's; 100 late.
	Fatigue Scenario = "fatigue"
	// Jump is Stationary, with the items' means in reverse order from 0.3·T on.
	Jump Scenario = "jump"
	// JumpBusy is Jump with 100 impressions a second; T = 300,000.
	JumpBusy Scenario = "jump-busy"
	// Daily has means 0.65 − 0.3(i−1)/n + 0.3·sin(2πt/86,400); T = 200,000.
	Daily Scenario = "daily"

	// Conversions and the following pay rarely, 1 unless noted; delays, in impressions, are exponential below the payoff horizon H.
	// An impression is a second, from Bimodal on a minute. Conversions has shares paid of 0.02 to 0.1, evenly spaced in random
	// order, a mean delay of 3,000 and H = 12,000.
	Conversions Scenario = "conversions"
	// ConversionsSlow is Conversions with late good items: mean delay 500·16^q, q from 0 for the worst item to 1.
	ConversionsSlow Scenario = "conversions-slow"
	// ConversionsFast is Conversions with early good items: mean delay 8,000·16^{−q}.
	ConversionsFast Scenario = "conversions-fast"
	// Churn has 200 items (--items) live, of which a random one is replaced every 250 impressions, and 20 in an impression. Shares
	// paid are 0.02 + 0.3·q, q the product of two uniform variables; mean delay 4,000, H = 20,000.
	Churn Scenario = "churn"
	// ChurnQuick is Churn with delays of mean 200.
	ChurnQuick Scenario = "churn-quick"
	// ChurnSlow is Churn with delays of mean 1,000·8^q.
	ChurnSlow Scenario = "churn-slow"
	// Instalments is Conversions with Poisson payments, of mean 0.2 to 1 and sizes from 0.1 to 0.3. Their sum counts, at most 1.
	Instalments Scenario = "instalments"
	// Bimodal has 80% of payoffs uniform over an hour, and 20% after 14 days. From here on H is 30 days, mean delays are 3 days,
	// and shares those of Conversions, unless noted.
	Bimodal Scenario = "bimodal"
	// Revenue has lognormal payoffs of median 1 and log deviation 2, cut at 100, the range's end.
	Revenue Scenario = "revenue"
	// Refunds: besides, a share of 0.01 (worst item) to 0.04 (best) of selections pays −1, after 10 days.
	Refunds Scenario = "refunds"
	// RefundsSum: of the sales, Refunds' shares are returned 10 days later; the sum of 1 and −1 counts.
	RefundsSum Scenario = "refunds-sum"
	// MostlyPaid has shares paid of 0.4 to 0.9, and a mean delay of 6 days.
	MostlyPaid Scenario = "mostly-paid"
	// SureAndRare is MostlyPaid, but every second item pays its mean with each selection: equal means differ in shares paid.
	SureAndRare Scenario = "sure-and-rare"
	// BimodalLate is Bimodal with 20% of payoffs within the hour and 80% after 14 days.
	BimodalLate Scenario = "bimodal:late"
	// Halves has delays of mean 3 days, and every second item pays four times as late.
	Halves Scenario = "halves"
	// HalvesMost is Halves with shares paid of 0.4 to 0.9.
	HalvesMost Scenario = "halves:most"
	// Faster is Churn with mean delays of a quarter from 0.3·T on.
	Faster Scenario = "faster"
	// Slower is Churn with mean delays of 1,000, and four times that from 0.3·T on.
	Slower Scenario = "slower"
	// Nightly is ChurnQuick with an impression every ten seconds, payoffs delivered at the end of each day, and H = 3 days.
	Nightly Scenario = "nightly"
	// Waves has shares paid of 0.02 to 0.08 times (1 + 0.8·sin(2π·days))·(1 + 0.5·sin(2π·weeks)).
	Waves Scenario = "waves"
	// Outage has shares paid of 0.02 to 0.06; payoffs that would come from day 35 to day 38 are lost.
	Outage Scenario = "outage"
	// Rare has 200 items, 20 of them in an impression, with shares paid of 0.002 to 0.02; the order of utilities is random.
	Rare Scenario = "rare"
	// TenRare has 10 items with shares paid of 0.005 to 0.02.
	TenRare Scenario = "ten-rare"
	// Two has 2 items, with shares paid of 0.03 and 0.04.
	Two Scenario = "two"

	// Traces has 20 items paid in four parts, each at a uniform time in spans that end after 70, 300, 900 and 1,800 impressions.
	// Items pay N(0.15, 0.03²) in the first two and N(0.3, 0.06²) in the last two, by length, with noise of 0.25 in all. The sum
	// counts, cut to [0,1], at the end. T = 5,000.
	Traces Scenario = "traces"
	// TracesAlike is Traces with a correlation of 0.9 between items' early and late payoffs.
	TracesAlike Scenario = "traces-alike"
	// TracesContrary is Traces with a correlation of −0.7.
	TracesContrary Scenario = "traces-contrary"
	// Customers has items that bring customers, ten a day, of eight kinds by first purchase. Their later purchases within 364 days
	// count, up to 300, by models fitted to a shop. T = 5,000.
	Customers Scenario = "customers"
)

// scenarios lists all in the order of documentation, each with a line for people.
var scenarios = []struct {
	name  Scenario
	about string
}{
	{Blocks, "the paper's worst case: windows grow, one block after the other; normal payoffs"},
	{Lazy, "short windows mostly, P(w) ∝ e^(−w/2); normal payoffs"},
	{Mixed, "uniform windows, mixed means; normal payoffs"},
	{Changing, "as mixed, and each user has an order of his own"},
	{Stationary, "payoffs 0 or 1 of mean 0.2 to 0.8; P(w) ∝ 0.7^w, as all below"},
	{Constrained, "means rise and fall together"},
	{Switching, "the best item changes once, at 0.3·T"},
	{Catalog, "20 candidates of 2,000 items"},
	{Ranks, "as constrained, and payoffs belong to ranks"},
	{Jackpot, "one item pays 1 with probability 0.15, the others 0.1 nearly always"},
	{JackpotOften, "the same with probability 0.3"},
	{Wandering, "means rise and fall by 0.3, each at its own time, in 100,000 impressions; payoffs 1,000 late"},
	{Rising, "the shown item stays, and another becomes better at 0.3·T; 1,000 late, as all to daily but two"},
	{Often, "the best item changes ten times; 100 late"},
	{Wave, "as constrained, but the level changes every half --period"},
	{Fatigue, "as stationary, but items selected often pay less; 100 late"},
	{Jump, "as stationary, but the best item becomes the worst at 0.3·T"},
	{JumpBusy, "the same, 100 impressions a second"},
	{Daily, "all means rise and fall by 0.3 in 86,400 impressions"},
	{Predicted, "20 candidates of 5,000 items, and a prediction of each; features are given, from here to linear-blocks; 1,000 late"},
	{Misled, "the same; predictions say nothing"},
	{Useless, "20 candidates of 2,000 items, with 16 features, categories and segments that say nothing"},
	{Personal, "20 candidates of 2,000 items; payoffs depend on 8 features, others for each user"},
	{Categories, "20 candidates of 5,000 items in 40 categories, whose items pay alike"},
	{Segments, "20 candidates of 400 items, which pay differently in 4 segments of users"},
	{Linear, "20 candidates of 500 items, which differ in 8 features alone; payoffs 0 or 1"},
	{LinearBlocks, "the same; windows as in blocks"},
	{LongTail, "the same; they differ in one feature, of which 95% use 0.4% of its range"},
	{LinearTurn, "as linear; effects of features turn once in 10,000 impressions"},
	{LinearFlip, "as linear; effects of features are reversed at 0.4·T"},
	{Stale, "as predicted, of 500 items, whose means are others from 0.4·T on; predictions stay"},
	{Conversions, "2 to 10% are paid, in 3,000 impressions; unpaid ones end after 12,000"},
	{ConversionsSlow, "the same; bad items pay in 500, good ones in 8,000"},
	{ConversionsFast, "the same; bad items pay in 8,000, good ones in 500"},
	{Churn, "20 candidates of 200 items that come and go; 2 to 32% are paid, in 4,000; silence after 20,000"},
	{ChurnQuick, "the same; paid in 200"},
	{ChurnSlow, "the same; bad items pay in 1,000, good ones in 8,000"},
	{Instalments, "0.2 to 1 payments of 0.1 to 0.3 in the mean; their sum is final after 12,000"},
	{Bimodal, "from here on an impression a minute, silence after 30 days; 2 to 10%: 80% in an hour, 20% after 14 days"},
	{Revenue, "2 to 10% are paid in 3 days, lognormally; the range has 100 medians"},
	{Refunds, "2 to 10% are sold in 3 days; 1 to 4% come to −1 after 10"},
	{RefundsSum, "2 to 10% are sold in 3 days, 1 to 4% are returned 10 days later; sums are final after 30"},
	{MostlyPaid, "40 to 90% are paid, in 6 days"},
	{SureAndRare, "the same; every second item pays 0.4 to 0.9 with each selection"},
	{BimodalLate, "as bimodal; 20% in an hour, 80% after 14 days"},
	{Halves, "2 to 10% are paid, in 3 days; every second item four times as late"},
	{HalvesMost, "the same; 40 to 90%"},
	{Faster, "as churn; payoffs come four times as fast from 0.3·T on"},
	{Slower, "as churn; paid in 1,000, and four times as late from 0.3·T on"},
	{Nightly, "as churn-quick, 8,640 impressions a day; payoffs are delivered at its end"},
	{Waves, "2 to 8% are paid in 3 days, by day and week between a tenth and 2.7 times as many"},
	{Outage, "2 to 6% are paid in 3 days; payoffs of days 35 to 38 are lost"},
	{Rare, "20 candidates of 200 items; 0.2 to 2% are paid, in 3 days"},
	{TenRare, "0.5 to 2% are paid, in 3 days"},
	{Two, "2 items; 3 and 4% are paid, in 3 days"},
	{Traces, "20 items pay in four parts, early and late ones; sums are final after 1,800"},
	{TracesAlike, "the same; who pays much early pays much late, by a correlation of 0.9"},
	{TracesContrary, "the same; who pays much early pays little late, by one of −0.7"},
	{Customers, "8 items bring customers, ten a day, who spend up to 300 in a year; sums are final after it"},
	{Tastes, "20 items; all select, and each user's utilities deviate by 2 gaps between neighbours"},
	{TastesFar, "the same; by 8 gaps"},
	{NoiseFifth, "20 items; all select, a fifth of the users anything in their window"},
	{Unscored, "20 items; all select, a quarter of the items have no utility"},
	{Unseen, "20 items; half of the impressions are not looked at, whatever the ranking"},
	{UnseenMost, "the same; nine in ten"},
	{UnseenTastes, "the same; half, and each user's utilities deviate by 2 gaps"},
	{UnseenUniform, "the same; uniform windows of 1 to 10"},
	{Abandon, "20 items; the favourite of the window is taken with probability 0.03 to 0.63, by utility; else the user leaves"},
	{AbandonAnti, "the same; items that users like pay little"},
	{AbandonRare, "the same as abandon; a tenth of the payoffs, 1,000 late"},
	{AbandonBots, "the same; half of the impressions are not looked at"},
	{AbandonNear, "the same; who looks little leaves sooner"},
	{AbandonFar, "the same; who looks far leaves sooner"},
	{AbandonPlace, "the same; taken less by a tenth at each place"},
	{AbandonMany, "the same; 20 candidates of 500 items"},
	{AbandonApart, "the same; how likely an item is taken has nothing to do with utility"},
	{AbandonMild, "as abandon:anti, taken with probability 0.5 to 0.7"},
	{AbandonSwapped, "as abandon; how likely items are taken is reversed half-way"},
	{AbandonTastes, "the same; each user's utilities deviate by 2 gaps"},
	{AbandonUniform, "the same; uniform windows of 1 to 10"},
	{AbandonShort, "the same; windows P(w) ∝ 0.3^w"},
	{Cascade, "20 items; users go down their window and take the first that they like, with probability 0.03 to 0.63"},
	{CascadeAnti, "the same; items that users like pay little"},
	{Daypart, "20 items, an impression a minute; each has its quarter of the day; payoffs 12 hours late"},
	{DaypartSoon, "the same; 10 minutes late"},
	{Weekend, "the same; items of the week and of the weekend, payoffs two days late"},
	{Hours, "the same; each pays differently in each hour of the day; 12 hours late"},
	{News, "20 items at a time, alive for six hours, of whose interest half is left every two; 30 minutes late"},
}

// Scenarios returns all in the order of documentation.
func Scenarios() []Scenario {
	names := make([]Scenario, len(scenarios))
	for k, s := range scenarios {
		names[k] = s.name
	}
	return names
}

// About describes the scenario in a line.
func (s Scenario) About() string {
	for _, x := range scenarios {
		if x.name == s {
			return x.about
		}
	}
	return ""
}

// ParseScenario returns the scenario of a name. It fails for an unknown one.
func ParseScenario(name string) (Scenario, error) {
	if s := Scenario(name); slices.Contains(Scenarios(), s) {
		return s, nil
	}
	var names []string
	for _, s := range Scenarios() {
		names = append(names, string(s))
	}
	return "", fmt.Errorf("%q is unknown; there are %s", name, strings.Join(names, ", "))
}

// listLength is the number of candidates in an impression that shows only some items.
const listLength = 20

// DefaultItems returns the default number of items.
func (s Scenario) DefaultItems() int {
	switch t := trades[s]; {
	case t != nil:
		return t.items
	case audiences[s] != nil:
		return audiences[s].items
	case shops[s] != nil:
		return shops[s].items
	case rhythms[s] != nil:
		return rhythmItems
	case s == News:
		return newsItems
	case s == Catalog:
		return 2000
	}
	return 10
}

// DefaultHorizon returns the default T.
func (s Scenario) DefaultHorizon() int64 {
	switch t := trades[s]; {
	case t != nil:
		return t.impressions
	case audiences[s] != nil && audiences[s].horizon > 0:
		return audiences[s].horizon
	case rhythms[s] != nil:
		return everyMinute.in(time.Duration(rhythms[s].days) * day)
	case s == News:
		return everyMinute.in(newsDays * day)
	case s.jackpot() > 0, audiences[s] != nil:
		return 50_000
	case s == Tastes, s == TastesFar, s == NoiseFifth, s == Unscored:
		return 60_000
	case s == Wandering, s == Daily:
		return 200_000
	case s == JumpBusy:
		return 300_000
	}
	return 100_000
}

// DefaultLateness returns the payoffs' default delay.
func (s Scenario) DefaultLateness() Lateness {
	if x := rhythms[s]; x != nil {
		return Lateness{Mean: everyMinute.in(x.late)}
	}
	switch s {
	case Wandering, Rising, Wave, Jump, JumpBusy, Daily, Predicted, Misled, Useless, Personal, Categories, Segments, Linear, LinearBlocks, LongTail, LinearTurn, LinearFlip, Stale,
		AbandonRare:
		return Lateness{Mean: 1000}
	case Often, Fatigue:
		return Lateness{Mean: 100}
	case News:
		return Lateness{Mean: everyMinute.in(newsLate)}
	}
	return Lateness{}
}

// DefaultPeriod is Wave's default period, in impressions.
const DefaultPeriod = 2000

// OwnDelays returns whether the scenario defines the payoffs' delays.
func (s Scenario) OwnDelays() bool { return trades[s] != nil }

// PayoffHorizon returns the number of impressions after which an unpaid selection expires; 0 if all are paid.
func (s Scenario) PayoffHorizon() int64 {
	if t := trades[s]; t != nil {
		return t.horizon
	}
	return 0
}

func (s Scenario) clock() clock {
	if t := trades[s]; t != nil {
		return t.clock
	}
	switch {
	case rhythms[s] != nil, s == News:
		return everyMinute
	case s == JumpBusy:
		return hundredASecond
	}
	return everySecond
}

// payoffRange returns the range of payoffs for learners' normalisation; normal payoffs are not normalised.
func (s Scenario) payoffRange() (low, high float64) {
	if t := trades[s]; t != nil {
		return t.payoffRange()
	}
	return 0, 1
}

func (s Scenario) fewer() bool {
	t := trades[s]
	if x := shops[s]; x != nil {
		return x.fewer
	}
	return s == Catalog || s == News || audiences[s] != nil || t != nil && t.fewer
}

// Candidates returns the number of candidates per impression, given the number of items.
func (s Scenario) Candidates(items int) int {
	if s.fewer() {
		return min(items, listLength)
	}
	return items
}

// Gaussian returns whether payoffs are N(μ, 1).
func (s Scenario) Gaussian() bool {
	return s == Blocks || s == Lazy || s == Mixed || s == Changing
}

// normal returns whether payoffs' luck is standard normal; otherwise it is uniform on [0,1).
func (s Scenario) normal() bool {
	return audiences[s] != nil && !audiences[s].indicators || s.Gaussian() || s == Catalog || s.jackpot() > 0
}

// jackpot returns item 1's payment probability in Jackpot scenarios; 0 for others.
func (s Scenario) jackpot() float64 {
	switch s {
	case Jackpot:
		return 0.15
	case JackpotOften:
		return 0.3
	}
	return 0
}

// Sigma returns the sub-Gaussian parameter of payoffs, in payoff ranges.
func (s Scenario) Sigma() float64 {
	if s.Gaussian() {
		return 1
	}
	return 0.5 // any payoff within [0,1] (Hoeffding)
}

// FitsAdversarial returns whether adversarial policies can run: they need payoffs within a range and one distribution of windows.
func (s Scenario) FitsAdversarial() bool { return !s.Gaussian() && s != LinearBlocks }

// AgainstFixed returns whether regret is Σ_w q_w·max_{i≥w} L_i − Σ_t μ_{t,y_t}, against the best fixed ranking (of ranks for
// Ranks). Otherwise it is Σ_t (μ_{y*_t} − μ_{y_t}), against each impression's best ranking.
func (s Scenario) AgainstFixed() bool {
	return s == Stationary || s == Constrained || s == Switching || s == Ranks
}

func (s Scenario) fixedOrder() bool { return s != Changing && s != Ranks && !s.fewer() }

func (s Scenario) constant() bool {
	switch s {
	case Blocks, Lazy, Mixed, Changing, Stationary, Jackpot, JackpotOften:
		return true
	}
	return false
}

func (s Scenario) moves() bool {
	t := trades[s]
	return s == Wandering || s == Daily || s == Fatigue || rhythms[s] != nil || s == News || t != nil && t.tide != nil
}

func (s Scenario) blocks() bool { return s == Blocks || s == LinearBlocks }

// stableOrder returns whether items' order of utilities stays, so that it can be found.
func (s Scenario) stableOrder() bool { return s != Changing && s != Ranks }

// Ratio returns the ratio of the window distribution P(w) ∝ ratio^w on 1..Candidates; 0 if windows are not drawn (Blocks).
func (s Scenario) Ratio() float64 {
	switch s {
	case Blocks, LinearBlocks:
		return 0
	case Lazy, Changing:
		return math.Exp(-0.5)
	case Mixed:
		return 1
	}
	return 0.7
}

const (
	jackpotOthers = 0.1
	jackpotNoise  = 0.01
	wanderingTurn = 100_000 // impressions
	dailyTurn     = 86_400
	rested        = 0.999 // share of a load left after an impression
)

// means returns the means of n items, if they are constant and not drawn; zeros for Wandering and Daily.
func (s Scenario) means(n int) []float64 {
	mixed := [...]float64{.2, .9, .1, .7, .6, .3, .5, 0, .4, .15}
	means := make([]float64, n)
	for i := range means {
		switch s {
		case Blocks, Lazy:
			means[i] = 1 - float64(i)/float64(n)
		case Mixed, Changing:
			means[i] = mixed[i%len(mixed)]
		case Stationary, Fatigue, Jump, JumpBusy:
			means[i] = 0.8 - 0.6*float64(i)/float64(n)
		case Jackpot, JackpotOften:
			means[i] = jackpotOthers
			if i == 0 {
				means[i] = s.jackpot()
			}
		}
	}
	return means
}

// period is a stretch of impressions with constant means.
type period struct {
	from  int64 // the first t
	level int   // index of the means
}

// levels returns all sets of means, and the periods in which they hold, the first from t = 1. Not for Catalog and trades, whose
// means are drawn; means that change with each impression have one level, which is overwritten. turn is Wave's period.
func (s Scenario) levels(n int, horizon, turn int64) (means [][]float64, periods []period) {
	all := func(mean float64) []float64 {
		m := make([]float64, n)
		for i := range m {
			m[i] = mean
		}
		return m
	}
	set := func(m []float64, item int, mean float64) { // items from 1; with few items it may not exist
		if item <= n {
			m[item-1] = mean
		}
	}
	switch s {
	case Constrained, Ranks:
		even, odd := all(0), all(0.8)
		set(even, 3, 0.15)
		set(odd, 3, 0.95)
		phase := func(t int64) int { return int(math.Log(float64(t+1)) / math.Log(1.6)) }
		for t := int64(1); t <= horizon; {
			k := phase(t)
			periods = append(periods, period{t, k % 2})
			next := max(t+1, int64(math.Pow(1.6, float64(k+1)))-2) // near the phase's end, from below
			for phase(next) == k {
				next++
			}
			t = next
		}
		return [][]float64{even, odd}, periods
	case Switching:
		before, after := all(0.1), all(0.05)
		set(before, (4*n+4)/5, 0.9)
		set(after, 2, 0.9)
		return [][]float64{before, after}, once(horizon)
	case Rising:
		before := all(0.1)
		set(before, 8, 0.5)
		after := slices.Clone(before)
		set(after, 2, 0.9)
		return [][]float64{before, after}, once(horizon)
	case Jump, JumpBusy:
		before := s.means(n)
		after := slices.Clone(before)
		slices.Reverse(after)
		return [][]float64{before, after}, once(horizon)
	case Often:
		return phases(n, horizon)
	case Wave:
		low, high := all(0), all(0.8)
		set(low, 3, 0.15)
		set(high, 3, 0.95)
		for k := int64(0); turn*k/2 < horizon; k++ {
			periods = append(periods, period{turn*k/2 + 1, int(k % 2)})
		}
		return [][]float64{low, high}, periods
	}
	return [][]float64{s.means(n)}, []period{{1, 0}}
}

// once returns the periods of a change after 0.3 of all impressions.
func once(horizon int64) []period {
	if begins := 3*horizon/10 + 1; begins > 1 {
		return []period{{1, 0}, {begins, 1}}
	}
	return []period{{1, 1}}
}

var bestOften = [...]int{8, 2, 6, 3, 9, 1, 4, 7, 5, 10}

func phases(n int, horizon int64) (means [][]float64, periods []period) {
	for k, best := range bestOften {
		m := make([]float64, n)
		for i := range m {
			m[i] = 0.2
		}
		if best <= n {
			m[best-1] = 0.8
		}
		means = append(means, m)
		from := horizon*int64(k)/int64(len(bestOften)) + 1
		if len(periods) > 0 && periods[len(periods)-1].from == from { // fewer impressions than phases
			periods = periods[:len(periods)-1]
		}
		periods = append(periods, period{from, k})
	}
	return means, periods
}
