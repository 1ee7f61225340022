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

// itemIndex gives the items of one learner their numbers: from 0, in the order in which they were first met, and never reused. It also
// knows until when items are kept, and which have to be written at the next seal.
//
// The names themselves, and the look-up by name, are the process's (Names): what is kept here of an item is three numbers.
type itemIndex struct {
	names   Names
	process policy.Pages[int32]   // by our number: the process's and 1, where there is such an item
	ours    policy.Pages[ourItem] // by the process's number
	next    policy.Item           // number of the next item that is new
	n       int                   // items there are
	recent  [recents]recentItem   // of a number's lowest bits: items of the last impressions, whose process's numbers are asked for again
	rows    policy.Pages[bool]    // by our number: the item has a row of its own in the store, or gets one with the next seal (itemnames.go)
	changes policy.Changes
	pages   policy.Changes // of names
	told    int            // how many items there are, as stored; -1: nothing is
	ended   []endedItem    // dropped since the last seal
	fresh   freshNames

	retention retention
}

// ourItem is what is kept of an item by the process's number, in one place, since both are asked for with each candidate.
type ourItem struct {
	next  int32  // ours and 1; 0: we have none
	until uint32 // the period of retention up to which it is kept
}

// recentItem is an item by both its numbers, each and 1.
type recentItem struct{ ours, process int32 }

const recents = 128

func recentAt(i policy.Item) uint32 { return uint32(i) % recents }

// endedItem is an item that was dropped: its number, and the process's, and whether it had a row.
type endedItem struct {
	number  policy.Item
	process int32
	row     bool
}

func newCatalogue(names Names) itemIndex { return itemIndex{names: names, told: -1} }

// len is how many items there are.
func (c *itemIndex) len() int { return c.n }

// has tells whether a number is an item's.
func (c *itemIndex) has(i policy.Item) bool { return c.process.Get(i) > 0 }

// all gives the items, in the order of their numbers. The one that is given may be dropped meanwhile.
func (c *itemIndex) all() iter.Seq[policy.Item] { return c.from(0) }

// from gives the items from a number on.
func (c *itemIndex) from(first policy.Item) iter.Seq[policy.Item] {
	return func(yield func(policy.Item) bool) {
		for i := first; i < c.next; i++ {
			if c.has(i) && !yield(i) {
				return
			}
		}
	}
}

// inProcess is the process's number of one of our items; -1 where we have no such item.
func (c *itemIndex) inProcess(i policy.Item) int32 {
	if r := c.recent[recentAt(i)]; r.ours == i+1 && r.ours > 0 {
		return r.process - 1
	}
	return c.process.Get(i) - 1
}

// name is the name of one of our items.
func (c *itemIndex) name(i policy.Item) string { return c.names.Name(c.inProcess(i)) }

// intern gives our number of an item that the process knows by its own, a new one where it has none.
func (c *itemIndex) intern(process int32, name []byte) (i policy.Item, fresh bool) {
	if o := c.ours.Get(process); o.next > 0 {
		i = o.next - 1
		c.recent[recentAt(i)] = recentItem{i + 1, process + 1}
		return i, false
	}
	i = c.next
	c.put(i, process, 0)
	c.fresh.add(i, name)
	c.changes.Note(i, itemNamed)
	return i, true
}

// put notes an item that is not there.
func (c *itemIndex) put(i policy.Item, process int32, until uint32) {
	*c.ours.At(process) = ourItem{i + 1, until}
	*c.process.At(i) = process + 1
	c.recent[recentAt(i)] = recentItem{i + 1, process + 1}
	c.next = max(c.next, i+1)
	c.n++
}

// drop ends an item. What is known of it must be forgotten by then.
func (c *itemIndex) drop(i policy.Item) {
	process := c.inProcess(i)
	c.ours.Remove(process)
	c.process.Remove(i)
	c.recent[recentAt(i)] = recentItem{}
	c.n--
	c.ended = append(c.ended, endedItem{i, process, c.rows.Get(i) || c.changes.What(i)&itemUntold != 0})
	c.rows.Remove(i)
}

// skip gives a number that is nobody's, as that of an item which has ended is.
func (c *itemIndex) skip() (i policy.Item) {
	i = c.next
	c.next++
	return i
}

// What of an item has changed: its name's place, or up to when it is kept; its sums; that other partitions are told of it, or that they
// were, for nothing.
const (
	itemNamed = 1 << iota
	itemTaught
	itemTold
	itemUntold
)

// taught notes that an item's sums have changed.
func (c *itemIndex) taught(i policy.Item) { c.changes.Note(i, itemTaught) }

// tell notes that other partitions are told of an item, if they are not yet.
func (c *itemIndex) tell(i policy.Item) {
	if c.has(i) && !c.rows.Get(i) {
		c.changes.Note(i, itemTold)
	}
}

// lookUp gives the item's number, if it has one.
func (c *itemIndex) lookUp(name []byte) (policy.Item, bool) {
	if process, known := c.names.Number(name); known {
		return c.number(process)
	}
	return 0, false
}

// number is our number of an item that the process knows by its own, if it has one.
func (c *itemIndex) number(process int32) (i policy.Item, ok bool) {
	i = c.ours.Get(process).next
	return i - 1, i > 0
}

// storedItem is one field of a learner's hash of items: a row.
type storedItem struct {
	name   []byte
	number policy.Item
	sums   policy.Sums
	until  event.Millis
}

// load takes the stored items, in any order: rows, and names. Numbers must be 0..n-1, but that below next some may be missing: of items that
// ended. Where it has not been said how many items there are, rows have no names beside them: they come from an export.
func (c *itemIndex) load(rows []storedItem, named []namedItem, next policy.Item, r retention) error {
	told := c.told
	*c = newCatalogue(c.names)
	c.retention, c.next, c.told = r, next, told
	most := int64(next) + int64(len(rows)) + int64(len(named))
	beyond := 0
	place := func(name []byte, number, process int32, until event.Millis) error {
		if int64(number) >= most {
			return fmt.Errorf("item %q has number %d, but there are only %d items, and %d numbers were given before one was dropped", name,
				number, most-int64(next), next)
		}
		if _, twice := c.number(process); twice || len(name) == 0 || c.has(number) {
			return fmt.Errorf("item %q or its number %d is stored twice", name, number)
		}
		c.put(number, process, max(r.period(until), r.stored))
		if number >= next {
			beyond++
		}
		return nil
	}
	names := make([][]byte, 0, len(rows)+len(named))
	for k := range named {
		names = append(names, named[k].name)
	}
	for k := range rows {
		names = append(names, rows[k].name)
	}
	process := c.names.Numbers(nil, names)
	for k, it := range named {
		if err := place(it.name, it.number, process[k], it.until); err != nil {
			return err
		}
	}
	process = process[len(named):]
	for k, it := range rows {
		if i, there := c.number(process[k]); there && i == it.number && !c.rows.Get(i) {
			*c.rows.At(i) = true
			continue
		}
		if told >= 0 {
			return fmt.Errorf("item %q has number %d in its row, and not among the names", it.name, it.number)
		}
		if err := place(it.name, it.number, process[k], it.until); err != nil {
			return err
		}
		*c.rows.At(it.number) = true
		c.changes.Note(it.number, itemNamed)
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
