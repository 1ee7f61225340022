package delay

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"strconv"

	"github.com/ranker-worker/ranker-worker/delay/history"
	"github.com/ranker-worker/ranker-worker/policy/personal"
)

// The hashes of a learner whose payoffs depend on features (NewPersonal). Hash "cells" maps "<item>", or "<item>|<segment>" where segments
// are told apart, to how many payoffs it has been fed, how many selections are awaited, the sum of the payoffs in units of 2⁻³⁰, and by
// feature, in units of 1/127, the sum over the payoffs, and where there are any that over the selections, with blanks between; and behind that,
// where the item has a category, " =" and its name. Hash "categories" maps "<item>" to that name, also of items without cells. Hash "met" maps "<item>" to when it
// was first met, in milliseconds of event time. Hash "linear"
// maps "<feature>" to its row of Σxxᵀ up to its own, in units of 1/127², and Σxr, in units of 2⁻³⁰/127; and "payoffs" to how many there
// are, less one for each item that was forgotten, and Σr² in units of 2⁻³⁰. Field "fit" of hash "learner" is the last fit (personal.Model).
const (
	hashCells      = "cells"
	hashCategories = "categories"
	hashMet        = "met"
	hashLinear     = "linear"
)

var (
	fieldFit     = []byte("fit")
	fieldPayoffs = []byte("payoffs")
)

func (u *users) pooledHashes() []Pooled {
	return []Pooled{{Hash: hashCells, ByItem: true}, {Hash: hashLinear}}
}

// harvest writes what has changed of our own.
func (u *users) harvest(r Recorder, to *writer) {
	for i := range u.cells.All() {
		to.field = u.appendCell(to.field[:0], i)
		c := u.own.Get(i)
		if c.none() {
			r.Field(hashCells, to.field, nil)
			continue
		}
		to.value = c.append(to.value[:0], u.dim)
		if name := u.kinds.name(u.itemOf(i)); name != "" {
			to.value = append(append(to.value, beginsKind...), name...)
		}
		r.Field(hashCells, to.field, to.value)
	}
	u.cells.Clear()
	for i := range u.kinds.changed.All() {
		to.field = strconv.AppendInt(to.field[:0], int64(i), 10)
		if name := u.kinds.name(i); name != "" {
			to.value = append(to.value[:0], name...)
			r.Field(hashCategories, to.field, to.value)
		} else {
			r.Field(hashCategories, to.field, nil)
		}
	}
	u.kinds.changed.Clear()
	u.met.harvest(r, to)
	if u.moved {
		u.moved = false
		u.harvestLinear(r, to)
	}
	if u.unstored || u.model.Unstored() {
		u.unstored = false
		u.model.Stored()
		r.Field(hashLearner, fieldFit, u.model.Append(u.appendGrouping(to.value[:0])))
	}
}

// appendCell names a cell.
func (u *users) appendCell(dst []byte, cell int32) []byte {
	dst = strconv.AppendInt(dst, int64(cell/u.segments), 10)
	if u.segments > 1 {
		dst = strconv.AppendInt(append(dst, '|'), int64(cell%u.segments), 10)
	}
	return dst
}

// parseCellName reads what appendCell writes: the name of the item, and the segment.
func (u *users) parseCellName(field []byte) (item []byte, segment int32, err error) {
	item, text, divided := bytes.Cut(field, []byte{'|'})
	if divided != (u.segments > 1) {
		return nil, 0, errCell
	}
	if divided {
		n, err := strconv.ParseInt(string(text), 10, 32)
		if err != nil || n < 0 || int32(n) >= u.segments {
			return nil, 0, errCell
		}
		segment = int32(n)
	}
	return item, segment, nil
}

func (c *cellSums) append(dst []byte, dim int) []byte {
	dst = strconv.AppendInt(dst, c.fed, 10)
	dst = strconv.AppendInt(append(dst, ' '), c.awaited, 10)
	dst = strconv.AppendInt(append(dst, ' '), c.r, 10)
	dst = appendSums(dst, c.s, dim)
	if c.awaited > 0 {
		dst = appendSums(dst, c.x, dim)
	}
	return dst
}

// appendSums appends so many numbers, 0 where there are none.
func appendSums(dst []byte, sums []int64, dim int) []byte {
	for j := range dim {
		var n int64
		if sums != nil {
			n = sums[j]
		}
		dst = strconv.AppendInt(append(dst, ' '), n, 10)
	}
	return dst
}

// beginsKind stands before the name of the item's category.
var beginsKind = []byte(" =")

var errCategory = errors.New("a category has no name")

var errCell = errors.New("the value is not two counts, a sum of payoffs and the sums of as many features, each within its count, or the field no cell")

// parseCell reads what harvest writes: sums, and the name of the item's category.
func (u *users) parseCell(value []byte) (c cellSums, category []byte, err error) {
	numbers, category, _ := bytes.Cut(value, beginsKind)
	c, err = u.parseSums(numbers)
	return c, category, err
}

