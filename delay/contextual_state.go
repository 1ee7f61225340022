package delay

import (
	"bytes"
	"cmp"
	"errors"
	"math"
	"slices"
	"strconv"

	"github.com/ranker-worker/ranker-worker/delay/history"
	"github.com/ranker-worker/ranker-worker/delay/inflight"
	"github.com/ranker-worker/ranker-worker/policy"
	"github.com/ranker-worker/ranker-worker/policy/contextual"
	"github.com/ranker-worker/ranker-worker/policy/features"
	"github.com/ranker-worker/ranker-worker/policy/words"
)

// The hashes of a contextual learner. Numbers are decimal with blanks between; sums of payoffs are in units of 2⁻³⁰, of features in
// units of 1/127.
//   - "cells": "<item>", or "<item>|<segment>" with segments, to the number of selections in flight and their sums by feature.
//     Then, by bucket of paid selections "<level>:<index>:<payoffs>:<sum>:<feature sums>…", and " =" with the item's category.
//   - "categories": "<item>" to its category, also without cells.
//   - "met": "<item>" to the event time in milliseconds of its first impression.
//   - "linear": "<level>:<index>" to the number of payoffs, less one for each forgotten item, and Σr². Then, by feature, its row of
//     Σxxᵀ up to the diagonal (units of 1/127²) and Σxr (units of 2⁻³⁰/127).
//   - Field "fit" of "learner": the last fit (contextual.Model).
var (
	hashCells      = named("cells")
	hashCategories = named("categories")
	hashLinear     = named("linear")
)

const (
	fieldFit    = "fit"
	fieldLooked = "looked" // the tick of the last search for a change; absent with a global learner, which searches
)

// cellsHash stores cells. It stands for all state by item of a contextual learner.
type cellsHash struct {
	*contexts
	table *policy.Table
}

// categoriesHash stores items' categories, and linearHash linear sums.
type (
	categoriesHash struct{ *contexts }
	linearHash     struct{ *contexts }
)

func (cellsHash) about() hashInfo { return hashInfo{Pooled{Hash: hashCells, ByItem: true}, true} }

func (categoriesHash) about() hashInfo { return hashInfo{Pooled{Hash: hashCategories}, false} }

func (linearHash) about() hashInfo { return hashInfo{Pooled{Hash: hashLinear}, true} }

func (u cellsHash) harvest(r Recorder, to *writer) {
	for i := range u.cells.All() {
		to.field = u.appendCell(to.field[:0], i)
		c := u.own.Get(i)
		if c.none() {
			r.Field(hashCells, to.field, nil)
			continue
		}
		to.value = c.append(to.value[:0])
		if name := u.categories.name(u.itemOf(i)); name != "" {
			to.value = append(append(to.value, beginsCategory...), name...)
		}
		r.Field(hashCells, to.field, to.value)
	}
	u.cells.Clear()
}

func (u categoriesHash) harvest(r Recorder, to *writer) {
	for i := range u.categories.changed.All() {
		to.field = strconv.AppendInt(to.field[:0], int64(i), 10)
		if name := u.categories.name(i); name != "" {
			to.value = append(to.value[:0], name...)
			r.Field(hashCategories, to.field, to.value)
		} else {
			r.Field(hashCategories, to.field, nil)
		}
	}
	u.categories.changed.Clear()
}

// harvestFit records the last fit.
func (u *contexts) harvestFit(r Recorder, to *writer) {
	if u.unstored || u.model.Unstored() {
		u.unstored = false
		u.model.Stored()
		r.Field(HashLearner, []byte(fieldFit), u.model.Append(u.appendGrouping(to.value[:0])))
		if u.global == nil && u.looked != inflight.Never {
			r.Field(HashLearner, []byte(fieldLooked), strconv.AppendInt(to.value[:0], u.looked, 10))
		}
	}
}

func (u *contexts) appendCell(dst []byte, cell int32) []byte {
	if u.segments == 1 {
		return words.Append(dst, '|', int64(cell))
	}
	return words.Append(dst, '|', int64(cell/u.segments), int64(cell%u.segments))
}

// parseCellName reads a name that appendCell wrote: one of so many items, and the segment.
func (u *contexts) parseCellName(field []byte, items int) (i policy.Item, segment int32, err error) {
	r := words.Of(field, '|')
	if i = readItem(&r, items); u.segments > 1 {
		segment = int32(r.Int(0, int64(u.segments)-1))
	}
	return i, segment, r.End(errCell)
}

func (c *cellRows) append(dst []byte) []byte {
	dst = strconv.AppendInt(dst, c.awaited, 10)
	if c.awaited > 0 && len(c.x) > 0 {
		dst = words.Append(append(dst, ' '), ' ', c.x...)
	}
	if len(c.rows) > 0 {
		dst = c.rows.Append(append(dst, ' '))
	}
	return dst
}

var beginsCategory = []byte(" =")

var errCategory = errors.New("a category has no name")

var errCell = errors.New("the value is not a count of selections and the sums of as many features, and blocks with a count of payoffs, their sum and those of as many features, or the field no cell")

// parseCell reads a value that harvest wrote: sums, and the item's category.
func (u *contexts) parseCell(value []byte) (c cellRows, category []byte, err error) {
	numbers, category, _ := bytes.Cut(value, beginsCategory)
	r := words.Of(numbers, ' ')
	if c.awaited = r.Int(0, mostPayoffs); c.awaited > 0 && u.dim > 0 {
		c.x = make([]int64, u.dim)
		r.Ints(c.x, -features.One*c.awaited, features.One*c.awaited)
	}
	if r.Left() {
		c.rows = history.Read(&r, u.readPaid)
	}
	return c, category, r.End(errCell)
}

