package preference

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"

	"github.com/ranker-worker/ranker-worker/policy"
)

// Margin is the majority by which a pair of items is decided that users have selected in both orders. If each user who
// sees both errs independently with probability at most 1/4, the wrong one reaches it first with probability at most
// 1/(1+3⁵) = 0.41 % (the gambler's ruin), after at most 10 comparisons on average. Users who cannot tell the two apart
// take 25 on average to have them ordered somehow.
const Margin = 5

// maxCount bounds a count: more says nothing more.
const maxCount = 1 << 40

// pair is two items.
type pair struct{ low, high policy.Item } // numbers, low < high

// pairCount is how often, of a pair, each was selected below the other: low over high, and high over low.
type pairCount struct {
	explored [2]int64 // in impressions ranked so as to find the order
	against  [2]int64 // in others, where only what contradicts their order is counted
}

// Add is the number of all selections of both.
func (t pairCount) Add(o pairCount) pairCount {
	return pairCount{
		[2]int64{t.explored[0] + o.explored[0], t.explored[1] + o.explored[1]},
		[2]int64{t.against[0] + o.against[0], t.against[1] + o.against[1]},
	}
}

// side is what is told of one over the other.
func (t pairCount) side(side int) reported { return reported{t.explored[side], t.against[side]} }

// all is how often one was selected over the other, whatever made the ranking.
func (t pairCount) all(side int) int64 { return t.explored[side] + t.against[side] }

// compared is 1 where the two were compared in an explored impression.
func (t pairCount) compared() int64 {
	if t.explored[0]+t.explored[1] > 0 {
		return 1
	}
	return 0
}

// opposed is how many selections contradict what most say.
func (t pairCount) opposed() int64 { return min(t.all(0), t.all(1)) }

// majority is that of the first of a pair over the second, or for side 1 of the second over the first. What was counted
// against an order that was taken for certain tells one side only, for who agrees with it is not counted: it undoes what was
// explored by a majority of Margin, and not before.
func (t pairCount) majority(side int) int64 {
	if m := t.all(side) - t.all(1-side); m >= Margin || m <= -Margin {
		return m
	}
	return majority(t.explored[side], t.explored[1-side])
}

func (t pairCount) firstMajority() int64 { return t.majority(0) }

// exploredMajority is that of the first over the second in explored impressions alone.
func (t pairCount) exploredMajority() int64 { return majority(t.explored[0], t.explored[1]) }

// majority is by how much the first of a pair is preferred; negative where the second is, 0 where the pair is undecided. One
// selection decides a pair as long as none contradicts it; then it takes a majority of Margin.
func majority(first, second int64) int64 {
	m := first - second
	if (first == 0 || second == 0) || m >= Margin || m <= -Margin {
		return m
	}
	return 0
}

// counts are sparse pair counts: there are those that were ever added to.
type counts struct {
	at    map[uint64]int32 // by pairKey: where in pairs
	pairs []pair
	sums  policy.Totals[pairCount] // by place in pairs; of changes, bits say which side of own

	compared []int64 // by item: with how many others it was compared in explored impressions
	against  []int64 // by item: how often it was, against the order, in another
	opposed  int64   // selections that contradict what most say of their pair
	disputed int64   // those of them of explored impressions

	field []byte
	value []byte
}

// init makes them counts of no items yet. They must not move: they keep up what hangs on them.
func (c *counts) init() {
	c.at = map[uint64]int32{}
	c.sums = policy.NewTotals(c.keepUp)
}

// keepUp keeps up what hangs on the pooled counts of all pairs.
func (c *counts) keepUp(at int32, before, after pairCount) {
	c.opposed += after.opposed() - before.opposed()
	c.disputed += min(after.explored[0], after.explored[1]) - min(before.explored[0], before.explored[1])
	p := &c.pairs[at]
	compared := after.compared() - before.compared()
	against := after.against[0] + after.against[1] - before.against[0] - before.against[1]
	for _, i := range [...]policy.Item{p.low, p.high} {
		c.compared[i] += compared
		c.against[i] += against
	}
}

// grow makes room for items 0..items-1.
func (c *counts) grow(items int) {
	if more := items - len(c.compared); more > 0 {
		c.compared, c.against = extend(c.compared, more), extend(c.against, more)
	}
}

func pairKey(low, high policy.Item) uint64 { return uint64(uint32(low))<<32 | uint64(uint32(high)) }

// find gives the pair of two different items, and the place in its counts of a selected over b.
func (c *counts) find(a, b policy.Item) (at int32, side int) {
	low, high := a, b
	if a > b {
		low, high, side = b, a, 1
	}
	key := pairKey(low, high)
	at, ok := c.at[key]
	if !ok {
		at = int32(len(c.pairs))
		c.pairs = append(c.pairs, pair{low: low, high: high})
		c.sums.Grow(len(c.pairs))
		c.at[key] = at
	}
	return at, side
}

