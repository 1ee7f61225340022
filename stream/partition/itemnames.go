package partition

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"math"
	"strconv"

	"github.com/ranker-worker/ranker-worker/policy"
	"github.com/ranker-worker/ranker-worker/stream/event"
)

// Items are stored by name, many in a field, since nothing else is known of most items of a large catalogue. Items with a selection or
// other statistics also have a row in the items hash, with number and sums. Other partitions read the rows and the number of items.

// ItemsHash holds, behind the learner's name and a colon, numbers and sums of items by name, for items with statistics. NamesHash has all
// items.
const ItemsHash = "items"

// NamesHash holds, behind the learner's name and a colon, the names of all items: field "<page>" those of the numbers from page·namesInPage
// on.
const NamesHash = "names"

// CatalogueHash holds, behind the learner's name and a colon, the number of items in its field "items", for other partitions.
const (
	CatalogueHash  = "catalogue"
	catalogueItems = "items"
)

// missedHash holds, behind the learner's name and a colon, the impressions of an unconfigured learner that ended without a payoff. Its field
// is the impression's offset, or a substitute (refOf). Its value is a part of the entry. The learner is fed it once it is configured again:
// else a selection in flight, or an instance of BOLD, would wait for ever.
const missedHash = "missed"

// namesInPage is the number of items in a page: a trade-off between the cost of a field and the cost of a change.
const namesInPage = 64

func namesPage(i policy.Item) int32 { return i / namesInPage }

type namedItem struct {
	name   []byte
	number policy.Item
	until  event.Millis
}

// appendNames appends the stored form of a page of items, ascending by number; nothing if there are none. The format begins with the
// earliest time until which one is kept, in milliseconds. For each number up to the last follow the name's length plus 1, the name, and the
// further milliseconds that it is kept. A number without an item has 0.
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
	const most = math.MaxInt64 / 2 // two times are added
	d := binaryReader{rest: value}
	least := d.count(most, "a time")
	for k := 0; len(d.rest) > 0; k++ {
		length := d.uvarint()
		if length == 0 {
			continue
		}
		it := namedItem{name: d.bytes(length - 1), number: policy.Item(page)*namesInPage + policy.Item(k), until: least + d.count(most, "a time")}
		if d.err != nil || length == 1 || k >= namesInPage {
			return bad(errNames)
		}
		dst = append(dst, it)
	}
	if d.err != nil {
		return bad(errNames)
	}
	return dst, nil
}

// numbersIn yields the one or two item numbers in a field's name. Text behind a bar is ignored.
func numbersIn(field []byte) iter.Seq[policy.Item] {
	return func(yield func(policy.Item) bool) {
		field, _, _ := bytes.Cut(field, []byte{'|'})
		for text := range bytes.SplitSeq(field, []byte{':'}) {
			n, err := strconv.ParseInt(string(text), 10, 32)
			if err != nil || n < 0 || !yield(policy.Item(n)) {
				return
			}
		}
	}
}

func parseCount(value []byte) (int, error) {
	n, err := strconv.ParseUint(string(value), 10, 31)
	if err != nil {
		return 0, fmt.Errorf("partition: number of items %.64q: %w", value, err)
	}
	return int(n), nil
}
