package demo

import (
	"github.com/ranker-worker/ranker-worker/internal/platform"
	"github.com/ranker-worker/ranker-worker/internal/simulate"
)

// newUsers makes users who like items that do not pay, and pay days later. On the front page, payoffs change after half of the impressions.
func newUsers(seed uint64, impressions int) (platform.Simulated, error) {
	all := platform.Simulated{{Learner: feed}, {Learner: frontPage}}
	for i := range all {
		c := simulate.Defaults(seed + uint64(i))
		c.Items, c.Candidates = 12, 6
		if all[i].Learner == frontPage {
			c.SwitchAt = max(1, impressions/2)
		}
		population, err := simulate.NewPopulation(c)
		if err != nil {
			return nil, err
		}
		all[i].Population, all[i].Ledger.Hindsight = population, population.Hindsight(impressions)
	}
	return all, nil
}
