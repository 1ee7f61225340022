package checker

import (
	"errors"
	"fmt"
	"math"
	"math/big"
	"slices"
	"strconv"
	"strings"

	"github.com/ranker-worker/ranker-worker/config"
	"github.com/ranker-worker/ranker-worker/stream/event"
)

// contextFold is what a learner must know of what payoffs depend on besides the item: sums of products of features, which are integers in
// units of 1/127, and payoffs in units of 2⁻³⁰.
type contextFold struct {
	declared *config.Learner
	cells    map[uint32]*cellFold
	payoffs  int64
	products [][]*big.Int // by feature, and feature up to that
	paid     []*big.Int   // by feature
	squares  *big.Int
	ended    bool // an item has ended: what is left of its payoffs is not followed
}

// cellFold is what was fed of an item: how many payoffs, their sum, and by feature the sum over them.
type cellFold struct {
	n, r int64
	x []int64
}

// followContext begins to fold what features payoffs had, where all configurations declare the same.
func (lf *learnerFold) followContext() {
	first := lf.variants[0]
	same := !slices.ContainsFunc(lf.variants, func(v *config.Learner) bool {
		return fmt.Sprint(v.Context.User, v.Context.Item, v.Context.Cross) != fmt.Sprint(first.Context.User, first.Context.Item, first.Context.Cross)
	})
	if !first.Context.On() || !same || lf.reset != nil {
		return
	}
	c := &contextFold{declared: first, cells: map[uint32]*cellFold{}, squares: new(big.Int)}
	for j := range c.dim() {
		c.paid = append(c.paid, new(big.Int))
		c.products = append(c.products, nil)
		for range j + 1 {
			c.products[j] = append(c.products[j], new(big.Int))
		}
	}
	lf.context = c
}

func (c *contextFold) dim() int {
	d := &c.declared.Context
	return 1 + len(d.User) + len(d.Item) + len(d.Cross)
}

// stepIn is a number of a feature as one of the steps from -127 to 127 of its range.
func stepIn(f config.Feature, v float64) int8 {
	if math.IsNaN(v) {
		return 0
	}
	middle, half := f.Range.Min/2+f.Range.Max/2, f.Range.Max/2-f.Range.Min/2
	return int8(math.Round(127 * math.Max(-1, math.Min(1, (math.Max(f.Range.Min, math.Min(f.Range.Max, v))-middle)/half))))
}