// parseSums reads what append writes.
func (u *users) parseSums(value []byte) (c cellSums, err error) {
	words := bytes.Fields(value)
	if len(words) < 3 {
		return c, errCell
	}
	if c.fed, err = parseInt(words[0]); err != nil {
		return c, errCell
	}
	if c.awaited, err = parseInt(words[1]); err != nil || c.awaited > 0 && len(words) != 3+2*u.dim || c.awaited == 0 && len(words) != 3+u.dim {
		return c, errCell
	}
	if c.r, err = strconv.ParseInt(string(words[2]), 10, 64); err != nil || c.fed > mostPayoffs || max(c.r, -c.r)/history.Units > c.fed {
		return c, errCell
	}
	if c.s, err = parseNumbers(words[3:3+u.dim], c.fed); err != nil || c.awaited == 0 {
		return c, err
	}
	c.x, err = parseNumbers(words[3+u.dim:], c.awaited)
	return c, err
}

// parseNumbers reads sums of so many features.
func parseNumbers(words [][]byte, count int64) ([]int64, error) {
	sums := make([]int64, len(words))
	for j, w := range words {
		n, err := strconv.ParseInt(string(w), 10, 64)
		if err != nil || count > mostPayoffs || max(n, -n) > 127*count {
			return nil, errCell
		}
		sums[j] = n
	}
	return sums, nil
}

// mostPayoffs is how many payoffs sums are of at the most.
const mostPayoffs = 1 << 40

func (u *users) harvestLinear(r Recorder, to *writer) {
	l, at := u.linear, 0
	for j := range u.dim {
		to.field, to.value = strconv.AppendInt(to.field[:0], int64(j), 10), to.value[:0]
		for range j + 1 {
			to.value = append(strconv.AppendInt(to.value, l.G[at], 10), ' ')
			at++
		}
		to.value = l.H[j].Append(to.value)
		r.Field(hashLinear, to.field, to.value)
	}
	to.value = append(strconv.AppendInt(to.value[:0], l.N, 10), ' ')
	r.Field(hashLinear, fieldPayoffs, l.Q.Append(to.value))
}

var errLinear = errors.New("the value is not a row of sums")

// setLinear sets a field of linear sums; a nil value is nothing.
func (u *users) setLinear(l *personal.Linear, field, value []byte) error {
	words := bytes.Fields(value)
	last := len(words) - 1
	var sum personal.Wide
	if value != nil {
		if last < 0 {
			return errLinear
		}
		var err error
		if sum, err = personal.ParseWide(words[last]); err != nil {
			return err
		}
	}
	if bytes.Equal(field, fieldPayoffs) {
		var n int64
		if value != nil {
			var err error
			if n, err = strconv.ParseInt(string(words[0]), 10, 64); err != nil || last != 1 || max(n, -n) > mostPayoffs {
				return errLinear
			}
		}
		l.N, l.Q = n, sum
		return nil
	}
	j, err := parseInt(field)
	if err != nil || j >= int64(u.dim) || value != nil && last != int(j)+1 {
		return fmt.Errorf("%w, or of no feature among %d", errLinear, u.dim)
	}
	row := make([]int64, j+1)
	for k := range row {
		if value != nil {
			if row[k], err = strconv.ParseInt(string(words[k]), 10, 64); err != nil {
				return errLinear
			}
		}
	}
	copy(l.G[j*(j+1)/2:], row)
	l.H[j] = sum
	return nil
}

// load restores a field; ok tells that it is one of these.
func (u *users) load(hash string, field, value []byte, items int) (ok bool, err error) {
	switch {
	case hash == hashCells:
		name, segment, err := u.parseCellName(field)
		if err != nil {
			return true, err
		}
		i, err := parseItem(name, items)
		if err != nil {
			return true, err
		}
		c, _, err := u.parseCell(value)
		if err != nil {
			return true, err
		}
		if cell, ok := u.cell(i, segment); ok {
			u.addOwn(cell, &c)
		}
		return true, nil
	case hash == hashCategories:
		i, err := parseItem(field, items)
		if err != nil || len(value) == 0 {
			return true, cmp.Or(err, errCategory)
		}
		if u.kinds.look {
			u.categorise(i, string(value))
		}
		return true, nil
	case hash == hashMet:
		return true, u.met.load(field, value, items)
	case hash == hashLinear:
		var err error
		u.turnLinear(u.linear, func() { err = u.setLinear(u.linear, field, value) })
		return true, err
	case hash == hashLearner && bytes.Equal(field, fieldFit):
		fit, err := u.takeGrouping(value)
		if err != nil {
			return true, err
		}
		return true, u.model.Load(fit)
	}
	return false, nil
}

// setSource takes in what another source has in a field; ok tells that it is one of these. What makes no sense is nothing.
func (u *users) setSource(source int32, hash string, field, value []byte, items Translate) (ok bool) {
	switch hash {
	case hashCells:
		name, segment, err := u.parseCellName(field)
		if err != nil {
			return true
		}
		if i, known := theirItem(name, items); known {
			if cell, ok := u.cell(i, segment); ok {
				u.takeCell(source, cell, value)
			}
		}
	case hashLinear:
		l := u.their(source).linear
		set := func() {
			if err := u.setLinear(l, field, value); err != nil {
				_ = u.setLinear(l, field, nil)
			}
		}
		if u.coming[source] != nil {
			set()
			break
		}
		u.turnLinear(l, set)
		u.told = true
	default:
		return false
	}
	return true
}
