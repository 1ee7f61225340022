package demo

import (
	"github.com/ranker-worker/ranker-worker/internal/platform"
	"github.com/ranker-worker/ranker-worker/internal/simulate"
	"github.com/ranker-worker/ranker-worker/stream/event"
)

// users are those of each learner; impressions are theirs in turn.
type users [learners]member

// member is one learner's users.
type member struct {
	learner string
	platform.Simulated
	impressions int               // made
	sent        [event.Inputs]int // records that follow from its rankings, by topic
}

var _ platform.Users = (*users)(nil)

// newUsers makes up people who like what does not pay, and pay days later. What pays on the front page changes when half
// of the impressions have gone by.
func newUsers(seed uint64, impressions int) (*users, error) {
	all := &users{{learner: feed}, {learner: frontPage}}
	for i := range all {
		c := simulate.Defaults(seed + uint64(i))
		c.Items, c.Candidates = 12, 6
		if all[i].learner == frontPage {
			c.SwitchAt = max(1, impressions/2)
		}
		population, err := simulate.NewPopulation(c)
		if err != nil {
			return nil, err
		}
		all[i].Population = population
		all[i].Ledger.Hindsight = population.Hindsight(impressions)
	}
	return all, nil
}

// world is what all users have in common.
func (u *users) world() simulate.Config { return u[0].Population.Config() }

func (u *users) of(n int) *member { return &u[n%learners] }

// Impression implements platform.Users.
func (u *users) Impression(n int) (event.Impression, event.Millis, []platform.Record) {
	m := u.of(n)
	i, at, along := m.Simulated.Impression(n)
	i.Learner = []byte(m.learner)
	m.impressions++
	return i, at, along
}

// Respond implements platform.Users.
func (u *users) Respond(n int, items [][]byte) ([]platform.Record, error) {
	m := u.of(n)
	records, err := m.Simulated.Respond(n, items)
	for i := range records {
		m.sent[records[i].Topic]++
	}
	return records, err
}
