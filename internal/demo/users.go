package demo

import (
	"github.com/ranker-worker/ranker-worker/internal/platform"
	"github.com/ranker-worker/ranker-worker/internal/simulate"
	"github.com/ranker-worker/ranker-worker/stream/event"
)

// users lets a simulated population stand in front of the worker.
type users struct {
	population *simulate.Population
	ledger     simulate.Ledger
}

var _ platform.Users = (*users)(nil)

// Impression implements platform.Users.
func (u *users) Impression(n int) (event.Impression, event.Millis, []platform.Record) {
	im := u.population.Impression(n)
	out := event.Impression{ID: []byte(im.ID), HasUtilities: true}
	for _, c := range im.Candidates {
		out.Candidates = append(out.Candidates, event.Candidate{Item: []byte(c.Item), Utility: c.Utility})
	}
	var along []platform.Record
	if o, ok := u.population.Orphan(n); ok {
		along = append(along, payoffRecord(o))
	}
	return out, im.Time, along
}

// Respond implements platform.Users.
func (u *users) Respond(n int, items [][]byte) ([]platform.Record, error) {
	im := u.population.Impression(n)
	names := make([]string, len(items))
	for i, item := range items {
		names[i] = string(item)
	}
	order, err := im.OrderOf(names)
	if err != nil {
		return nil, err
	}
	r := u.population.Respond(im, order)
	u.ledger.Add(im, r.Selected)
	var records []platform.Record
	if s := r.Selection; s != nil {
		records = append(records, platform.Record{At: s.Time, Topic: event.Selections, Selection: event.Selection{
			ID: []byte(s.ImpressionID), Item: []byte(s.Item), Utility: s.Utility, HasUtility: true}})
	}
	for _, p := range r.Payoffs {
		records = append(records, payoffRecord(p))
	}
	return records, nil
}

func payoffRecord(p simulate.Payoff) platform.Record {
	return platform.Record{At: p.Time, Topic: event.Payoffs, Payoff: event.Payoff{
		ID: []byte(p.ImpressionID), Payoff: p.Value, Item: []byte(p.Item), EventID: []byte(p.EventID)}}
}
