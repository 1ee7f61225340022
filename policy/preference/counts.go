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
type pairCount [2]int64

// Add is the number of all selections of both.
func (t pairCount) Add(o pairCount) pairCount { return pairCount{t[0] + o[0], t[1] + o[1]} }

// majority is that of the first of a pair over the second, or for side 1 of the second over the first.
func (t pairCount) majority(side int) int64 { return majority(t[side], t[1-side]) }

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
	field []byte
	value []byte
}

func newCounts() counts { return counts{at: map[uint64]int32{}} }

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

// add counts so many selections of a over b, as many as there is room for, and gives the majority of a over b.
func (c *counts) add(a, b policy.Item, n int64) int64 {
	at, side := c.find(a, b)
	if n = min(n, maxCount-c.sums.Own(at)[side]); n > 0 {
		var more pairCount
		more[side] = n
		c.sums.AddOwn(at, more, 1<<side)
	}
	return c.sums.Pooled(at).majority(side)
}

// imports sets what a source has of a over b, and gives the majorities of a over b before and after.
func (c *counts) imports(source int32, a, b policy.Item, n int64) (before, after int64) {
	at, side := c.find(a, b)
	before = c.sums.Pooled(at).majority(side)
	has, _ := c.sums.From(source, at)
	has[side] = n
	if has == (pairCount{}) {
		c.sums.Drop(source, at)
	} else {
		c.sums.SetSource(source, at, has)
	}
	return before, c.sums.Pooled(at).majority(side)
}

// harvest hands out what has changed: "<better>:<worse>" and how often better was selected over worse.
func (c *counts) harvest(f func(field, value []byte)) {
	changes := c.sums.Changes()
	for at, which := range changes.All() {
		p := &c.pairs[at]
		for side, n := range c.sums.Own(at) {
			if which>>side&1 == 0 {
				continue
			}
			a, b := p.low, p.high
			if side == 1 {
				a, b = b, a
			}
			c.field = appendPair(c.field[:0], a, b)
			c.value = strconv.AppendInt(c.value[:0], n, 10)
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
	n, err := parseCount(value)
	if err != nil || n == 0 {
		return errCount
	}
	at, side := c.find(a, b)
	own := c.sums.Own(at)
	own[side] = n
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

func parseCount(text []byte) (int64, error) {
	n, err := strconv.ParseUint(string(text), 10, 63)
	if err != nil || n > maxCount || !plain(text) {
		return 0, errCount
	}
	return int64(n), nil
}

// plain tells whether a number is written as we write it: without a sign or zeros in front.
func plain(text []byte) bool { return text[0] != '+' && (text[0] != '0' || len(text) == 1) }
