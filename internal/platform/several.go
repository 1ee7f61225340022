package platform

import "github.com/ranker-worker/ranker-worker/stream/event"

// Several are the users of several learners, which get impressions in turn.
type Several []Member

type Member struct {
	Learner string
	Simulated
	Impressions int               // made
	Sent        [event.Inputs]int // records after its rankings, by topic
}

var _ Users = Several(nil)

// Of returns the users of impression n.
func (s Several) Of(n int) *Member { return &s[n%len(s)] }

func (s Several) Impression(n int) (event.Impression, event.Millis, []Record) {
	m := s.Of(n)
	i, at, along := m.Simulated.Impression(n)
	i.Learner = []byte(m.Learner)
	m.Impressions++
	return i, at, along
}

func (s Several) Respond(n int, items [][]byte) ([]Record, error) {
	m := s.Of(n)
	records, err := m.Simulated.Respond(n, items)
	for i := range records {
		m.Sent[records[i].Topic]++
	}
	return records, err
}
