package lab

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/ranker-worker/ranker-worker/delay"
	"github.com/ranker-worker/ranker-worker/policy"
	"github.com/ranker-worker/ranker-worker/policy/features"
)

// Scenarios in which payoffs may depend on more than the item.
const (
	// Predicted has 5,000 items (--items) of means N(0.5, 0.08²), and payoffs N(mean, 0.25²) clipped to [0,1], 1,000 impressions
	// late. Each of 1,000 users has 60 items, of which an impression shows 20. Contextual learners receive a prediction of each
	// item: its mean plus N(0, 0.05²).
	Predicted Scenario = "predicted"
	// Misled is Predicted with predictions N(0.5, 0.1²), independent of means.
	Misled Scenario = "misled"
	// Useless is Predicted with 2,000 items, 16 uniform features, 40 categories and 4 segments of users, all without effect.
	Useless Scenario = "useless"
	// Personal is Predicted with 2,000 items of means N(0.5, 0.06²) + 0.25·θᵀx, unit vectors of R⁸; x is drawn in each impression.
	Personal Scenario = "personal"
	// Categories has 5,000 items in 40 categories: means N(N(0.5, 0.08²), 0.05²).
	Categories Scenario = "categories"
	// Segments has 400 items and users of 4 segments; an item's mean is N(0.5, 0.08²) plus N(0, 0.08²) for each segment.
	Segments Scenario = "segments"
	// Linear has 500 items and payoffs 0 or 1 of mean 0.5 + 0.4·θᵀx, x as in Personal. It also suits prior none.
	Linear Scenario = "linear"
	// LinearBlocks is Linear with windows as in Blocks.
	LinearBlocks Scenario = "linear-blocks"
	// LongTail is Linear with one feature of range 0 to 10,000: 5·exp(1.26·z), z ~ N(0,1) for each item and impression, 95% of it
	// below 40. The mean is 0.5 + 0.15·z.
	LongTail Scenario = "long-tail"
	// LinearTurn is Linear with a θ that turns in a plane once in 10,000 impressions.
	LinearTurn Scenario = "linear-turn"
	// LinearFlip is Linear with −θ from 0.4·T on.
	LinearFlip Scenario = "linear-flip"
	// Stale is Predicted with new means of the same distribution from 0.4·T on, and the old predictions.
	Stale Scenario = "stale"
)

// contextModel defines such a scenario.
type contextModel struct {
	items      int
	horizon    int64
	sd         float64 // of items' means
	predicts   bool
	error      float64 // of predictions
	misleads   bool
	useless    int // features without effect
	personal   int // features with an effect, drawn for each item and impression
	effect     float64
	categories int
	ofCategory float64 // sd of their means
	segments   int
	ofCell     float64 // sd of the deviations of an item's mean between segments
	indicators bool    // payoffs are 0 or 1
	blocks     bool
	tail       float64 // effect of one deviation of the log of a long-tailed feature
	turns      int64   // impressions per turn of θ
	flips      bool
	stale      bool
	even       bool // that feature has no logarithmic scale
}

var audiences = map[Scenario]*contextModel{
	Predicted:    {items: 5000, sd: 0.08, predicts: true, error: 0.05},
	Misled:       {items: 5000, sd: 0.08, predicts: true, error: 0.1, misleads: true},
	Useless:      {items: 2000, sd: 0.08, useless: 16, categories: 40, segments: 4},
	Personal:     {items: 2000, sd: 0.06, personal: 8, effect: 0.25},
	Categories:   {items: 5000, sd: 0.05, categories: 40, ofCategory: 0.08},
	Segments:     {items: 400, sd: 0.08, segments: 4, ofCell: 0.08},
	Linear:       {items: 500, horizon: 20_000, personal: 8, effect: 0.4, indicators: true},
	LinearBlocks: {items: 500, horizon: 20_000, personal: 8, effect: 0.4, indicators: true, blocks: true},
	LinearTurn:   {items: 500, horizon: 20_000, personal: 8, effect: 0.4, indicators: true, turns: 10_000},
	LinearFlip:   {items: 500, horizon: 20_000, personal: 8, effect: 0.4, indicators: true, flips: true},
	Stale:        {items: 500, horizon: 20_000, sd: 0.08, predicts: true, error: 0.05, stale: true},
	LongTail:     {items: 500, horizon: 20_000, tail: 0.15, indicators: true},
}