// readPaid reads a block's sums.
func (u *contexts) readPaid(r *words.Reader) paidSums {
	p := paidSums{r.Int(1, mostPayoffs), r.Int(-math.MaxInt64, math.MaxInt64), make([]int64, u.dim)}
	r.Check(max(p.R, -p.R)/history.Units <= p.N)
	r.Ints(p.S, -features.One*p.N, features.One*p.N)
	return p
}

// mostPayoffs bounds the number of payoffs of parsed sums.
const mostPayoffs = 1 << 40

func (u linearHash) harvest(r Recorder, to *writer) {
	for _, b := range u.linear.moved {
		to.field, to.value = inflight.AppendBucket(to.field[:0], b), to.value[:0]
		at, found := u.linear.rows.Find(b)
		if !found {
			r.Field(hashLinear, to.field, nil)
			continue
		}
		to.value = appendLinear(to.value, u.linear.rows[at].Sum.Linear)
		r.Field(hashLinear, to.field, to.value)
	}
	u.linear.moved = u.linear.moved[:0]
}

func appendLinear(dst []byte, l *contextual.Linear) []byte {
	dst = append(strconv.AppendInt(dst, l.N, 10), ' ')
	dst = l.Q.Append(dst)
	at := 0
	for j := range l.H {
		dst = words.Append(append(dst, ' '), ' ', l.G[at:at+j+1]...)
		dst = l.H[j].Append(append(dst, ' '))
		at += j + 1
	}
	return dst
}

var errLinear = errors.New("the value is not the linear sums of as many features, or the field no block")

func parseLinear(value []byte, dim int) (*contextual.Linear, error) {
	l, r := contextual.NewLinear(dim), words.Of(value, ' ')
	wide := func() contextual.Wide {
		w, err := contextual.ParseWide(r.Word())
		r.Check(err == nil)
		return w
	}
	l.N, l.Q = r.Int(-mostPayoffs, mostPayoffs), wide()
	at := 0
	for j := range l.H {
		r.Ints(l.G[at:at+j+1], math.MinInt64, math.MaxInt64)
		l.H[j] = wide()
		at += j + 1
	}
	if err := r.End(errLinear); err != nil {
		return nil, err
	}
	return l, nil
}

// setBlock sets a source's linear sums of a bucket; nil deletes them. It fails if the text is malformed.
func (u *contexts) setBlock(rows *linearRows, field, value []byte) error {
	b, err := inflight.ParseBucket(field)
	if err != nil {
		return errLinear
	}
	var l *contextual.Linear
	if value != nil {
		if l, err = parseLinear(value, u.dim); err != nil {
			return err
		}
	}
	u.changeLinear(rows, func() { setRow(rows, b, l) })
	return nil
}

func setRow(rows *linearRows, b inflight.Bucket, l *contextual.Linear) {
	at, found := rows.Find(b)
	switch {
	case found && l == nil:
		*rows = slices.Delete(*rows, at, at+1)
	case found:
		(*rows)[at].Sum = linearSums{l}
	case l != nil:
		*rows = slices.Insert(*rows, at, history.Row[linearSums]{Bucket: b, Sum: linearSums{l}})
	}
}

func (u cellsHash) load(field, value []byte, items int) error {
	i, segment, err := u.parseCellName(field, items)
	if err != nil {
		return err
	}
	c, _, err := u.parseCell(value)
	if err != nil {
		return err
	}
	if cell, ok := u.cell(i, segment); ok {
		u.addOwn(cell, &c)
	}
	return nil
}

func (u categoriesHash) load(field, value []byte, items int) error {
	i, err := parseItem(field, items)
	if err != nil || len(value) == 0 {
		return cmp.Or(err, errCategory)
	}
	if u.categories.look {
		u.categorise(i, string(value))
	}
	return nil
}

func (u linearHash) load(field, value []byte, _ int) error {
	return u.setBlock(&u.linear.rows, field, value)
}

func (u *contexts) loadLooked(value []byte) (err error) {
	u.looked, err = parseTime(value)
	return err
}

func (u *contexts) loadFit(value []byte) error {
	fit, err := u.takeGrouping(value)
	if err != nil {
		return err
	}
	return u.model.Load(fit)
}

func (u cellsHash) setSource(source int32, field, value []byte, items Translate) {
	theirs, segment, err := u.parseCellName(field, math.MaxInt32)
	if err != nil {
		return
	}
	if i, known := items(theirs); known {
		if cell, ok := u.cell(i, segment); ok {
			u.takeCell(source, cell, value)
		}
	}
}

func (categoriesHash) setSource(int32, []byte, []byte, Translate) {}

func (u linearHash) setSource(source int32, field, value []byte, _ Translate) {
	to := u.their(source)
	if to == u.coming[source] {
		if b, err := inflight.ParseBucket(field); err == nil {
			l, _ := parseLinear(value, u.dim)
			setRow(&to.linear, b, l)
		}
		return
	}
	if err := u.setBlock(&to.linear, field, value); err != nil {
		_ = u.setBlock(&to.linear, field, nil)
	}
	u.newData = true
}

// takeCell sets a source's cell; a malformed value empties it.
func (u *contexts) takeCell(source, cell int32, value []byte) {
	now, category, err := u.parseCell(value)
	if err != nil || now.none() {
		now = cellRows{}
	} else if u.isGlobal && u.categories.look {
		now.kind = u.categories.take(string(category))
	}
	coming := u.coming[source]
	if coming == nil {
		u.setCell(u.their(source), cell, now)
		return
	}
	u.categories.leave(coming.cells.Get(cell).kind)
	*coming.cells.At(cell) = now
}
