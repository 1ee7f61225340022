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
	"github.com/ranker-worker/ranker-worker/stream/event"
)

// mark begins the ids of all generated impressions, in any run.
const mark = "generated-"

// users are simulated users of a configuration's learners. Their ids are those of one run; their payoffs are in their learner's range.
type users struct {
	platform.Several
	ranges []config.Range // by learner, as Several
	prefix string         // of this run's ids
}

var _ platform.Users = (*users)(nil)

// newUsers makes users for each learner, as in the demo, but with seconds and minutes in place of days.
func newUsers(learners []config.Learner, candidates int, seed uint64, now time.Time) (*users, error) {
	u := &users{prefix: mark + strconv.FormatInt(now.UnixMilli(), 36) + strconv.FormatUint(rand.Uint64N(36*36), 36) + "-"}
	for i := range learners {
		l := &learners[i]
		c := simulate.Defaults(seed + uint64(i))
		c.Items, c.Candidates = 12, min(6, candidates)
		compress(&c, l)
		population, err := simulate.NewPopulation(c)
		if err != nil {
			return nil, fmt.Errorf("users of learner %q: %w", l.Name, err)
		}
		u.Several = append(u.Several, platform.Member{Learner: l.Name, Simulated: platform.Simulated{Population: population}})
		u.ranges = append(u.ranges, l.PayoffRange)
	}
	return u, nil
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

// number returns the impression of an id of this run.
func (u *users) number(id []byte) (n int, ok bool) {
	rest, ok := strings.CutPrefix(string(id), u.prefix)
	if !ok {
		return 0, false
	}
	return simulate.ImpressionNumber(rest)
}

func (u *users) id(of []byte) []byte { return append([]byte(u.prefix), of...) }

func (u *users) Impression(n int) (event.Impression, event.Millis, []platform.Record) {
	i, at, along := u.Several.Impression(n)
	i.ID = u.id(i.ID)
	return i, at, u.own(n, along)
}

func (u *users) Respond(n int, items [][]byte) ([]platform.Record, error) {
	records, err := u.Several.Respond(n, items)
	return u.own(n, records), err
}

// own gives records the ids of this run, and payoffs the unit of impression n's learner.
func (u *users) own(n int, records []platform.Record) []platform.Record {
	in := u.ranges[n%len(u.ranges)]
	for i := range records {
		r := &records[i]
		switch r.Topic {
		case event.Selections:
			r.Selection.ID = u.id(r.Selection.ID)
		default:
			r.Payoff.ID, r.Payoff.EventID = u.id(r.Payoff.ID), u.id(r.Payoff.EventID)
			r.Payoff.Payoff = in.Min + r.Payoff.Payoff*(in.Max-in.Min)
		}
	}
	return records
}
