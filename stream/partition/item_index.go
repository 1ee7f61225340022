package partition

import (
	"errors"
	"fmt"
	"iter"
	"math"
	"strconv"

	"github.com/valyala/fastjson"

	"github.com/ranker-worker/ranker-worker/policy"
	"github.com/ranker-worker/ranker-worker/state"
	"github.com/ranker-worker/ranker-worker/stream/event"
)

// itemIndex numbers the items of one learner: from 0, in the order of first use, never reused. It also holds until when items are kept, and
// which rows the next seal writes. Names and the look-up by name are the process's (Names); an item takes three numbers here.
type itemIndex struct {
	names   Names
	ours    policy.Pages[int32]   // by the process's number: our number plus 1; 0: none
	items   policy.Pages[ourItem] // by our number
	next    policy.Item           // next unused number
	n       int                   // number of items
	rows    policy.Set            // by our number: the item has a row of its own in the store, or gets one with the next seal (itemnames.go)
	changes policy.Changes
	pages   policy.Changes // of names: 1
	stored  int            // number of items as stored; -1: not stored
	ended   []endedItem    // dropped since the last seal

	retention retention
}

type ourItem struct {
	process int32  // the process's number plus 1; 0: there is no such item
	until   uint32 // the tick of retention up to which the item is kept
}

type endedItem struct {
	number  policy.Item
	process int32
	row     bool
}

func newItemIndex(names Names) itemIndex { return itemIndex{names: names, stored: -1} }

func (c *itemIndex) len() int { return c.n }

func (c *itemIndex) has(i policy.Item) bool { return c.items.Get(i).process > 0 }

// all yields the items by ascending number. The loop may drop the current one.
func (c *itemIndex) all() iter.Seq[policy.Item] { return c.from(0) }

func (c *itemIndex) from(first policy.Item) iter.Seq[policy.Item] {
	return func(yield func(policy.Item) bool) {
		for i := first; i < c.next; i++ {
			if c.has(i) && !yield(i) {
				return
			}
		}
	}
}

// inProcess returns the process's number of one of our items, -1 if there is no such item.
func (c *itemIndex) inProcess(i policy.Item) int32 { return c.items.Get(i).process - 1 }

func (c *itemIndex) name(i policy.Item) string { return c.names.Name(c.inProcess(i)) }

// intern returns our number of an item that the process knows; fresh means that the number is new.
func (c *itemIndex) intern(process int32) (i policy.Item, fresh bool) {
	if i, known := c.number(process); known {
		return i, false
	}
	i = c.next
	c.put(i, process, 0)
	c.pages.Note(namesPage(i), 1)
	return i, true
}

func (c *itemIndex) put(i policy.Item, process int32, until uint32) {
	*c.ours.At(process) = i + 1
	*c.items.At(i) = ourItem{process + 1, until}
	c.next = max(c.next, i+1)
	c.n++
}

// drop ends an item. The learner must have forgotten it.
func (c *itemIndex) drop(i policy.Item) {
	process := c.inProcess(i)
	c.ours.Remove(process)
	c.items.Remove(i)
	c.n--
	c.pages.Note(namesPage(i), 1)
	c.ended = append(c.ended, endedItem{i, process, c.rows.Has(i)})
	c.rows.Remove(i)
}

// skip returns a number that stays unused, as that of an ended item.
func (c *itemIndex) skip() (i policy.Item) {
	i = c.next
	c.next++
	return i
}

// Changes of an item: its sums; its row is published. Its name and retention are in a page of names.
const (
	itemTaught = 1 << iota
	itemRowAdded
)

func (c *itemIndex) taught(i policy.Item) { c.changes.Note(i, itemTaught) }

// addRow notes that an item gets a row, unless it has one.
func (c *itemIndex) addRow(i policy.Item) {
	if c.has(i) && !c.rows.Has(i) {
		c.changes.Note(i, itemRowAdded)
	}
}

func (c *itemIndex) lookUp(name []byte) (policy.Item, bool) {
	if process, known := c.names.Number(name); known {
		return c.number(process)
	}
	return 0, false
}

