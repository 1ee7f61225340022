package partition

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strconv"

	"github.com/ranker-worker/ranker-worker/policy"
	"github.com/ranker-worker/ranker-worker/state"
	"github.com/ranker-worker/ranker-worker/stream/event"
)

// Items are stored by their names, many in a field. Of most items of a large catalogue nothing is known but that impressions have carried
// them. What has been selected, or is known otherwise, has a row of its own besides, in the hash of items, with its number and its sums.
// Rows are what other partitions are told of; and how many items there are.

// NamesHash holds, behind the learner's name and a colon, all items by pages: field "<page>" has those of the numbers from page·namesInPage on.
const NamesHash = "names"

// CatalogueHash holds, behind the learner's name and a colon, what other partitions are told of all items together: in the field "items"
// how many there are.
const (
	CatalogueHash  = "catalogue"
	catalogueItems = "items"
)

// namesInPage is how many numbers share a page: so many that fields cost little, so few that one which changes does.
const namesInPage = 64

func namesPage(i policy.Item) int32 { return i / namesInPage }

// namedItem is an item in a page.
type namedItem struct {
	name   []byte
	number policy.Item
	until  event.Millis
}

// appendNames appends the stored form of a page, whose items are in the order of their numbers; nothing where there is none. Its format:
// up to when its items are kept at the least, in milliseconds; then for each number up to the last that an item has, the length of the
// name and 1, the name, and for how many milliseconds longer it is kept, or 0 where the number is no such item's.
func appendNames(dst []byte, items []namedItem) []byte {
	if len(items) == 0 {
		return dst
	}
	least := items[0].until
	for k := range items {
		least = min(least, items[k].until)
	}
	dst = binary.AppendUvarint(dst, uint64(least))
	next := namesPage(items[0].number) * namesInPage
	for k := range items {
		for ; next < items[k].number; next++ {
			dst = append(dst, 0)
		}
		next++
		dst = binary.AppendUvarint(dst, uint64(len(items[k].name))+1)
		dst = append(dst, items[k].name...)
		dst = binary.AppendUvarint(dst, uint64(items[k].until-least))
	}
	return dst
}

var errNames = errors.New("it is cut off, or has too much")

// parseNames appends the items of a page to dst. Their names alias value.
func parseNames(dst []namedItem, field, value []byte) ([]namedItem, error) {
	bad := func(err error) ([]namedItem, error) {
		return dst, fmt.Errorf("partition: page %.32q of items' names: %w", field, err)
	}
	page, err := strconv.ParseUint(string(field), 10, 32)
	if err != nil || page > uint64(namesPage(1<<31-1)) {
		return bad(fmt.Errorf("its number: %w", strconv.ErrRange))
	}
	number := func() uint64 {
		x, n := binary.Uvarint(value)
		if n <= 0 || x > 1<<62 {
			err = errNames
			return 0
		}
		value = value[n:]
		return x
	}
	least := number()
	for k := 0; len(value) > 0 && err == nil; k++ {
		length := number()
		if length == 0 {
			continue
		}
		if length == 1 || length-1 > uint64(len(value)) || k >= namesInPage {
			return bad(errNames)
		}
		it := namedItem{name: value[: length-1 : length-1], number: policy.Item(page)*namesInPage + policy.Item(k)}
		value = value[length-1:]
		it.until = event.Millis(least) + event.Millis(number())
		dst = append(dst, it)
	}
	if err != nil {
		return bad(err)
	}
	return dst, nil
}

// Named is what a field of NamesHash says of items, as rows of ItemsHash would: by item.
func Named(f state.Field) (rows []state.Field, err error) {
	items, err := parseNames(nil, f.Field, f.Value)
	for _, it := range items {
		rows = append(rows, state.Field{Hash: ItemsHash, Field: it.name, Value: appendItem(nil, it.number, policy.Sums{}, it.until)})
	}
	return rows, err
}

// mentions notes which items a field that is published is about: they need rows, by which others know them.
func (c *catalogue) mentions(field []byte) {
	for i := range numbersIn(field) {
		c.tell(i)
	}
}

// freshNames are the names of items that are new since the last seal, in the order of their numbers: nearly all that a seal writes, and
// they need not be looked up one by one where the process keeps them.
type freshNames struct {
	numbers []policy.Item // ascending
	ends    []int         // of their names
	text    []byte
	at      int // where get looks first: it is asked in order
}

func (f *freshNames) add(i policy.Item, name []byte) {
	f.text = append(f.text, name...)
	f.numbers, f.ends = append(f.numbers, i), append(f.ends, len(f.text))
}

// get is the name of an item, if it is new.
func (f *freshNames) get(i policy.Item) (name []byte, fresh bool) {
	if f.at >= len(f.numbers) || f.numbers[f.at] != i {
		if f.at, fresh = slices.BinarySearch(f.numbers, i); !fresh {
			return nil, false
		}
	}
	start := 0
	if f.at > 0 {
		start = f.ends[f.at-1]
	}
	name = f.text[start:f.ends[f.at]]
	f.at++
	return name, true
}

