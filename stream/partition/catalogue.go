package partition

import (
	"errors"
	"fmt"
	"math"
	"strconv"

	"github.com/valyala/fastjson"

	"github.com/ranker-worker/ranker-worker/policy"
)

// catalogue gives the items of one learner their numbers: dense, from 0, in the order in which they were first met, and
// never reused. It also knows which items have to be written at the next seal.
//
// The names themselves, and the look-up by name, are the process's (Names): what is kept here of an item is two numbers.
type catalogue struct {
	names   Names
	process []int32             // by our number: the process's
	ours    policy.Pages[int32] // by the process's number: ours and 1, where we have one
	changes policy.Changes
}

func newCatalogue(names Names) catalogue { return catalogue{names: names} }

// len is how many items there are.
func (c *catalogue) len() int { return len(c.process) }

// name is the name of one of our items.
func (c *catalogue) name(i policy.Item) string { return c.names.Name(c.process[i]) }

// intern gives our number of an item that the process knows by its own, a new one where it has none.
func (c *catalogue) intern(process int32) (i policy.Item, fresh bool) {
	if i := c.ours.Get(process); i > 0 {
		return i - 1, false
	}
	i = policy.Item(len(c.process))
	*c.ours.At(process) = i + 1
	c.process = append(c.process, process)
	c.touch(i)
	return i, true
}

func (c *catalogue) touch(i policy.Item) { c.changes.Note(i, 1) }

// lookUp gives the item's number, if it has one.
func (c *catalogue) lookUp(name []byte) (policy.Item, bool) {
	if process, known := c.names.Number(name); known {
		return c.number(process)
	}
	return 0, false
}

// number is our number of an item that the process knows by its own, if it has one.
func (c *catalogue) number(process int32) (i policy.Item, ok bool) {
	i = c.ours.Get(process)
	return i - 1, i > 0
}

// storedItem is one field of a learner's hash of items.
type storedItem struct {
	name   []byte
	number policy.Item
	sums   policy.Sums
}

// load takes the stored items, in any order. Their numbers must be 0..n-1.
func (c *catalogue) load(items []storedItem) error {
	names := make([][]byte, len(items))
	for k := range items {
		names[k] = items[k].name
	}
	process := c.names.Numbers(nil, names)
	*c = newCatalogue(c.names)
	c.process = make([]int32, len(items))
	for i := range c.process {
		c.process[i] = -1
	}
	for k, it := range items {
		if int(it.number) >= len(items) {
			return fmt.Errorf("item %q has number %d, but there are only %d items", it.name, it.number, len(items))
		}
		if _, twice := c.number(process[k]); twice || len(it.name) == 0 || c.process[it.number] >= 0 {
			return fmt.Errorf("item %q or its number %d is stored twice", it.name, it.number)
		}
		c.process[it.number] = process[k]
		*c.ours.At(process[k]) = it.number + 1
	}
	return nil
}

// appendItem appends the stored form of an item's number and sums: JSON that a person can read, with the shortest
// digits that give the same numbers again.
func appendItem(dst []byte, i policy.Item, s policy.Sums) []byte {
	dst = append(dst, `{"no":`...)
	dst = strconv.AppendInt(dst, int64(i), 10)
	dst = append(dst, `,"n":`...)
	dst = strconv.AppendInt(dst, s.N, 10)
	dst = append(dst, `,"sum":`...)
	dst = strconv.AppendFloat(dst, s.R, 'g', -1, 64)
	dst = append(dst, `,"sumsq":`...)
	dst = strconv.AppendFloat(dst, s.Q, 'g', -1, 64)
	return append(dst, '}')
}

// parseItem reads what appendItem appends.
func parseItem(p *fastjson.Parser, value []byte) (policy.Item, policy.Sums, error) {
	v, err := p.ParseBytes(value)
	if err != nil {
		return 0, policy.Sums{}, fmt.Errorf("partition: item statistics %.64q: %w", value, err)
	}
	number, errNo := integer(v.Get("no"))
	n, errN := integer(v.Get("n"))
	sum, errSum := float(v.Get("sum"))
	squares, errSquares := float(v.Get("sumsq"))
	for _, err := range []error{errNo, errN, errSum, errSquares} {
		if err != nil {
			return 0, policy.Sums{}, fmt.Errorf("partition: item statistics %.64q: %w", value, err)
		}
	}
	if number < 0 || number > math.MaxInt32 {
		return 0, policy.Sums{}, fmt.Errorf("partition: item statistics %.64q: number out of range", value)
	}
	s := policy.Sums{N: n, R: sum, Q: squares}
	if err := s.Check(); err != nil {
		return 0, policy.Sums{}, fmt.Errorf("partition: item statistics %.64q: %w", value, err)
	}
	return policy.Item(number), s, nil
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