const (
	audienceUsers   = 1000
	userItems       = 60
	audienceNoise   = 0.25
	audienceHorizon = 4_000_000 // ms, for payoffs 1,000 s late in the mean
	tailMedian      = 5         // of LongTail's feature; tailSD is the deviation of its log
	tailSD          = 1.26
)

func (a *contextModel) space() *features.Space {
	d := features.Declaration{Categories: a.categories > 0}
	for k := range a.segments {
		d.Segments = append(d.Segments, fmt.Sprintf("segment %d", k+1))
	}
	if a.predicts {
		d.Item = []features.Feature{{Name: features.Predicted, High: 1}}
	}
	for k := range a.useless + a.personal {
		d.Item = append(d.Item, features.Feature{Name: fmt.Sprintf("feature %d", k+1), Low: -1, High: 1})
	}
	if a.tail > 0 {
		d.Item = append(d.Item, features.Feature{Name: "views", High: 10_000, Log: !a.even})
	}
	s, err := features.New(d)
	if err != nil {
		panic(fmt.Sprintf("lab: features of a scenario: %v", err))
	}
	return s
}

// learner returns a constructor of contextual learners; nil if the policy is not contextual, or payoffs do not arrive directly.
func (a *contextModel) learner(c *Combination) (func() delay.Learner, error) {
	k := c.Learner.Policy.Kind()
	if !k.Personal || c.Learner.Delay != "direct" {
		return nil, nil
	}
	parameters, err := c.Learner.Parameters()
	if err != nil {
		return nil, err
	}
	p, err := k.Rank(parameters)
	if err != nil {
		return nil, err
	}
	config := delay.ContextualConfig{Space: a.space(), Silence: delay.Silence{Horizon: audienceHorizon}, Belief: parameters.Belief}
	if _, err := delay.NewPersonal(p, config); err != nil {
		return nil, err
	}
	return func() delay.Learner {
		l, err := delay.NewPersonal(p, config)
		if err != nil {
			panic(fmt.Sprintf("lab: what could be made once cannot be made again: %v", err))
		}
		return l
	}, nil
}

// visitors is one run of such a scenario.
type visitors struct {
	*contextModel
	space   *features.Space
	means   []float64 // by item, without features' effects
	at      int64     // number of the present impression
	changes int64     // impression at which θ flips or means change
	others  []float64 // means from then on
	first   []float64 // θ as drawn, if it turns, and a unit vector that it turns to
	second  []float64
	steps   [][]int8 // by item: features that do not depend on the impression
	users   [][]policy.Item
	groups  []int       // by user: the segment
	cells   [][]float64 // by segment and item
	kinds   []int       // by item: the category
	theta   []float64
	centres []float64 // by position, of the present impression
	about   policy.Context
	draws   *rand.Rand // for candidates and their features
	x       []float64
	now     []int8
}

func newVisitors(a *contextModel, items, candidates int, horizon int64, seed uint64, run int) *visitors {
	draws := rand.New(newStream(seed, run, forItems))
	c := &visitors{contextModel: a, space: a.space(), draws: rand.New(newStream(seed, run, forTastes)), centres: make([]float64, candidates), changes: 2 * horizon / 5}
	middles := c.drawCategories(draws)
	for range items {
		mean := 0.5 + a.sd*draws.NormFloat64()
		if a.categories > 0 {
			kind := draws.IntN(a.categories)
			mean += middles[kind]
			c.kinds = append(c.kinds, kind)
		}
		var steps []int8
		if a.predicts {
			predicted := mean + a.error*draws.NormFloat64()
			if a.misleads {
				predicted = 0.5 + a.error*draws.NormFloat64()
			}
			step, _ := c.space.Item()[0].Quantise(predicted)
			steps = append(steps, step)
		}
		for range a.useless {
			steps = append(steps, int8(draws.IntN(2*features.One+1)-features.One))
		}
		c.means, c.steps = append(c.means, mean), append(c.steps, steps)
	}
	for range audienceUsers {
		c.users = append(c.users, drawSome(draws, items, min(userItems, items)))
	}
	for s := range a.segments {
		c.cells = append(c.cells, nil)
		for range items {
			c.cells[s] = append(c.cells[s], a.ofCell*draws.NormFloat64())
		}
	}
	for range c.users {
		if a.segments > 0 {
			c.groups = append(c.groups, draws.IntN(a.segments))
		}
	}
	if a.personal > 0 {
		c.theta, c.x = direction(draws, make([]float64, a.personal)), make([]float64, a.personal)
	}
	if a.turns > 0 {
		c.first, c.second = slices.Clone(c.theta), perpendicular(c.theta, direction(draws, make([]float64, a.personal)))
	}
	for range items {
		if a.stale {
			c.others = append(c.others, 0.5+a.sd*draws.NormFloat64())
		}
	}
	return c
}

