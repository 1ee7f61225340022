//go:build !race

package e2e

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ranker-worker/ranker-worker/internal/app"
	"github.com/ranker-worker/ranker-worker/internal/dashboard"
	"github.com/ranker-worker/ranker-worker/internal/platform"
	"github.com/ranker-worker/ranker-worker/internal/test/testenv"
	"github.com/ranker-worker/ranker-worker/stream/event"
)

// shop are users of ten items, of which an impression shows six. They look at one to three and select the one they like best: of the
// highest number, which is paid least. Of the selections under a random ranking 4.7% are paid, 20 seconds later on average.
type shop struct {
	base   event.Millis
	rng    *rand.Rand
	earned [2]float64 // paid shares of selections late in the play, and of those under a random ranking
	from   int        // the first impression of these
}

// conversion is the share of an item's selections that are paid.
func conversion(item int) float64 { return 0.25 * math.Pow(0.7, float64(item)) }

func (s *shop) at(n int) event.Millis { return s.base + int64(n)*1000/perSecond }

const perSecond = 17

// Impression implements platform.Users.
func (s *shop) Impression(n int) (event.Impression, event.Millis, []platform.Record) {
	i := event.Impression{ID: fmt.Appendf(nil, "i-%d", n), HasUtilities: true}
	for _, item := range s.rng.Perm(10)[:6] {
		i.Candidates = append(i.Candidates, event.Candidate{Item: strconv.AppendInt(nil, int64(item), 10), Utility: float64(item)})
	}
	return i, s.at(n), nil
}

// Respond implements platform.Users.
func (s *shop) Respond(n int, names [][]byte) ([]platform.Record, error) {
	var items []int
	for _, name := range names {
		item, err := strconv.Atoi(string(name))
		if err != nil {
			return nil, err
		}
		items = append(items, item)
	}
	window := 1 + s.rng.IntN(3)
	selected := slices.Max(items[:window])
	if n >= s.from {
		s.earned[0] += conversion(selected)
		s.rng.Shuffle(len(items), func(a, b int) { items[a], items[b] = items[b], items[a] })
		s.earned[1] += conversion(slices.Max(items[:window]))
	}
	id, at := fmt.Appendf(nil, "i-%d", n), s.at(n)+500
	records := []platform.Record{{At: at, Topic: event.Selections, Selection: event.Selection{ID: id, Item: strconv.AppendInt(nil, int64(selected), 10)}}}
	if s.rng.Float64() < conversion(selected) {
		records = append(records, platform.Record{At: at + int64(20_000*s.rng.ExpFloat64()), Topic: event.Payoffs, Payoff: event.Payoff{ID: id, Payoff: 1}})
	}
	return records, nil
}

// TestUnraced_AnAfternoonIsEnough: with the default policy and payoff horizon, 30 days, the last two of eight minutes earn at least half as
// much again as random rankings. In eight runs they earned 2.6 to 2.9 times as much. The page's interval of payoff per impression holds the
// topics' payoffs per impression. That is no matter of chance: the same payoffs count in both, and the interval covers every share of the
// open selections. Chance decides whether a figure is shown: a share of 0.170 ± 0.022 is open (40 worlds without Kafka), 1/3 may be. If
// shares were normal, one run in 10¹³ would show none.
func TestUnraced_AnAfternoonIsEnough(t *testing.T) {
	t.Parallel()
	testenv.One(t, func(t *testing.T, env testenv.Env) {
		const impressions = 8 * 60 * perSecond
		s := plain(env, "payoff_horizon: 30d")
		s.payoffs = "adversarial" // as without the line
		w := makeWorld(t, 1, s, s, os.LookupEnv)
		users := &shop{base: time.Now().Add(-time.Hour).UnixMilli(), rng: rand.New(rand.NewPCG(8, 60)), from: impressions * 3 / 4}
		b, err := app.NewBroker(w.access)
		require.NoError(t, err)
		defer b.Close()
		p := platform.New(platform.Options{Brokers: w.access.Kafka.Brokers, Transport: w.transport(t), Topics: app.TopicNames(w.cfg), Log: b,
			From: make([]int64, 1), Impressions: impressions, Unanswered: 64}, users)
		worker := w.startAt(t, func() event.Millis { return max(p.Clock(), users.base) })
		sent, err := p.Run(t.Context())
		require.NoError(t, err)
		w.await(t, sent)
		// Estimates are as of a tick. The last one of the play may lie before much of it, where workers read it in a burst.
		require.NoError(t, p.PassTo(t.Context(), p.Clock()+60_000))
		l := worker.shows(t, sent.Payoffs)
		worker.stop(t)

		truth := float64(sent.Payoffs) / float64(sent.Impressions)
		t.Logf("payoff per impression by the topics: %.4f; by the page: %v ± %v", truth, *l.Payoff, *l.PayoffError)
		require.InDelta(t, truth, *l.Payoff, *l.PayoffError)
		require.Less(t, *l.PayoffError, *l.Payoff/2, "or the interval would say little")
		t.Logf("paid in the last two minutes: %.4f, by random rankings %.4f", users.earned[0]/(impressions/4), users.earned[1]/(impressions/4))
		require.Greater(t, users.earned[0], 1.5*users.earned[1])
	})
}

// shows returns the page's figures of the first learner, when these are of so many ended impressions, and a value is known.
func (r *running) shows(t *testing.T, ended int) (l dashboard.LearnerPage) {
	t.Helper()
	assert.Eventually(t, func() bool {
		answer := httptest.NewRecorder()
		r.App.Board.Handler().ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/page/live.json", nil))
		var page dashboard.Page
		require.NoError(t, json.NewDecoder(answer.Body).Decode(&page))
		l = page.Learners[0]
		return l.Ended == int64(ended) && l.Payoff != nil
	}, deadline, 50*time.Millisecond)
	require.EqualValues(t, ended, l.Ended)
	require.NotNil(t, l.Payoff, "too early: %s, %+v", l.Early, l.Learner)
	return l
}
