package simulate

import (
	"fmt"
	"strconv"
	"time"
)

// Selection says what the user of an impression selected, and when.
type Selection struct {
	ImpressionID string
	Item         string
	Utility      float64 // the user's own
	Time         int64   // milliseconds
}

// Payoff is one payoff record as it arrives.
type Payoff struct {
	ImpressionID string
	EventID      string
	Item         string
	Value        float64 // in [0,1]
	Time         int64   // milliseconds
}

// Response is what one ranking leads to.
type Response struct {
	Selected  int        // position of the selected candidate in the impression, also where no selection is sent
	Selection *Selection // nil: the user selects nothing
	Payoffs   []Payoff   // in the order of their times; empty: none ever comes
}

// OrderOf turns the items of a ranking into positions in the impression's candidates. A ranking that is not a
// permutation of the candidates is an error.
func (im *Impression) OrderOf(items []string) ([]int, error) {
	if len(items) != len(im.Candidates) {
		return nil, fmt.Errorf("ranking of %s: %d items for %d candidates", im.ID, len(items), len(im.Candidates))
	}
	positions := make(map[string]int, len(items))
	for i, c := range im.Candidates {
		positions[c.Item] = i
	}
	order := make([]int, len(items))
	for i, item := range items {
		position, ok := positions[item]
		if !ok {
			return nil, fmt.Errorf("ranking of %s: %q is no candidate, or comes twice", im.ID, item)
		}
		delete(positions, item)
		order[i] = position
	}
	return order, nil
}

// Respond lets the impression's user see its candidates in this order (a permutation of their positions; OrderOf makes
// and checks one). When things happen, and whether they do, depends on the impression alone; what is selected and what
// it pays depends on the order.
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
	if twice < c.Duplicates { // the same event, sent again, as producers do that lost an answer
		payoff.Time = min(payoff.Time+again.Milliseconds(), im.Time+c.Horizon.Milliseconds())
		r.Payoffs = append(r.Payoffs, payoff)
	}
	return r
}

// Orphan is the payoff for an unknown impression that comes along with impression k, if one does.
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
