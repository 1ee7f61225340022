package delay

import (
	"bytes"
	"errors"
	"math"
	"strconv"

	"github.com/ranker-worker/ranker-worker/policy"
)

// hashOpen maps "<item>" to what has come in parts for its selections whose payoff is awaited: how many of them have been paid
// something, the sum of what these have come to, and the sum of the squares, with blanks between. Where payoffs do not come in
// parts there is nothing in it.
const hashOpen = "open"

// partUnits are in a normalised payoff of 1. Payoffs in parts are added as integers, so that what is added is taken out without
// a trace, whatever came in between.
const partUnits = 1 << 30

func inParts(x float64) int64 { return int64(math.Round(x * partUnits)) }

// begun are selections of an item that have been paid in parts, and may be paid more: how many, what they have come to, and
// the squares of that, in units.
type begun struct{ n, sum, squares int64 }

// Add is the selections of both.
func (b begun) Add(o begun) begun { return begun{b.n + o.n, b.sum + o.sum, b.squares + o.squares} }

func (b begun) minus(o begun) begun { return begun{b.n - o.n, b.sum - o.sum, b.squares - o.squares} }

// begunBy is one selection that has come to a normalised payoff so far.
func begunBy(payoff float64) begun {
	return begun{1, inParts(payoff), inParts(float64(payoff * payoff))}
}

// told is what was told of fb's selection in parts before.
func (fb *Feedback) told() begun {
	if !fb.InParts {
		return begun{}
	}
	return begunBy(fb.Before)
}

// over is by how much the sum of these selections is above what they would be if each came to the default, in units.
func (b begun) over(d float64) int64 { return b.sum - b.n*inParts(d) }

// parts are what has come in parts for selections whose payoff is awaited, by item: this partition's own, and those that other
// sources have told of.
type parts struct {
	policy.Totals[begun]
	stored []begun // of our own, as harvested last
}

func (p *parts) grow(items int) {
	p.Grow(items)
	p.stored = extend(p.stored, items-len(p.stored))
}

// replace puts what a selection of an item has come to now in place of what was told of it before.
func (p *parts) replace(i policy.Item, before, now begun) {
	if before != now {
		p.AddOwn(i, now.minus(before), 1)
	}
}

// harvest writes what has changed of our own.
func (p *parts) harvest(r Recorder, to *writer) {
	for i := range p.Changes().All() {
		b := p.Own(i)
		if p.stored[i] == b {
			continue
		}
		p.stored[i] = b
		to.field = strconv.AppendInt(to.field[:0], int64(i), 10)
		if b.n == 0 {
			r.Field(hashOpen, to.field, nil)
			continue
		}
		to.value = strconv.AppendInt(to.value[:0], b.n, 10)
		to.value = strconv.AppendInt(append(to.value, ' '), b.sum, 10)
		to.value = strconv.AppendInt(append(to.value, ' '), b.squares, 10)
		r.Field(hashOpen, to.field, to.value)
	}
	p.Changes().Clear()
}

var errOpen = errors.New("the value is not a count from 1 on, a sum within it, and squares within that")

func parseBegun(value []byte) (begun, error) {
	words := bytes.Split(value, []byte{' '})
	if len(words) != 3 {
		return begun{}, errOpen
	}
	var x [3]int64
	for k, w := range words {
		n, err := parseInt(w)
		if err != nil {
			return begun{}, errOpen
		}
		x[k] = n
	}
	b := begun{x[0], x[1], x[2]}
	if b.n < 1 || b.n > math.MaxInt32 || b.sum > b.n*partUnits || b.squares > b.sum {
		return begun{}, errOpen
	}
	return b, nil
}

func (p *parts) load(field, value []byte) error {
	i, err := parseItem(field, p.Len())
	if err != nil {
		return err
	}
	b, err := parseBegun(value)
	if err != nil {
		return err
	}
	p.stored[i] = b
	p.Set(i, b)
	return nil
}

// setSource takes in what another source has told of; nil where it has nothing.
func (p *parts) setSource(source int32, field, value []byte, items Translate) {
	i, known := theirItem(field, items)
	if !known {
		return
	}
	if value == nil {
		p.Drop(source, i)
	} else if b, err := parseBegun(value); err == nil {
		p.SetSource(source, i, b)
	}
}
