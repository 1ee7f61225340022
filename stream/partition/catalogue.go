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
type catalogue struct {
	numbers map[string]policy.Item
	names   []string
	changes policy.Changes
}

func newCatalogue() catalogue { return catalogue{numbers: make(map[string]policy.Item)} }

// intern gives the item's number, a new one where it has none.
func (c *catalogue) intern(name []byte) (i policy.Item, fresh bool) {
	if i, ok := c.numbers[string(name)]; ok {
		return i, false
	}
	i = policy.Item(len(c.names))
	s := string(name)
	c.numbers[s] = i
	c.names = append(c.names, s)
	c.changes.Grow(1)
	c.touch(i)
	return i, true
}

func (c *catalogue) touch(i policy.Item) { c.changes.Note(i, 1) }

// lookUp gives the item's number, if it has one.
func (c *catalogue) lookUp(name []byte) (policy.Item, bool) {
	i, ok := c.numbers[string(name)]
	return i, ok
}

// storedItem is one field of a learner's hash of items.
type storedItem struct {
	name   string
	number policy.Item
	sums   policy.Sums
}

// load takes the stored items, in any order. Their numbers must be 0..n-1.
func (c *catalogue) load(items []storedItem) error {
	c.names, c.numbers = make([]string, len(items)), make(map[string]policy.Item, len(items))
	c.changes = policy.Changes{}
	c.changes.Grow(len(items))
	for _, it := range items {
		if int(it.number) >= len(items) {
			return fmt.Errorf("item %q has number %d, but there are only %d items", it.name, it.number, len(items))
		}
		if _, ok := c.numbers[it.name]; ok || it.name == "" || c.names[it.number] != "" {
			return fmt.Errorf("item %q or its number %d is stored twice", it.name, it.number)
		}
		c.names[it.number] = it.name
		c.numbers[it.name] = it.number
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
