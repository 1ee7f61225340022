package checker

import (
	"fmt"
	"math"
	"math/big"
	"slices"
	"strconv"
	"time"

	"github.com/ranker-worker/ranker-worker/config"
	"github.com/ranker-worker/ranker-worker/stream/event"
)

// contextFold is the expected state of a contextual learner: sums of products
// of features, integers in units of 1/127, and payoffs in units of 2⁻³⁰.
type contextFold struct {
	declared   *config.Learner
	cells      map[cellOf]*cellFold
	categories map[uint32]category     // of items, if used
	met        map[uint32]event.Millis // with age: when an item was first carried
	payoffs    int64
	linear     []*big.Int // squares; by feature, its products with each up to it, and with payoffs
	ended      bool       // an item has ended: its remaining payoffs are not followed
	unsure     bool       // an item may have ended: its category may be gone
}

// cellOf is an item and a segment, by number: 0 for undeclared ones, and if none are
// declared. With a clock the segment is multiplied by the clock's levels, plus the level.
type cellOf struct {
	item    uint32
	segment int32
}

// cellFold sums the payoffs fed to a cell: number, sum, and by feature the features' sums.
type cellFold struct {
	n, r int64
	x    []int64
	paid []paidAt
}

// paidAt is a payoff of a selection that began then.
type paidAt struct{ began, r int64 }

// followContext begins to fold features, if all configurations declare the same.
func (lf *learnerFold) followContext() {
	first := lf.variants[0]
	same := !slices.ContainsFunc(lf.variants, func(v *config.Learner) bool {
		return declares(&v.Context) != declares(&first.Context)
	})
	if !first.Context.On() || !same || lf.reset != nil {
		return
	}
	c := &contextFold{declared: first, cells: map[cellOf]*cellFold{}, categories: map[uint32]category{}, met: map[uint32]event.Millis{}}
	for range 1 + c.dim()*(c.dim()+3)/2 {
		c.linear = append(c.linear, new(big.Int))
	}
	lf.context = c
}

func declares(c *config.Context) string {
	return fmt.Sprintf("%v %v %v %q %v %v %s %v", c.User, c.Item, c.Cross, c.Segments, c.Categories, c.Clock, c.TimeZone, c.Age)
}

func (c *contextFold) dim() int {
	d := &c.declared.Context
	n := 1 + len(d.User) + len(d.Item) + len(d.Cross)
	if d.Age {
		n += ageKnots
	}
	return n
}

// ageKnots are at ages of 4^k - 1 minutes, k = 1, 2, …
const ageKnots = 8

// age appends the features of an item's age: from one knot to the next, weight moves linearly in the logarithm.
func (c *contextFold) age(x []int64, i uint32, began event.Millis) []int64 {
	if !c.declared.Context.Age {
		return x
	}
	var old event.Millis
	if first, there := c.met[i]; there {
		old = max(0, began-first)
	}
	at := math.Min(math.Log2(1+float64(old)/60_000)/2, ageKnots)
	above := math.Round(127 * (at - math.Floor(at)))
	for k := 1.0; k <= ageKnots; k++ {
		part := 0.0
		switch k {
		case math.Floor(at):
			part = 127 - above
		case math.Floor(at) + 1:
			part = above
		}
		x = append(x, int64(part))
	}
	return x
}

func (c *contextFold) meet(items []uint32, began event.Millis) {
	for _, i := range items {
		if _, there := c.met[i]; !there && c.declared.Context.Age {
			c.met[i] = max(began, 1)
		}
	}
}

// stepIn returns a feature's value as a step from -127 to 127 of its range.
func stepIn(f config.Feature, v float64) int8 {
	if math.IsNaN(v) {
		return 0
	}
	least, most := f.Range.Min, f.Range.Max
	v = min(max(v, least), most)
	if f.Scale == config.LogScale {
		log := func(x float64) float64 { return math.Copysign(math.Log(1+math.Abs(x)), x) }
		v, least, most = log(v), log(least), log(most)
	}
	middle, half := least/2+most/2, most/2-least/2
	return int8(math.Round(127 * math.Max(-1, math.Min(1, (math.Max(f.Range.Min, math.Min(f.Range.Max, v))-middle)/half))))
}

// ofUser returns the number of the user's steps; a declared segment comes first.
func (c *contextFold) ofUser() int {
	return len(c.declared.Context.User) + min(len(c.declared.Context.Segments), 1)
}

// segment returns the segment number of steps, for an impression that began then.
func (c *contextFold) segment(steps []int8, began event.Millis) (n int32) {
	d := &c.declared.Context
	if len(d.Segments) > 0 {
		n = int32(steps[0])
	}
	zone, err := time.LoadLocation(d.TimeZone) // no name means UTC
	if err != nil {
		return -1
	}
	at := time.UnixMilli(began).In(zone)
	for _, turn := range []config.Turn{config.ByWeekday, config.ByHour} {
		switch {
		case !slices.Contains(d.Clock, turn):
		case turn == config.ByWeekday:
			n = 7*n + int32(at.Weekday()+6)%7
		default:
			n = 24*n + int32(at.Hour())
		}
	}
	return n
}