// perpendicular returns the unit vector in the plane of both at a right angle to the first.
func perpendicular(to, x []float64) []float64 {
	var along, squares float64
	for k := range to {
		along += to[k] * x[k]
	}
	for k := range x {
		x[k] -= along * to[k]
		squares += x[k] * x[k]
	}
	for k := range x {
		x[k] /= math.Sqrt(squares)
	}
	return x
}

func (c *visitors) move() {
	c.at++
	if c.turns > 0 {
		sin, cos := math.Sincos(2 * math.Pi * float64(c.at) / float64(c.turns))
		for k := range c.theta {
			c.theta[k] = cos*c.first[k] + sin*c.second[k]
		}
	}
	if c.at == c.changes && c.flips {
		for k := range c.theta {
			c.theta[k] = -c.theta[k]
		}
	}
	if c.at == c.changes && c.stale {
		copy(c.means, c.others)
	}
}

func (a *contextModel) drawCategories(draws *rand.Rand) (middles []float64) {
	for range a.categories {
		middles = append(middles, a.ofCategory*draws.NormFloat64())
	}
	return middles
}

func (c *visitors) introduce(l delay.Learner) {
	by, ok := l.(delay.Categorising)
	if !ok {
		return
	}
	for i, kind := range c.kinds {
		by.Categorise(policy.Item(i), fmt.Sprint("category ", kind))
	}
}

// drawSome draws distinct numbers below n, ascending.
func drawSome(r *rand.Rand, n, many int) []policy.Item {
	var c []policy.Item
	for top := n - many; top < n; top++ {
		x := policy.Item(r.IntN(top + 1))
		if slices.Contains(c, x) {
			x = policy.Item(top)
		}
		c = append(c, x)
	}
	slices.Sort(c)
	return c
}

func direction(r *rand.Rand, x []float64) []float64 {
	var squares float64
	for k := range x {
		x[k] = r.NormFloat64()
		squares += x[k] * x[k]
	}
	for k := range x {
		x[k] /= math.Sqrt(squares)
	}
	return x
}

// next draws a user, candidates among the user's items, and their features. Item numbers are the utility order.
func (c *visitors) next(candidates []policy.Item) {
	c.move()
	user := c.draws.IntN(len(c.users))
	items, group := c.users[user], -1
	if c.segments > 0 {
		group = c.groups[user]
	}
	c.about.X, c.about.Segment = c.about.X[:0], int32(group+1)
	for k, at := range drawSome(c.draws, len(items), len(candidates)) {
		i := items[at]
		candidates[k] = i
		mean := c.means[i]
		if group >= 0 {
			mean += c.cells[group][i]
		}
		c.now = append(c.now[:0], c.steps[i]...)
		if c.personal > 0 {
			for j, x := range direction(c.draws, c.x) {
				step, _ := c.space.Item()[j].Quantise(x)
				c.now = append(c.now, step)
				mean += c.effect * c.theta[j] * float64(step) / features.One
			}
		}
		if c.tail > 0 {
			z := c.draws.NormFloat64()
			step, _ := c.space.Item()[0].Quantise(tailMedian * math.Exp(tailSD*z))
			c.now = append(c.now, step)
			mean += c.tail * z
		}
		c.centres[k] = min(max(mean, 0.02), 0.98)
		c.about.X = c.space.Vector(c.about.X, nil, c.now)
	}
}

func (c *visitors) mean(position int32) float64 {
	if c.indicators {
		return c.centres[position]
	}
	return clippedMean(c.centres[position], audienceNoise)
}

func (c *visitors) payoff(position int32, luck float64) float64 {
	if c.indicators {
		return indicator(luck < c.centres[position])
	}
	return unit(c.centres[position] + audienceNoise*luck)
}

// best returns the mean of the best candidate within reach of a window.
func (c *visitors) best(window int) float64 {
	at := int32(window - 1)
	for k := at; k < int32(len(c.centres)); k++ {
		if c.centres[k] > c.centres[at] {
			at = k
		}
	}
	return c.mean(at)
}
