package preference

import (
	"errors"

	"github.com/ranker-worker/ranker-worker/policy"
	"github.com/ranker-worker/ranker-worker/policy/words"
)

// Margin is the majority that decides a pair selected in both orders. If users err independently with probability at most 1/4, the
// wrong order reaches it first with probability at most 1/(1+3⁵) = 0.41 % (gambler's ruin). It takes at most 10 comparisons on
// average. Indifferent users take 25 on average.
const Margin = 5

const maxCount = 1 << 40

type pair struct{ low, high policy.Item } // numbers, low < high

// pairCount counts, for a pair, selections of one item shown below the other: low over high, and high over low.
type pairCount struct {
	explored [2]int64 // in impressions that explored the order
	against  [2]int64 // in others: contradictions of the order only
}

func (t pairCount) Add(o pairCount) pairCount {
	return pairCount{
		[2]int64{t.explored[0] + o.explored[0], t.explored[1] + o.explored[1]},
		[2]int64{t.against[0] + o.against[0], t.against[1] + o.against[1]},
	}
}

func (t pairCount) side(side int) reported { return reported{t.explored[side], t.against[side]} }

func (t pairCount) all(side int) int64 { return t.explored[side] + t.against[side] }

func (t pairCount) compared() int64 {
	if t.explored[0]+t.explored[1] > 0 {
		return 1
	}
	return 0
}

// opposed returns the number of selections that contradict the majority.
func (t pairCount) opposed() int64 { return min(t.all(0), t.all(1)) }

// majority returns the majority of the first over the second item, or for side 1 of the second over the first. Selections against a
// certain order count one side only, since agreement is not counted: they overrule explored ones at a majority of Margin.
func (t pairCount) majority(side int) int64 {
	if m := t.all(side) - t.all(1-side); m >= Margin || m <= -Margin {
		return m
	}
	return majority(t.explored[side], t.explored[1-side])
}

func (t pairCount) firstMajority() int64 { return t.majority(0) }

// exploredMajority returns the majority in explored impressions alone.
func (t pairCount) exploredMajority() int64 { return majority(t.explored[0], t.explored[1]) }

// majority returns the excess of the first, or 0 if undecided: once contradicted, a pair takes a majority of Margin.
func majority(first, second int64) int64 {
	m := first - second
	if (first == 0 || second == 0) || m >= Margin || m <= -Margin {
		return m
	}
	return 0
}

// counts are sparse pair counts.
type counts struct {
	at    map[uint64]int32 // by pairKey: index in pairs
	pairs []pair
	sums  policy.Totals[pairCount] // by index in pairs; bits of changes give the side of own

	compared []int64 // by item: number of others it was compared with in explored impressions
	against  []int64 // by item: its selections against the order, and those of others against it
	opposed  int64   // selections against their pair's majority
	disputed int64   // of these, those of explored impressions

	field []byte
	value []byte
}

// init makes empty counts, which must not move: sums calls their method.
func (c *counts) init() {
	c.at = map[uint64]int32{}
	c.sums = policy.NewTotals(c.keepUp)
}

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

func (c *counts) grow(items int) {
	if more := items - len(c.compared); more > 0 {
		c.compared, c.against = policy.Extend(c.compared, more), policy.Extend(c.against, more)
	}
}

func pairKey(low, high policy.Item) uint64 { return uint64(uint32(low))<<32 | uint64(uint32(high)) }

// find returns a pair's index, made if needed, and the side of a over b.
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

// reported counts one source's selections of one item of a pair over the other.
type reported struct{ explored, against int64 }

// add adds selections of a over b, up to maxCount, and returns the majorities before and after.
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

// imports sets a source's counts of a over b, and returns the majorities before and after.
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

// harvest reports changes: "<better>:<worse>" to "<explored>", or "<explored> <against>" if there are any against.
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
	return words.Append(dst, ':', int64(a), int64(b))
}

// load reads a field that harvest wrote. It fails if it is malformed, or names an item from items on.
func (c *counts) load(field, value []byte, items int) error {
	a, b, err := parsePair(field, items)
	if err != nil {
		return err
	}
	n, err := parseReported(value)
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

// parsePair reads a pair of so many items.
func parsePair(field []byte, items int) (a, b policy.Item, err error) {
	r := words.Of(field, ':')
	a, b = readItem(&r, items), readItem(&r, items)
	r.Check(a != b)
	return a, b, r.End(errPair)
}

func (n reported) append(dst []byte) []byte {
	if n.against == 0 {
		return words.Append(dst, ' ', n.explored)
	}
	return words.Append(dst, ' ', n.explored, n.against)
}

// parseReported reads counts that append wrote; they are not both 0.
func parseReported(text []byte) (n reported, err error) {
	r := words.Of(text, ' ')
	if n.explored = r.Int(0, maxCount); r.Left() {
		n.against = r.Int(1, maxCount)
	}
	r.Check(n != reported{})
	return n, r.End(errCount)
}