// number returns our number of an item that the process knows, if it has one.
func (c *itemIndex) number(process int32) (i policy.Item, ok bool) {
	i = c.ours.Get(process)
	return i - 1, i > 0
}

// storedItem is one field of a learner's items hash: a row.
type storedItem struct {
	name   []byte
	number policy.Item
	sums   policy.Sums
	until  event.Millis
}

// load sets the items from rows and names, in any order. Numbers must be 0..n-1; those below next may be missing, for ended items. Rows of
// an export have no names beside them: then the number of items is not stored.
func (c *itemIndex) load(rows []storedItem, named []namedItem, next policy.Item, r retention) error {
	stored := c.stored
	*c = newItemIndex(c.names)
	c.retention, c.next, c.stored = r, next, stored
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
		c.put(number, process, r.due(number, r.tickAt(max(until, r.kept))))
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
		if i, there := c.number(process[k]); there && i == it.number && !c.rows.Has(i) {
			c.rows.Add(i)
			continue
		}
		if stored >= 0 {
			return fmt.Errorf("item %q has number %d in its row, and not among the names", it.name, it.number)
		}
		if err := place(it.name, it.number, process[k], it.until); err != nil {
			return err
		}
		c.rows.Add(it.number)
		c.pages.Note(namesPage(it.number), 1)
	}
	if int(c.next-next) != beyond {
		return fmt.Errorf("of %d items that were met since one was dropped last %d are stored", c.next-next, beyond)
	}
	return nil
}

// appendItem appends the stored form of an item: JSON with number, sums in the shortest exact digits and, if given, the time until which it
// is kept. Only exports give it, which have no names beside the rows.
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

// float parses a number exactly: fastjson's own conversion may be off in the last digit.
func float(v *fastjson.Value) (float64, error) {
	if v == nil || v.Type() != fastjson.TypeNumber {
		return 0, errNumber
	}
	return strconv.ParseFloat(string(v.MarshalTo(nil)), 64)
}

// carry keeps an item up to the first due tick of its page from a tick on. It returns the weight of the page if that gets changed.
func (c *itemIndex) carry(i policy.Item, least uint32) (weight int64) {
	if o := c.items.Get(i); o.process == 0 || o.until >= least {
		return 0
	}
	c.items.At(i).until = c.retention.due(i, least)
	return c.renew(namesPage(i))
}

// renew has a page written by the next seal, and returns its weight the first time.
func (c *itemIndex) renew(page int32) (weight int64) {
	if c.pages.Has(page) {
		return 0
	}
	c.pages.Note(page, 1)
	weight = itemWeight
	for i := range c.inPage(page) {
		weight += nameWeight + int64(len(c.name(i)))
	}
	return weight
}

func (c *itemIndex) inPage(page int32) iter.Seq[policy.Item] {
	return func(yield func(policy.Item) bool) {
		for i := page * namesInPage; i < min((page+1)*namesInPage, c.next); i++ {
			if c.has(i) && !yield(i) {
				return
			}
		}
	}
}

func (c *itemIndex) untilOf(i policy.Item) event.Millis {
	return c.retention.until(c.items.Get(i).until)
}

// due appends the first items that are due at a watermark, by ascending number.
func (c *itemIndex) due(watermark event.Millis, dst []policy.Item) []policy.Item {
	r := &c.retention
	past := r.over(watermark)
	r.pass(past, namesPage(c.next))
	if !r.sweeps {
		return dst
	}
	for page := range r.sweep.All() {
		for i := range c.inPage(page) {
			if c.items.Get(i).until > past {
				continue
			}
			if len(dst) == endedAtOnce {
				return dst
			}
			dst = append(dst, i)
		}
		r.sweep.Remove(page)
	}
	r.sweeps = false
	return dst
}

// mentions gives rows to the items that a published field names: other partitions know items by their rows.
func (c *itemIndex) mentions(field []byte) {
	for i := range numbersIn(field) {
		c.addRow(i)
	}
}

func (c *itemIndex) loadCount(f state.Field) (err error) {
	if string(f.Field) != catalogueItems {
		return fmt.Errorf("the catalogue has no field %q", f.Field)
	}
	c.stored, err = parseCount(f.Value)
	return err
}
