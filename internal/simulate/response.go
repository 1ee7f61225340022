package simulate

import (
	"fmt"
	"strconv"
	"time"
)

// Selection is a user's selection from an impression.
type Selection struct {
	ImpressionID string
	Item         string
	Utility      float64 // the user's own
	Time         int64   // milliseconds
}

// Payoff is a payoff record.
type Payoff struct {
	ImpressionID string
	EventID      string
	Item         string
	Value        float64 // in [0,1]
	Time         int64   // milliseconds
}

// Response is the outcome of one ranking.
type Response struct {
	Selected  int        // position in the impression, also if no selection is sent
	Selection *Selection // nil without a selection
	Payoffs   []Payoff   // in the order of time; empty if none ever comes
}

// OrderOf converts a ranking's items to positions of candidates. It fails unless they are a permutation.
func OrderOf(candidates []Candidate, items [][]byte) ([]int, error) {
	if len(items) != len(candidates) {
		return nil, fmt.Errorf("%d items for %d candidates", len(items), len(candidates))
	}
	positions := make(map[string]int, len(items))
	for i, c := range candidates {
		positions[c.Item] = i
	}
	order := make([]int, len(items))
	for i, item := range items {
		position, ok := positions[string(item)]
		if !ok {
			return nil, fmt.Errorf("%q is no candidate, or comes twice", item)
		}
		delete(positions, string(item))
		order[i] = position
	}
	return order, nil
}

// Respond shows the impression's user the candidates in an order of positions, a permutation (see OrderOf). Times and the existence
// of events depend on the impression alone, selection and payoff on the order.
func (p *Population) Respond(im *Impression, order []int) Response {
	c := p.config
	rng := p.rng(streamResponse, im.Number)
	fate, twice := rng.Float64(), rng.Float64()
	thinks := time.Second + time.Duration(rng.Float64()*float64(c.SelectionDelay-time.Second))
	delay := logUniform(rng, c.MinDelay, c.MaxDelay)
	again := logUniform(rng, time.Second, time.Hour)

	r := Response{Selected: Select(im.Candidates, order, im.Window)}
	if fate < c.Unselected {
		return r
	}
	chosen := im.Candidates[r.Selected]
	selected := im.Time + thinks.Milliseconds()
	r.Selection = &Selection{im.ID, chosen.Item, chosen.Utility, selected}
	if fate < c.Unselected+c.Missing {
		return r
	}
	payoff := Payoff{im.ID, "e-" + strconv.Itoa(im.Number), chosen.Item, im.Payoffs[r.Selected], selected + delay.Milliseconds()}
	if fate < c.Unselected+c.Missing+c.Late {
		payoff.Time = im.Time + c.Horizon.Milliseconds() + delay.Milliseconds()
		r.Payoffs = []Payoff{payoff}
		return r
	}
	r.Payoffs = []Payoff{payoff}
	if twice < c.Duplicates { // resent by a producer that lost an answer
		payoff.Time = min(payoff.Time+again.Milliseconds(), im.Time+c.Horizon.Milliseconds())
		r.Payoffs = append(r.Payoffs, payoff)
	}
	return r
}

// Orphan returns the payoff for an unknown impression beside impression k, if there is one.
func (p *Population) Orphan(k int) (Payoff, bool) {
	rng := p.rng(streamOrphan, k)
	if rng.Float64() >= p.config.Orphans {
		return Payoff{}, false
	}
	id := strconv.Itoa(k)
	return Payoff{
		ImpressionID: "nobody-" + id, EventID: "o-" + id, Item: p.names[rng.IntN(len(p.names))], Value: rng.Float64(),
		Time: p.config.Start + int64(k)*p.config.Interval.Milliseconds(),
	}, true
}
