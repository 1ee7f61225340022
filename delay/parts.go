package delay

import (
	"bytes"
	"errors"
	"math"
	"strconv"

	"github.com/ranker-worker/ranker-worker/delay/history"
	"github.com/ranker-worker/ranker-worker/policy"
)

// hashOpen maps "<item>" to what has come in parts for its selections whose payoff is awaited: how many of them have been paid
// something, the sum of what these have come to, and the sum of the squares, with blanks between. Where payoffs do not come in
// partialPayoffs there is nothing in it.
const hashOpen = "open"

// told is what was told of fb's selection in parts before.
func (fb *Feedback) told() history.Payoffs {
	if !fb.InParts {
		return history.Payoffs{}
	}
	return history.PayoffsOf(fb.Before)
}

// over is by how much the sum of these selections is above what they would be if each came to the default, in history.Units.
func over(p history.Payoffs, d float64) int64 { return p.R - p.N*history.InUnits(d) }

// partialPayoffs are what has come in parts for selections whose payoff is awaited, by item: this partition's own, and those that other
// sources have told of. They are integers, so that what is added is taken out without a trace, whatever came in between.
type partialPayoffs struct {
	policy.Totals[history.Payoffs]
	stored policy.Pages[history.Payoffs] // of our own, as harvested last
}

// replace puts what a selection of an item has come to now in place of what was told of it before.
func (p *partialPayoffs) replace(i policy.Item, before, now history.Payoffs) {
	if before != now {
		p.AddOwn(i, now.Minus(before), 1)
	}
}

// harvest writes what has changed of our own.
func (p *partialPayoffs) harvest(r Recorder, to *writer) {
	for i := range p.Changes().All() {
		b := p.Own(i)
		if p.stored.Get(i) == b {
			continue
		}
		to.field = strconv.AppendInt(to.field[:0], int64(i), 10)
		if b.N == 0 {
			p.stored.Remove(i)
			r.Field(hashOpen, to.field, nil)
			continue
		}
		*p.stored.At(i) = b
		to.value = strconv.AppendInt(to.value[:0], b.N, 10)
		to.value = strconv.AppendInt(append(to.value, ' '), b.R, 10)
		to.value = strconv.AppendInt(append(to.value, ' '), b.Q, 10)
		r.Field(hashOpen, to.field, to.value)
	}
	p.Changes().Clear()
}

var errOpen = errors.New("the value is not a count from 1 on, a sum within it, and squares within that")

func parseBegun(value []byte) (history.Payoffs, error) {
	words := bytes.Split(value, []byte{' '})
	if len(words) != 3 {
		return history.Payoffs{}, errOpen
	}
	var x [3]int64
	for k, w := range words {
		n, err := parseInt(w)
		if err != nil {
			return history.Payoffs{}, errOpen
		}
		x[k] = n
	}
	b := history.Payoffs{N: x[0], R: x[1], Q: x[2]}
	if b.N < 1 || b.N > math.MaxInt32 || b.R > b.N*history.Units || b.Q > b.R {
		return history.Payoffs{}, errOpen
	}
	return b, nil
}

func (p *partialPayoffs) load(field, value []byte) error {
	i, err := parseItem(field, p.Len())
	if err != nil {
		return err
	}
	b, err := parseBegun(value)
	if err != nil {
		return err
	}
	*p.stored.At(i) = b
	p.Set(i, b)
	return nil
}

// setSource takes in what another source has told of; nil where it has nothing.
func (p *partialPayoffs) setSource(source int32, field, value []byte, items Translate) {
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