// stepsOf returns the steps of an impression's user and of each candidate,
// in the record's order; ok is false if declared numbers are missing.
func (c *contextFold) stepsOf(imp *event.Impression) (user []int8, items [][]int8, ok bool) {
	number := func(all []float64, at, of int) float64 {
		if len(all) != 0 && len(all) != of {
			ok = false
			return 0
		}
		if len(all) == 0 {
			return math.NaN()
		}
		return all[at]
	}
	ok = imp.Context.Fault == nil && len(imp.Context.Candidates) == len(imp.Candidates)
	d := &c.declared.Context
	listed := 0
	for _, f := range d.Item {
		if f.Name != "utility" && f.Name != "predicted" {
			listed++
		}
	}
	ok = ok && (len(d.User) == 0 || len(imp.Context.Features) == 0 || len(imp.Context.Features) == len(d.User))
	if len(d.Segments) > 0 {
		user = append(user, int8(1+slices.Index(d.Segments, string(imp.Context.Segment))))
	}
	for k, f := range d.User {
		user = append(user, stepIn(f, number(imp.Context.Features, k, len(d.User))))
	}
	for k := range imp.Candidates {
		if !ok {
			return nil, nil, false
		}
		x, at, steps := &imp.Context.Candidates[k], 0, []int8{}
		ok = listed == 0 || len(x.Features) == 0 || len(x.Features) == listed
		for _, f := range d.Item {
			var v float64
			switch f.Name {
			case "utility":
				v = imp.Candidates[k].Utility
			case "predicted":
				v, f.Range = x.Predicted, c.declared.PayoffRange
			default:
				v = number(x.Features, at, listed)
				at++
			}
			steps = append(steps, stepIn(f, v))
		}
		items = append(items, steps)
	}
	return user, items, ok
}

// vector returns the feature vector of steps: 1, the features, and products of pairs, rounded away from 0.
func (c *contextFold) vector(steps []int8) []int64 {
	d, at := &c.declared.Context, map[string]int{}
	x := []int64{127}
	steps = steps[min(len(d.Segments), 1):]
	for k, f := range append(slices.Clone(d.User), d.Item...) {
		x = append(x, int64(steps[k]))
		at[f.Name] = k + 1
	}
	for _, pair := range d.Cross {
		x = append(x, int64(math.Round(float64(x[at[pair[0]]]*x[at[pair[1]]])/127)))
	}
	return x
}

// see stores the steps of a read impression by position shown; none if its context cannot be read.
func (f *fold) see(l *life) {
	if l.learner == nil || l.learner.context == nil {
		return
	}
	l.learner.context.meet(l.items, l.began)
	user, items, ok := l.learner.context.stepsOf(&f.imp)
	if !ok {
		return
	}
	at := map[uint32]int{}
	for k := range f.imp.Candidates {
		i := f.items.intern(f.imp.Candidates[k].Item)
		if at[i] = k; len(f.imp.Context.Candidates[k].Category) > 0 && l.learner.context.declared.Context.Categories {
			l.learner.context.categories[i] = category(f.imp.Context.Candidates[k].Category)
		}
	}
	for _, i := range l.items {
		k, there := at[i]
		if !there {
			l.steps = nil
			return
		}
		l.steps = append(l.steps, slices.Concat(user, items[k]))
	}
}

// category is an item's category; empty: none.
type category string

func (c category) String() string { return strconv.Quote(string(c)) }

func (c *contextFold) cell(i cellOf) *cellFold {
	if c.cells[i] == nil {
		c.cells[i] = &cellFold{x: make([]int64, c.dim())}
	}
	return c.cells[i]
}

// take adds a normalised payoff of an impression's selected item.
func (c *contextFold) take(l *life, i uint32, payoff float64) {
	x, r := c.age(c.vector(l.steps[l.selected]), i, l.began), inParts(payoff)
	cell := c.cell(cellOf{i, c.segment(l.steps[l.selected], l.began)})
	cell.n++
	cell.r += r
	cell.paid = append(cell.paid, paidAt{int64(l.began), r})
	sums := c.linear
	add := func(n int64) {
		sums[0].Add(sums[0], big.NewInt(n))
		sums = sums[1:]
	}
	c.payoffs++
	add((r*r + 1<<29) >> 30)
	for j, a := range x {
		cell.x[j] += a
		for _, b := range x[:j+1] {
			add(a * b)
		}
		add(a * r)
	}
}

// forget drops an item that has ended, or may have.
func (c *contextFold) forget(i uint32, sure bool) {
	for at, cell := range c.cells {
		if at.item == i {
			c.ended = c.ended || cell.n > 0
			delete(c.cells, at)
		}
	}
	delete(c.categories, i)
	delete(c.met, i)
	c.unsure = c.unsure || !sure
}

// sameContext compares the stored context of an impression with the record's.
func sameContext(l *life, e *entry, at int) bool {
	if l.steps == nil {
		return true // it was adopted unread, or not readable by all configurations
	}
	users := l.learner.context.ofUser()
	want := slices.Clone(l.steps[0][:users])
	for k, steps := range l.steps {
		if e.selected < 0 || k == at {
			want = append(want, steps[users:]...)
		}
	}
	return e.hasContext && e.ofUser == users && slices.Equal(want, e.context)
}