// reported is how often one of a pair was selected over the other, by one source.
type reported struct{ explored, against int64 }

// add counts so many selections of a over b, as many as there is room for, and gives the majorities of a over b before and
// after.
func (c *counts) add(a, b policy.Item, n reported) (before, after int64) {
	at, side := c.find(a, b)
	before = c.sums.Pooled(at).majority(side)
	var more pairCount
	own := c.sums.Own(at)
	more.explored[side] = min(n.explored, maxCount-own.explored[side])
	more.against[side] = min(n.against, maxCount-own.against[side])
	if more != (pairCount{}) {
		c.sums.AddOwn(at, more, 1<<side)
	}
	return before, c.sums.Pooled(at).majority(side)
}

// imports sets what a source has of a over b, and gives the majorities of a over b before and after.
func (c *counts) imports(source int32, a, b policy.Item, n reported) (before, after int64) {
	at, side := c.find(a, b)
	before = c.sums.Pooled(at).majority(side)
	has, _ := c.sums.From(source, at)
	has.explored[side], has.against[side] = n.explored, n.against
	if has == (pairCount{}) {
		c.sums.Drop(source, at)
	} else {
		c.sums.SetSource(source, at, has)
	}
	return before, c.sums.Pooled(at).majority(side)
}

// harvest hands out what has changed: "<better>:<worse>" and how often better was selected over worse, "<explored>" or, where
// there is any, "<explored> <against>".
func (c *counts) harvest(f func(field, value []byte)) {
	changes := c.sums.Changes()
	for at, which := range changes.All() {
		p := &c.pairs[at]
		own := c.sums.Own(at)
		for side := range 2 {
			if which>>side&1 == 0 {
				continue
			}
			a, b := p.low, p.high
			if side == 1 {
				a, b = b, a
			}
			c.field = appendPair(c.field[:0], a, b)
			c.value = own.side(side).append(c.value[:0])
			f(c.field, c.value)
		}
	}
	changes.Clear()
}

func appendPair(dst []byte, a, b policy.Item) []byte {
	dst = strconv.AppendInt(dst, int64(a), 10)
	dst = append(dst, ':')
	return strconv.AppendInt(dst, int64(b), 10)
}

// load reads a field that harvest wrote. Items are below the given number.
func (c *counts) load(field, value []byte, items int) error {
	a, b, err := parsePair(field)
	if err != nil {
		return err
	}
	if int(a) >= items || int(b) >= items {
		return fmt.Errorf("there are no items %d and %d among %d", a, b, items)
	}
	n, err := parseTold(value)
	if err != nil {
		return err
	}
	at, side := c.find(a, b)
	own := c.sums.Own(at)
	own.explored[side], own.against[side] = n.explored, n.against
	c.sums.Set(at, own)
	return nil
}

var (
	errPair  = errors.New("the field is not two different numbers of items with a colon between")
	errCount = errors.New("the value is not a count")
)

// parsePair reads what appendPair appends.
func parsePair(field []byte) (a, b policy.Item, err error) {
	first, second, found := bytes.Cut(field, []byte{':'})
	a, errA := parseItem(first)
	b, errB := parseItem(second)
	if !found || errA != nil || errB != nil || a == b {
		return 0, 0, errPair
	}
	return a, b, nil
}

func parseItem(text []byte) (policy.Item, error) {
	n, err := strconv.ParseUint(string(text), 10, 31)
	if err != nil || !plain(text) {
		return 0, errPair
	}
	return policy.Item(n), nil
}

// append appends what is stored of it.
func (n reported) append(dst []byte) []byte {
	dst = strconv.AppendInt(dst, n.explored, 10)
	if n.against > 0 {
		dst = strconv.AppendInt(append(dst, ' '), n.against, 10)
	}
	return dst
}

// parseTold reads what append appends; nobody appends nothing.
func parseTold(text []byte) (n reported, err error) {
	first, second, two := bytes.Cut(text, []byte{' '})
	n.explored, err = parseCount(first)
	if two && err == nil {
		n.against, err = parseCount(second)
	}
	if err != nil || n == (reported{}) || two && n.against == 0 {
		return reported{}, errCount
	}
	return n, nil
}

func parseCount(text []byte) (int64, error) {
	n, err := strconv.ParseUint(string(text), 10, 63)
	if err != nil || n > maxCount || !plain(text) {
		return 0, errCount
	}
	return int64(n), nil
}

// plain tells whether a number is written as we write it: without a sign or zeros in front.
func plain(text []byte) bool { return text[0] != '+' && (text[0] != '0' || len(text) == 1) }
