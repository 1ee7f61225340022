package partition

import (
	"errors"
	"fmt"
	"iter"
	"math"
	"strconv"

	"github.com/valyala/fastjson"

	"github.com/ranker-worker/ranker-worker/policy"
	"github.com/ranker-worker/ranker-worker/stream/event"
)

// catalogue gives the items of one learner their numbers: from 0, in the order in which they were first met, and never reused. It also
// knows until when items are kept, and which have to be written at the next seal.
//
// The names themselves, and the look-up by name, are the process's (Names): what is kept here of an item is three numbers.
type catalogue struct {
	names   Names
	process policy.Pages[int32]   // by our number: the process's and 1, where there is such an item
	ours    policy.Pages[ourItem] // by the process's number
	next    policy.Item           // number of the next item that is new
	n       int                   // items there are
	changes policy.Changes
	ended   []endedItem // dropped since the last seal
	raised  bool        // items were dropped, or might have been: what is stored is of form 2

	retention retention
}

// ourItem is what is kept of an item by the process's number, in one place, since both are asked for with each candidate.
type ourItem struct {
	next  int32  // ours and 1; 0: we have none
	until uint32 // the period of retention up to which it is kept
}

// endedItem is an item that was dropped: its number, and the process's.
type endedItem struct {
	number  policy.Item
	process int32
}

func newCatalogue(names Names) catalogue { return catalogue{names: names} }

// len is how many items there are.
func (c *catalogue) len() int { return c.n }

// has tells whether a number is an item's.
func (c *catalogue) has(i policy.Item) bool { return c.process.Get(i) > 0 }

// all gives the items, in the order of their numbers. The one that is given may be dropped meanwhile.
func (c *catalogue) all() iter.Seq[policy.Item] { return c.from(0) }

// from gives the items from a number on.
func (c *catalogue) from(first policy.Item) iter.Seq[policy.Item] {
	return func(yield func(policy.Item) bool) {
		for i := first; i < c.next; i++ {
			if c.has(i) && !yield(i) {
				return
			}
		}
	}
}

// inProcess is the process's number of one of our items; -1 where we have no such item.
func (c *catalogue) inProcess(i policy.Item) int32 { return c.process.Get(i) - 1 }

// name is the name of one of our items.
func (c *catalogue) name(i policy.Item) string { return c.names.Name(c.inProcess(i)) }

// intern gives our number of an item that the process knows by its own, a new one where it has none.
func (c *catalogue) intern(process int32) (i policy.Item, fresh bool) {
	if o := c.ours.Get(process); o.next > 0 {
		return o.next - 1, false
	}
	i = c.next
	c.put(i, process, 0)
	c.touch(i)
	return i, true
}

// put notes an item that is not there.
func (c *catalogue) put(i policy.Item, process int32, until uint32) {
	*c.ours.At(process) = ourItem{i + 1, until}
	*c.process.At(i) = process + 1
	c.next = max(c.next, i+1)
	c.n++
}

// drop ends an item. What is known of it must be forgotten by then.
func (c *catalogue) drop(i policy.Item) {
	process := c.inProcess(i)
	c.ours.Remove(process)
	c.process.Remove(i)
	c.n--
	c.ended, c.raised = append(c.ended, endedItem{i, process}), true
}

// skip gives a number that is nobody's, as that of an item which has ended is.
func (c *catalogue) skip() (i policy.Item) {
	i = c.next
	c.next, c.raised = c.next+1, true
	return i
}

// What of an item is to be written: all of it, and that it takes the place of one that ended in the same segment.
const (
	itemTouched = 1 << iota
	itemAgain
)

func (c *catalogue) touch(i policy.Item) { c.changes.Note(i, itemTouched) }

// lookUp gives the item's number, if it has one.
func (c *catalogue) lookUp(name []byte) (policy.Item, bool) {
	if process, known := c.names.Number(name); known {
		return c.number(process)
	}
	return 0, false
}

// number is our number of an item that the process knows by its own, if it has one.
func (c *catalogue) number(process int32) (i policy.Item, ok bool) {
	i = c.ours.Get(process).next
	return i - 1, i > 0
}