// stepsOf are the steps of an impression's user, and of each candidate, in the order of the record; ok is false where it does not have the numbers that
// are declared.
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
	ok = ok && (len(imp.Context.Features) == 0 || len(imp.Context.Features) == len(d.User))
	for k, f := range d.User {
		user = append(user, stepIn(f, number(imp.Context.Features, k, len(d.User))))
	}
	for k := range imp.Candidates {
		if !ok {
			return nil, nil, false
		}
		x, at, steps := &imp.Context.Candidates[k], 0, []int8{}
		ok = len(x.Features) == 0 || len(x.Features) == listed
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

// vector is that of a user's and an item's steps: 1, these, and the products of pairs, rounded away from 0.
func (c *contextFold) vector(steps []int8) []int64 {
	d, at := &c.declared.Context, map[string]int{}
	x := []int64{127}
	for k, f := range append(slices.Clone(d.User), d.Item...) {
		x = append(x, int64(steps[k]))
		at[f.Name] = k + 1
	}
	for _, pair := range d.Cross {
		x = append(x, int64(math.Round(float64(x[at[pair[0]]]*x[at[pair[1]]])/127)))
	}
	return x
}

// see notes what is known of an impression that was read, by position shown; nothing where it cannot be read so.
func (f *fold) see(l *life) {
	if l.learner == nil || l.learner.context == nil {
		return
	}
	user, items, ok := l.learner.context.stepsOf(&f.imp)
	if !ok {
		return
	}
	at := map[uint32]int{}
	for k := range f.imp.Candidates {
		at[f.items.intern(f.imp.Candidates[k].Item)] = k
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

// cell is that of an item.
func (c *contextFold) cell(i uint32) *cellFold {
	if c.cells[i] == nil {
		c.cells[i] = &cellFold{x: make([]int64, c.dim())}
	}
	return c.cells[i]
}

// take tells of a normalised payoff of what was selected from an impression.
func (c *contextFold) take(l *life, i uint32, payoff float64) {
	x, r := c.vector(l.steps[l.selected]), inParts(payoff)
	cell := c.cell(i)
	cell.n++
	cell.r += r
	for j, a := range x {
		cell.x[j] += a
		c.paid[j].Add(c.paid[j], big.NewInt(a*r))
		for k, b := range x[:j+1] {
			c.products[j][k].Add(c.products[j][k], big.NewInt(a*b))
		}
	}
	c.payoffs++
	c.squares.Add(c.squares, big.NewInt((r*r+1<<29)>>30))
}

// forget tells that an item has ended.
func (c *contextFold) forget(i uint32) {
	if cell := c.cells[i]; cell != nil && cell.n > 0 {
		c.ended = true
	}
	delete(c.cells, i)
}

// sameContext holds what is stored of an impression against what was read of it.
func sameContext(l *life, e *entry, at int) bool {
	if l.steps == nil {
		return true // it was adopted without being read, or not by all
	}
	users := len(l.learner.context.declared.Context.User)
	want := slices.Clone(l.steps[0][:users])
	for k, steps := range l.steps {
		if e.selected < 0 || k == at {
			want = append(want, steps[users:]...)
		}
	}
	return e.hasContext && e.ofUser == users && slices.Equal(want, e.context)
}

// storedCell is what Redis has of an item's features.
type storedCell struct {
	fed, awaited, paid int64
	x, flying          []int64
}

var errContext = errors.New("it is not as many numbers as it should be")

// loadCell reads "<payoffs> <awaited> <sum of payoffs>", behind them by feature the sums over the payoffs, and where any are awaited those over them.
func (s *storedLearner) loadCell(field, value string) error {
	item, err := strconv.ParseInt(field, 10, 32)
	numbers, bad := integers(value)
	if err != nil || bad != nil || len(numbers) < 3 {
		return errContext
	}
	c := storedCell{fed: numbers[0], awaited: numbers[1], paid: numbers[2]}
	c.x = numbers[3:]
	if c.awaited > 0 {
		half := len(c.x) / 2
		c.x, c.flying = c.x[:half], c.x[half:]
	}
	if s.cells == nil {
		s.cells = map[int64]storedCell{}
	}
	s.cells[item] = c
	return nil
}

func integers(text string) (all []int64, err error) {
	for _, w := range strings.Fields(text) {
		n, err := strconv.ParseInt(w, 10, 64)
		if err != nil {
			return nil, err
		}
		all = append(all, n)
	}
	return all, nil
}

// checkContext compares the sums of features with those of the payoffs taken in, and of the impressions whose payoffs are awaited.
func (lf *learnerFold) checkContext(f *fold) {
	c := lf.context
	if c == nil {
		return
	}
	if f.partial || lf.unknown || lf.loose || lf.imported != nil || !lf.always {
		f.out.open(contextCells)
		f.out.open(contextLinear)
		return
	}
	for number, stored := range lf.stored.cells {
		want := &cellFold{x: make([]int64, c.dim())}
		if cell := c.cells[lf.stored.fold(uint32(number))]; cell != nil {
			want = cell
		}
		if !f.out.ok(contextCells, stored.fed == want.n && stored.paid == want.r && slices.Equal(stored.x, want.x)) {
			f.out.breach(contextCells, lf.name+": "+lf.stored.name(number), fmt.Sprint(want.n, " payoffs of ", want.r, ", sums ", want.x),
				fmt.Sprint(stored.fed, stored.paid, stored.x))
		}
	}
	for i, cell := range c.cells {
		there := slices.ContainsFunc(slices.Collect(keysOf(lf.stored.cells)), func(n int64) bool { return lf.stored.fold(uint32(n)) == i })
		if !f.out.ok(contextCells, there || cell.n == 0) {
			f.out.breach(contextCells, lf.name+": "+f.items.name(i), fmt.Sprint(cell.n, " payoffs, sums ", cell.x), "nothing")
		}
	}
	lf.checkAwaited(f)
	lf.checkLinear(f)
}

func keysOf[V any](all map[int64]V) func(func(int64) bool) {
	return func(yield func(int64) bool) {
		for k := range all {
			if !yield(k) {
				return
			}
		}
	}
}

// checkAwaited: what is awaited of an item are the pending impressions from which it was selected.
func (lf *learnerFold) checkAwaited(f *fold) {
	if !f.state.complete {
		return
	}
	want := map[int64]string{}
	sums := map[int64]*cellFold{}
	for _, e := range f.state.entries {
		if e.kind != pending || f.state.learners[e.learner] != lf.name || e.selected < 0 || !e.hasContext || lf.hasEnded(f, e.items[e.selected], e) {
			continue
		}
		item := int64(e.items[e.selected])
		if sums[item] == nil {
			sums[item] = &cellFold{x: make([]int64, lf.context.dim())}
		}
		sums[item].n++
		for j, a := range lf.context.vector(e.context) {
			sums[item].x[j] += a
		}
	}
	for item, s := range sums {
		want[item] = fmt.Sprint(s.n, s.x)
	}
	got := map[int64]string{}
	for item, c := range lf.stored.cells {
		if c.awaited > 0 {
			got[item] = fmt.Sprint(c.awaited, c.flying)
		}
	}
	compareEach(lf, f, contextCells, want, got, lf.stored.name)
}

// checkLinear: each row of the products of features, and by feature the sum of payoffs.
func (lf *learnerFold) checkLinear(f *fold) {
	c := lf.context
	if c.ended {
		f.out.open(contextLinear)
		return
	}
	if c.payoffs == 0 && len(lf.stored.linear) == 0 {
		return
	}
	equal(f.out, contextLinear, lf.name+": payoffs", fmt.Sprint(c.payoffs, " ", c.squares), lf.stored.linear["payoffs"])
	for j := range c.products {
		var row []string
		for _, sum := range append(slices.Clone(c.products[j]), c.paid[j]) {
			row = append(row, sum.String())
		}
		equal(f.out, contextLinear, fmt.Sprintf("%s: feature %d", lf.name, j), strings.Join(row, " "), lf.stored.linear[strconv.Itoa(j)])
	}
}
