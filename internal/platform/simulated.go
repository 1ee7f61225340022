package platform

import (
	"github.com/ranker-worker/ranker-worker/internal/simulate"
	"github.com/ranker-worker/ranker-worker/stream/event"
)

// Simulated plays a simulated population's users, and sums up the rankings' regret.
type Simulated struct {
	Population *simulate.Population
	Ledger     simulate.Ledger
}

var _ Users = (*Simulated)(nil)

func (u *Simulated) Impression(n int) (event.Impression, event.Millis, []Record) {
	im := u.Population.Impression(n)
	out := event.Impression{ID: []byte(im.ID), HasUtilities: true}
	for _, c := range im.Candidates {
		out.Candidates = append(out.Candidates, event.Candidate{Item: []byte(c.Item), Utility: c.Utility})
	}
	var along []Record
	if o, ok := u.Population.Orphan(n); ok {
		along = append(along, payoffRecord(o))
	}
	return out, im.Time, along
}

func (u *Simulated) Respond(n int, items [][]byte) ([]Record, error) {
	im := u.Population.Impression(n)
	names := make([]string, len(items))
	for i, item := range items {
		names[i] = string(item)
	}
	order, err := im.OrderOf(names)
	if err != nil {
		return nil, err
	}
	r := u.Population.Respond(im, order)
	u.Ledger.Add(im, r.Selected)
	var records []Record
	if s := r.Selection; s != nil {
		records = append(records, Record{At: s.Time, Topic: event.Selections, Selection: event.Selection{
			ID: []byte(s.ImpressionID), Item: []byte(s.Item), Utility: s.Utility, HasUtility: true}})
	}
	for _, p := range r.Payoffs {
		records = append(records, payoffRecord(p))
	}
	return records, nil
}

func payoffRecord(p simulate.Payoff) Record {
	return Record{At: p.Time, Topic: event.Payoffs, Payoff: event.Payoff{
		ID: []byte(p.ImpressionID), Payoff: p.Value, Item: []byte(p.Item), EventID: []byte(p.EventID)}}
}