// storedItem is one field of a learner's hash of items.
type storedItem struct {
	name   []byte
	number policy.Item
	sums   policy.Sums
	until  event.Millis
}

// load takes the stored items, in any order. Their numbers must be 0..n-1, but that below next some may be missing: of items that ended.
func (c *catalogue) load(items []storedItem, next policy.Item, r retention) error {
	names := make([][]byte, len(items))
	for k := range items {
		names[k] = items[k].name
	}
	process := c.names.Numbers(nil, names)
	raised := c.raised
	*c = newCatalogue(c.names)
	c.retention, c.next, c.raised = r, next, raised
	beyond := 0
	for k, it := range items {
		if int64(it.number) >= int64(next)+int64(len(items)) {
			return fmt.Errorf("item %q has number %d, but there are only %d items, and %d numbers were given before one was dropped", it.name,
				it.number, len(items), next)
		}
		if _, twice := c.number(process[k]); twice || len(it.name) == 0 || c.has(it.number) {
			return fmt.Errorf("item %q or its number %d is stored twice", it.name, it.number)
		}
		c.put(it.number, process[k], max(r.period(it.until), r.stored))
		if it.number >= next {
			beyond++
		}
	}
	if int(c.next-next) != beyond {
		return fmt.Errorf("of %d items that were met since one was dropped last %d are stored", c.next-next, beyond)
	}
	return nil
}

// appendItem appends the stored form of an item's number and sums: JSON that a person can read, with the shortest
// digits that give the same numbers again.
// Until when the item is kept is behind that, if it is known.
func appendItem(dst []byte, i policy.Item, s policy.Sums, until event.Millis) []byte {
	dst = append(dst, `{"no":`...)
	dst = strconv.AppendInt(dst, int64(i), 10)
	dst = append(dst, `,"n":`...)
	dst = strconv.AppendInt(dst, s.N, 10)
	dst = append(dst, `,"sum":`...)
	dst = strconv.AppendFloat(dst, s.R, 'g', -1, 64)
	dst = append(dst, `,"sumsq":`...)
	dst = strconv.AppendFloat(dst, s.Q, 'g', -1, 64)
	if until > 0 {
		dst = strconv.AppendInt(append(dst, `,"until":`...), until, 10)
	}
	return append(dst, '}')
}

// parseItem reads what appendItem appends.
func parseItem(p *fastjson.Parser, value []byte) (it storedItem, err error) {
	v, err := p.ParseBytes(value)
	if err != nil {
		return it, fmt.Errorf("partition: item statistics %.64q: %w", value, err)
	}
	number, errNo := integer(v.Get("no"))
	n, errN := integer(v.Get("n"))
	sum, errSum := float(v.Get("sum"))
	squares, errSquares := float(v.Get("sumsq"))
	var errUntil error
	if until := v.Get("until"); until != nil {
		if it.until, errUntil = until.Int64(); errUntil == nil && it.until < 0 {
			errUntil = strconv.ErrRange
		}
	}
	for _, err := range []error{errNo, errN, errSum, errSquares, errUntil} {
		if err != nil {
			return storedItem{}, fmt.Errorf("partition: item statistics %.64q: %w", value, err)
		}
	}
	if number < 0 || number > math.MaxInt32 {
		return storedItem{}, fmt.Errorf("partition: item statistics %.64q: number out of range", value)
	}
	it.number, it.sums = policy.Item(number), policy.Sums{N: n, R: sum, Q: squares}
	if err := it.sums.Check(); err != nil {
		return storedItem{}, fmt.Errorf("partition: item statistics %.64q: %w", value, err)
	}
	return it, nil
}

var errNumber = errors.New("a number is missing")

func integer(v *fastjson.Value) (int64, error) {
	if v == nil {
		return 0, errNumber
	}
	return v.Int64()
}

// float reads a number exactly: fastjson's own conversion may be off in the last digit.
func float(v *fastjson.Value) (float64, error) {
	if v == nil || v.Type() != fastjson.TypeNumber {
		return 0, errNumber
	}
	return strconv.ParseFloat(string(v.MarshalTo(nil)), 64)
}
