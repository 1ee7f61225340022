package platform

import (
	"fmt"
	"math/rand/v2"

	"github.com/ranker-worker/ranker-worker/config"
	"github.com/ranker-worker/ranker-worker/internal/simulate"
	"github.com/ranker-worker/ranker-worker/stream/event"
)

type Users interface {
	// Impression returns impression n with its candidates and its time on the players' clock, and records that come with it unasked. Times
	// never fall from one n to the next.
	Impression(n int) (i event.Impression, at event.Millis, along []Record)
	Respond(n int, items [][]byte) ([]Record, error)
}

// Record is a selection or a payoff to be sent at a time of the players' clock. Its own time is filled in.
type Record struct {
	At        event.Millis
	Topic     event.Topic // event.Selections or event.Payoffs
	Selection event.Selection
	Payoff    event.Payoff
}

// Simulated are the users of one or more learners, which get impressions in turn.
type Simulated []Member

// Member is a learner's simulated population, with sums over its rankings.
type Member struct {
	Learner     string // in impressions; "" for none
	Population  *simulate.Population
	Prefix      string       // of the ids of impressions and events
	Users       int          // who come back, in impressions; 0 for none
	Range       config.Range // of payoffs; zero for [0,1]
	Ledger      simulate.Ledger
	Impressions int               // made
	Sent        [event.Inputs]int // records after its rankings, by topic
}

var _ Users = Simulated(nil)

func (s Simulated) Impression(n int) (event.Impression, event.Millis, []Record) {
	m := &s[n%len(s)]
	m.Impressions++
	im := m.Population.Impression(n)
	out := event.Impression{ID: m.id(im.ID), HasUtilities: true}
	if m.Learner != "" {
		out.Learner = []byte(m.Learner)
	}
	if m.Users > 0 {
		out.User = fmt.Appendf(nil, "user-%d", rand.New(rand.NewPCG(uint64(n), 0)).IntN(m.Users))
	}
	for _, c := range im.Candidates {
		out.Candidates = append(out.Candidates, event.Candidate{Item: []byte(c.Item), Utility: c.Utility})
	}
	var along []Record
	if o, ok := m.Population.Orphan(n); ok {
		along = append(along, m.payoff(&o))
	}
	return out, im.Time, along
}

func (s Simulated) Respond(n int, items [][]byte) ([]Record, error) {
	m := &s[n%len(s)]
	im := m.Population.Impression(n)
	order, err := simulate.OrderOf(im.Candidates, items)
	if err != nil {
		return nil, fmt.Errorf("ranking of %s: %w", im.ID, err)
	}
	r := m.Population.Respond(im, order)
	m.Ledger.Add(im, r.Selected)
	var records []Record
	if s := r.Selection; s != nil {
		records = append(records, Record{At: s.Time, Topic: event.Selections, Selection: event.Selection{
			ID: m.id(s.ImpressionID), Item: []byte(s.Item), Utility: s.Utility, HasUtility: true}})
		m.Sent[event.Selections]++
	}
	for k := range r.Payoffs {
		records = append(records, m.payoff(&r.Payoffs[k]))
		m.Sent[event.Payoffs]++
	}
	return records, nil
}

func (m *Member) id(of string) []byte { return []byte(m.Prefix + of) }

func (m *Member) payoff(p *simulate.Payoff) Record {
	in := m.Range
	if in == (config.Range{}) {
		in.Max = 1
	}
	return Record{At: p.Time, Topic: event.Payoffs, Payoff: event.Payoff{ID: m.id(p.ImpressionID), Payoff: in.Min + p.Value*(in.Max-in.Min),
		Item: []byte(p.Item), EventID: m.id(p.EventID)}}
}
