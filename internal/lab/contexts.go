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

// contextModel describes a scenario in which payoffs may depend on more than the item: each of audienceUsers users has userItems items, of
// which an impression shows some. Learners may receive features, categories, segments, and a prediction of each item.
type contextModel struct {
	sd         float64 // of items' means
	predicts   bool
	error      float64 // of predictions
	misleads   bool    // predictions are independent of means
	useless    int     // features without effect
	personal   int     // features with an effect, drawn for each item and impression
	effect     float64
	categories int
	ofCategory float64 // sd of their means
	segments   int
	ofCell     float64 // sd of the deviations of an item's mean between segments
	tail       float64 // effect of one deviation of the log of a long-tailed feature
	turns      int64   // impressions per turn of θ
	flips      bool    // θ is −θ from 0.4·T on
	stale      bool    // means are others from 0.4·T on
}

// Families of scenarios with contexts: payoffs around the mean; and payoffs 0 or 1 that depend on features alone.
var (
	contextual = family(func() *definition {
		return &definition{items: 2000, impressions: 50_000, late: 1000, fewer: true, payoffs: clipped, deviation: 0.25,
			contexts: &contextModel{sd: 0.08}}
	})
	linear = family(func() *definition {
		return &definition{items: 500, impressions: 20_000, late: 1000, fewer: true, contexts: &contextModel{personal: 8, effect: 0.4}}
	})
)

// ofContexts are scenarios with contexts.
var ofContexts = []*definition{
	contextual("predicted", "20 candidates of 5,000 items, and a prediction of each; features are given, from here to linear-blocks; 1,000 late",
		func(d *definition) { d.items, d.contexts.predicts, d.contexts.error = 5000, true, 0.05 }),
	contextual("misled", "the same; predictions say nothing",
		func(d *definition) {
			d.items, d.contexts.predicts, d.contexts.error, d.contexts.misleads = 5000, true, 0.1, true
		}),
	contextual("useless", "20 candidates of 2,000 items, with 16 features, categories and segments that say nothing",
		func(d *definition) { d.contexts.useless, d.contexts.categories, d.contexts.segments = 16, 40, 4 }),
	contextual("personal", "20 candidates of 2,000 items; payoffs depend on 8 features, others for each user",
		func(d *definition) { d.contexts.sd, d.contexts.personal, d.contexts.effect = 0.06, 8, 0.25 }),
	contextual("categories", "20 candidates of 5,000 items in 40 categories, whose items pay alike",
		func(d *definition) {
			d.items, d.contexts.sd, d.contexts.categories, d.contexts.ofCategory = 5000, 0.05, 40, 0.08
		}),
	contextual("segments", "20 candidates of 400 items, which pay differently in 4 segments of users",
		func(d *definition) { d.items, d.contexts.segments, d.contexts.ofCell = 400, 4, 0.08 }),
	linear("linear", "20 candidates of 500 items, which differ in 8 features alone; payoffs 0 or 1"),
	linear("linear-blocks", "the same; windows as in blocks", func(d *definition) { d.blocks = true }),
	linear("long-tail", "the same; they differ in one feature, of which 95% use 0.4% of its range",
		func(d *definition) { *d.contexts = contextModel{tail: 0.15} }),
	linear("linear-turn", "as linear; effects of features turn once in 10,000 impressions",
		func(d *definition) { d.contexts.turns = 10_000 }),
	linear("linear-flip", "as linear; effects of features are reversed at 0.4·T", func(d *definition) { d.contexts.flips = true }),
	contextual("stale", "as predicted, of 500 items, whose means are others from 0.4·T on; predictions stay", func(d *definition) {
		d.items, d.impressions, d.contexts.predicts, d.contexts.error, d.contexts.stale = 500, 20_000, true, 0.05, true
	}),
}

const (
	audienceUsers   = 1000
	userItems       = 60
	audienceHorizon = 4_000_000 // ms, for payoffs 1,000 s late in the mean
	tailMedian      = 5         // of LongTail's feature; tailSD is the deviation of its log
	tailSD          = 1.26
)

// views is the long-tailed feature.
var views = features.Feature{Name: "views", High: 10_000, Log: true}

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
		d.Item = append(d.Item, views)
	}
	s, err := features.New(d)
	if err != nil {
		panic(fmt.Sprintf("lab: features of a scenario: %v", err))
	}
	return s
}

// learner returns a constructor of contextual learners; nil if the policy is not contextual, or payoffs do not arrive directly.
func (a *contextModel) learner(c *Combination) (func() delay.Learner, error) {
	k := c.Learner.Policy.Spec()
	if !k.Contextual || c.Learner.Delay != "direct" {
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
	if _, err := delay.NewContextual(p, config); err != nil {
		return nil, err
	}
	return func() delay.Learner {
		l, err := delay.NewContextual(p, config)
		if err != nil {
			panic(fmt.Sprintf("lab: a learner could be made once, and not again: %v", err))
		}
		return l
	}, nil
}

// visitors are the users of one run.
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
	draws   *rand.Rand    // for candidates and their features
	drawn   []policy.Item // scratch, like the following
	x       []float64
	now     []int8
}

func newVisitors(a *contextModel, items, candidates int, horizon int64, seed uint64, run int) *visitors {
	draws := rand.New(newStream(seed, run, forItems))
	c := &visitors{contextModel: a, space: a.space(), draws: rand.New(newStream(seed, run, forTastes)), centres: make([]float64, candidates), changes: 2 * horizon / 5}
	var middles []float64 // of categories
	for range a.categories {
		middles = append(middles, a.ofCategory*draws.NormFloat64())
	}
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
		c.users = append(c.users, sample(draws.IntN, items, min(userItems, items), nil))
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

func (c *visitors) introduce(l delay.Learner) {
	for i, kind := range c.kinds {
		l.Categorise(policy.Item(i), fmt.Sprint("category ", kind))
	}
}

// sample draws distinct numbers below n, ascending (R. Floyd's algorithm: J. Bentley, "Programming pearls: A sample of brilliance", CACM
// 1987). below draws a number below its argument.
func sample(below func(int) int, n, many int, to []policy.Item) []policy.Item {
	to = to[:0]
	for top := n - many; top < n; top++ {
		x := policy.Item(below(top + 1))
		if slices.Contains(to, x) {
			x = policy.Item(top)
		}
		to = append(to, x)
	}
	slices.Sort(to)
	return to
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
	c.drawn = sample(c.draws.IntN, len(items), len(candidates), c.drawn)
	for k, at := range c.drawn {
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

// best returns the position of the best candidate within reach of a window.
func (c *visitors) best(window int) int32 {
	at := int32(window - 1)
	for k := at; k < int32(len(c.centres)); k++ {
		if c.centres[k] > c.centres[at] {
			at = k
		}
	}
	return at
}