// keptFresh is how much memory stays for the next names.
const keptFresh = 64 << 10

func (f *freshNames) clear() {
	f.numbers, f.ends, f.text, f.at = f.numbers[:0], f.ends[:0], f.text[:0], 0
	if cap(f.text) > keptFresh {
		*f = freshNames{}
	}
}

// numbersIn gives the numbers of items, one or two of them, that a field names which is about items.
func numbersIn(field []byte) iter.Seq[policy.Item] {
	return func(yield func(policy.Item) bool) {
		for text := range bytes.SplitSeq(field, []byte{':'}) {
			n, err := strconv.ParseInt(string(text), 10, 32)
			if err != nil || n < 0 || !yield(policy.Item(n)) {
				return
			}
		}
	}
}

// untell takes the rows back of items of which, among all that was loaded, nothing is known: earlier versions gave each a row.
func (c *catalogue) untell(rows []storedItem, fields []state.Field, byItem func(hash string) bool) {
	var known policy.Pages[bool]
	for _, f := range fields {
		if !byItem(f.Hash) {
			continue
		}
		for i := range numbersIn(f.Field) {
			if c.has(i) {
				*known.At(i) = true
			}
		}
	}
	for k := range rows {
		if i := rows[k].number; rows[k].sums.N == 0 && !known.Get(i) {
			c.rows.Remove(i)
			c.changes.Note(i, itemUntold)
		}
	}
}

// loadCount takes in what other partitions are told of all items together.
func (c *catalogue) loadCount(f state.Field) (err error) {
	if string(f.Field) != catalogueItems {
		return nil // a later version's
	}
	c.told, err = parseCount(f.Value)
	return err
}

// parseCount reads how many items there are.
func parseCount(value []byte) (int, error) {
	n, err := strconv.ParseUint(string(value), 10, 31)
	if err != nil {
		return 0, fmt.Errorf("partition: number of items %.64q: %w", value, err)
	}
	return int(n), nil
}

// sealItems writes the items that have changed, and deletes those that were dropped.
func (m *Machine) sealItems(l *learner, dst *state.Changes) {
	c := &l.items
	var scratch []byte
	for i, what := range c.changes.All() {
		if !c.has(i) {
			continue
		}
		if what&itemNamed != 0 {
			c.pages.Note(namesPage(i), itemNamed)
		}
		sums := l.delay.Sums(i)
		if row := sums.N > 0 || what&itemTold != 0 || c.rows.Get(i); !row {
			if what&itemUntold != 0 {
				dst.Writes = append(dst.Writes, state.Write{Hash: l.itemHash, Field: m.segments.keepText(c.name(i)), Publish: true})
			}
			continue
		}
		*c.rows.At(i) = true
		scratch = appendItem(scratch[:0], i, sums, c.untilOf(i))
		dst.Writes = append(dst.Writes, state.Write{
			Hash: l.itemHash, Field: m.segments.keepText(c.name(i)), Value: m.segments.keep(scratch), Publish: true,
		})
	}
	for _, x := range c.ended {
		c.pages.Note(namesPage(x.number), itemNamed)
		if i, again := c.number(x.process); x.row && !(again && c.rows.Get(i)) { // else the row is its new number's
			dst.Writes = append(dst.Writes, state.Write{Hash: l.itemHash, Field: m.segments.keepText(c.names.Name(x.process)), Publish: true})
		}
	}
	m.sealNames(l, dst)
	c.fresh.clear()
	c.changes.Clear()
	for _, x := range c.ended {
		c.changes.Release(x.number)
	}
	c.ended = c.ended[:0]
	if n := c.len(); n != max(c.told, 0) {
		c.told = n
		dst.Writes = append(dst.Writes, state.Write{Hash: l.name + ":" + CatalogueHash, Field: []byte(catalogueItems),
			Value: strconv.AppendInt(nil, int64(n), 10), Publish: true})
	}
}

// sealNames writes the pages that have changed.
func (m *Machine) sealNames(l *learner, dst *state.Changes) {
	c, s := &l.items, &m.scratch
	for page := range c.pages.All() {
		s.named, s.text = s.named[:0], s.text[:0]
		for i := page * namesInPage; i < min((page+1)*namesInPage, c.next); i++ {
			if !c.has(i) {
				continue
			}
			start := len(s.text)
			if name, fresh := c.fresh.get(i); fresh {
				s.text = append(s.text, name...)
			} else {
				s.text = append(s.text, c.name(i)...)
			}
			s.named = append(s.named, namedItem{s.text[start:], i, c.untilOf(i)})
		}
		w := state.Write{Hash: l.namesHash, Field: m.segments.keep(strconv.AppendInt(nil, int64(page), 10))}
		if len(s.named) > 0 {
			s.page = appendNames(s.page[:0], s.named)
			w.Value = m.segments.keep(s.page)
		}
		dst.Writes = append(dst.Writes, w)
	}
	c.pages.Clear()
}
