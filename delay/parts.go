package delay

import (
	"bytes"
	"errors"
	"math"
	"strconv"

	"github.com/ranker-worker/ranker-worker/delay/history"
	"github.com/ranker-worker/ranker-worker/policy"
)

// hashOpen maps "<item>" to the partial payoffs of its selections in flight: their number, sum, and sum of squares, in
// history.Units with blanks between. It is empty without partial payoffs.
const hashOpen = "open"

// previous returns fb's previous partial payoff.
func (fb *Feedback) previous() history.Payoffs {
	if !fb.InParts {
		return history.Payoffs{}
	}
	return history.PayoffsOf(fb.Before)
}

// over returns p's sum minus that of as many defaults d, in history.Units.
func over(p history.Payoffs, d float64) int64 { return p.R - p.N*history.InUnits(d) }

// partialPayoffs sums the partial payoffs of selections in flight by item: this partition's own, and other sources'. Sums are
// integers, so that removal is exact in any order.
type partialPayoffs struct {
	policy.Totals[history.Payoffs]
	stored policy.Pages[history.Payoffs] // our own at the last harvest
	total  history.Payoffs               // the sum of our own
}

func (p *partialPayoffs) replace(i policy.Item, before, now history.Payoffs) {
	if before != now {
		p.AddOwn(i, now.Minus(before), 1)
		p.total = p.total.Add(now.Minus(before))
	}
}

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
	p.total = p.total.Add(b.Minus(p.Own(i)))
	p.Set(i, b)
	return nil
}

// setSource sets another source's sums; a nil value removes them, and a malformed one is ignored.
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
