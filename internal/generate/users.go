package generate

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"

	"github.com/ranker-worker/ranker-worker/config"
	"github.com/ranker-worker/ranker-worker/internal/platform"
	"github.com/ranker-worker/ranker-worker/internal/simulate"
)

// mark begins the ids of all generated impressions, in any run.
const mark = "generated-"

// newPrefix returns the beginning of one run's ids.
func newPrefix(now time.Time) string {
	return mark + strconv.FormatInt(now.UnixMilli(), 36) + strconv.FormatUint(rand.Uint64N(36*36), 36) + "-"
}

// returning is the number of users, few enough for each to come back.
const returning = 1000

// newUsers makes users for each learner, as in the demo, but with seconds and minutes in place of days.
func newUsers(learners []config.Learner, candidates int, seed uint64, prefix string) (platform.Simulated, error) {
	var all platform.Simulated
	for i := range learners {
		l := &learners[i]
		c := simulate.Defaults(seed + uint64(i))
		c.Items, c.Candidates = 12, min(6, candidates)
		compress(&c, l)
		population, err := simulate.NewPopulation(c)
		if err != nil {
			return nil, fmt.Errorf("users of learner %q: %w", l.Name, err)
		}
		all = append(all, platform.Member{Learner: l.Name, Population: population, Prefix: prefix, Users: returning, Range: l.PayoffRange})
	}
	return all, nil
}

// compress makes selections come within seconds and payoffs within minutes, in time for the learner, unless its horizons are below two
// seconds.
func compress(c *simulate.Config, l *config.Learner) {
	c.Interval = time.Second
	c.Horizon = max(2*time.Second, min(5*time.Minute, l.PayoffHorizon*3/4))
	c.SelectionDelay = max(time.Second, min(10*time.Second, l.SelectionTimeout/2, c.Horizon/4))
	c.MaxDelay = min(3*time.Minute, c.Horizon-c.SelectionDelay)
	c.MinDelay = min(2*time.Second, c.MaxDelay/4)
}

// number returns a function that returns the impression of an id with a prefix.
func number(prefix string) func(id []byte) (n int, ok bool) {
	return func(id []byte) (int, bool) {
		rest, ok := strings.CutPrefix(string(id), prefix)
		if !ok {
			return 0, false
		}
		return simulate.ImpressionNumber(rest)
	}
}
