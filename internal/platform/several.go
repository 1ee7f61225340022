package platform

import "github.com/ranker-worker/ranker-worker/stream/event"

// Several are the users of several learners; impressions are theirs in turn.
type Several []Member

// Member is one learner's users.
type Member struct {
	Learner string
	Simulated
	Impressions int               // made
	Sent        [event.Inputs]int // records that follow from its rankings, by topic
}

var _ Users = Several(nil)

// Of are the users whose impression n is.
func (s Several) Of(n int) *Member { return &s[n%len(s)] }

// Impression implements Users.
func (s Several) Impression(n int) (event.Impression, event.Millis, []Record) {
	m := s.Of(n)
	i, at, along := m.Simulated.Impression(n)
	i.Learner = []byte(m.Learner)
	m.Impressions++
	return i, at, along
}

// Respond implements Users.
func (s Several) Respond(n int, items [][]byte) ([]Record, error) {
	m := s.Of(n)
	records, err := m.Simulated.Respond(n, items)
	for i := range records {
		m.Sent[records[i].Topic]++
	}
	return records, err
}
