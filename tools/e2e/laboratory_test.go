//go:build !race

package e2e

import (
	"fmt"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ranker-worker/ranker-worker/internal/lab"
	"github.com/ranker-worker/ranker-worker/internal/platform"
	"github.com/ranker-worker/ranker-worker/stream/event"
)

// laboratory are the users of an experiment of the laboratory, a learner for each run: l0, l1, … Each impression shows all items.
type laboratory struct {
	base         event.Millis // of the first impression
	items        int
	worlds       []*lab.World // by learner
	earned, best []float64    // by learner, in the mean over the luck of users
}

// laboratoryInterval is the time between impressions of a learner in milliseconds.
const laboratoryInterval = 1000

func newLaboratory(t *testing.T, e *lab.Experiment, learners int) *laboratory {
	t.Helper()
	// Brokers take no times that are far ahead.
	u := &laboratory{base: time.Now().Add(-24 * time.Hour).UnixMilli(), items: e.Items,
		earned: make([]float64, learners), best: make([]float64, learners)}
	for run := range learners {
		w, err := lab.NewWorld(e, run)
		require.NoError(t, err)
		u.worlds = append(u.worlds, w)
	}
	return u
}

// of is the learner of an impression, and when it is made.
func (u *laboratory) of(n int) (learner int, at event.Millis) {
	return n % len(u.worlds), u.base + event.Millis(n/len(u.worlds))*laboratoryInterval
}

// Impression implements platform.Users.
func (u *laboratory) Impression(n int) (event.Impression, event.Millis, []platform.Record) {
	learner, at := u.of(n)
	i := event.Impression{ID: fmt.Appendf(nil, "i-%d", n), Learner: fmt.Appendf(nil, "l%d", learner), HasUtilities: true}
	for item := range u.items {
		i.Candidates = append(i.Candidates, event.Candidate{Item: strconv.AppendInt(nil, int64(item), 10), Utility: float64(item)})
	}
	return i, at, nil
}

// Respond implements platform.Users. Rankings of the one partition come in the order of impressions.
func (u *laboratory) Respond(n int, items [][]byte) ([]platform.Record, error) {
	learner, at := u.of(n)
	ranking := make([]int32, len(items))
	for k, name := range items {
		item, err := strconv.Atoi(string(name))
		if err != nil {
			return nil, err
		}
		ranking[k] = int32(item)
	}
	w := u.worlds[learner]
	w.Next()
	u.earned[learner] += w.Earns(ranking)
	u.best[learner] += w.Best()
	place := w.Select(ranking)
	if place < 0 {
		return nil, nil
	}
	id := fmt.Appendf(nil, "i-%d", n)
	records := []platform.Record{{At: at + 500, Topic: event.Selections, Selection: event.Selection{ID: id, Item: slices.Clone(items[place])}}}
	if r := w.Reply(ranking[place]); r.Paid {
		records = append(records, platform.Record{At: at + 600 + r.Late*laboratoryInterval, Topic: event.Payoffs,
			Payoff: event.Payoff{ID: id, Payoff: r.Payoff}})
	}
	return records, nil
}
