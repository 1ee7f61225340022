package e2e

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ranker-worker/ranker-worker/internal/admin"
	"github.com/ranker-worker/ranker-worker/internal/app"
	"github.com/ranker-worker/ranker-worker/internal/audit"
	"github.com/ranker-worker/ranker-worker/internal/evaluate"
	"github.com/ranker-worker/ranker-worker/internal/joinedlog"
	"github.com/ranker-worker/ranker-worker/internal/platform"
	"github.com/ranker-worker/ranker-worker/internal/test/testenv"
	"github.com/ranker-worker/ranker-worker/stream/event"
	"github.com/ranker-worker/ranker-worker/tools/checker"
)

// tasteful are users whose number determines their taste: an item pays 0.5, plus 0.3 times the product of
// the user's and the item's numbers, which differ by item. In one segment items of one category pay 0.15
// more, in another as much less; some users have an undeclared segment. All items have the same mean.
type tasteful struct {
	base           event.Millis
	lost, expected float64 // against the best possible selection of each user, and the loss of ranking by utility
}

const (
	tastefulItems     = 12
	tastefulContext   = "context: {user: [taste], item: [kind, {name: other, range: [0, 10]}], cross: [[taste, kind]], segments: [new, loyal], categories: true}"
	tastefulIntervals = 1000 // milliseconds between impressions
	tastefulKnown     = 2000 // impressions, after which it is known, however payoffs came in between restarts
)

func (u *tasteful) of(n int) (taste float64, kinds []float64, rng *rand.Rand) {
	rng = rand.New(rand.NewPCG(uint64(n), 19))
	taste = 2*rng.Float64() - 1
	for range tastefulItems {
		kinds = append(kinds, 2*rng.Float64()-1)
	}
	return taste, kinds, rng
}

// segment returns a user's segment, and by how much the first category's items pay more there than the second's.
func (u *tasteful) segment(n int) (name string, more float64) {
	names, worth := [...]string{"new", "loyal", "odd", ""}, [...]float64{0.15, -0.15, 0, 0}
	return names[n%4], worth[n%4]
}

// category is that of an item, and whose side it is on.
func (u *tasteful) category(item int) (name string, side float64) {
	if item%2 == 0 {
		return "even", 1
	}
	return "odd", -1
}

func (u *tasteful) at(n int) event.Millis { return u.base + event.Millis(n)*tastefulIntervals }

// Impression implements platform.Users.
func (u *tasteful) Impression(n int) (event.Impression, event.Millis, []platform.Record) {
	taste, kinds, rng := u.of(n)
	i := event.Impression{ID: fmt.Appendf(nil, "i-%d", n), HasUtilities: true, Context: event.Context{Features: []float64{taste}}}
	segment, _ := u.segment(n)
	i.Context.Segment = []byte(segment)
	for item, kind := range kinds {
		category, _ := u.category(item)
		if n%8 > 4 && item > 0 {
			category = "" // it has been said
		}
		c := event.Candidate{Item: strconv.AppendInt(nil, int64(item), 10), Utility: float64(item)}
		if item == 0 && n%10 == 3 {
			c.Pin = 2
		}
		i.Candidates = append(i.Candidates, c)
		i.Context.Candidates = append(i.Context.Candidates, event.CandidateContext{Features: []float64{kind, 20 * rng.Float64()}, Predicted: 0, Category: []byte(category)})
	}
	return i, u.at(n), nil
}

// Respond implements platform.Users. One in ten selects nothing, and one in ten is never paid for.
func (u *tasteful) Respond(n int, items [][]byte) ([]platform.Record, error) {
	taste, kinds, _ := u.of(n)
	rng := rand.New(rand.NewPCG(uint64(n), 20))
	window := 1 + min(rng.IntN(3)*rng.IntN(3), tastefulItems-1)
	_, more := u.segment(n)
	mean := func(item int) float64 {
		_, side := u.category(item)
		return 0.5 + 0.3*taste*kinds[item] + more*side
	}
	selected, best := 0, 0.0
	for _, name := range items[:window] {
		item, err := strconv.Atoi(string(name))
		if err != nil {
			return nil, err
		}
		selected = max(selected, item)
	}
	for item := window - 1; item < tastefulItems; item++ {
		best = max(best, mean(item))
	}
	if n >= tastefulKnown {
		u.lost, u.expected = u.lost+best-mean(selected), u.expected+best-mean(tastefulItems-1)
	}
	if rng.IntN(10) == 0 {
		return nil, nil
	}
	id := fmt.Appendf(nil, "i-%d", n)
	records := []platform.Record{{At: u.at(n) + 500, Topic: event.Selections, Selection: event.Selection{ID: id, Item: strconv.AppendInt(nil, int64(selected), 10)}}}
	if rng.IntN(10) > 0 {
		late := event.Millis(rng.IntN(300)) * tastefulIntervals
		records = append(records, platform.Record{At: u.at(n) + 600 + late, Topic: event.Payoffs,
			Payoff: event.Payoff{ID: id, Payoff: min(max(mean(selected)+0.1*rng.NormFloat64(), 0), 1)}})
	}
	return records, nil
}

// judged evaluates other policies by the log: one with the learner's context, and one
// without products. A policy that declares other lists than the impressions have is refused.
func (w *world) judged(t *testing.T) {
	t.Helper()
	l := &w.cfg.Learners[0]
	q := &joinedlog.Query{Learner: l, Group: w.group, HasSelections: true, Parking: time.Hour}
	var targets []*evaluate.Target
	for _, text := range []string{"greedy", "greedy,context={item: [{name: unknown}, predicted], missing: zero}", "greedy,context={user: [taste], item: [kind, other]}"} {
		target, err := evaluate.ParseTarget(text, l, w.cfg)
		require.NoError(t, err)
		q.Context = q.Context || target.LooksAtContexts()
		targets = append(targets, target)
	}
	b, err := app.NewBroker(w.access)
	require.NoError(t, err)
	defer b.Close()
	sources, err := joinedlog.OpenTopics(t.Context(), b, q)
	require.NoError(t, err)
	log, err := joinedlog.Read(t.Context(), sources, q)
	require.NoError(t, err)
	defer log.Close()
	_, err = evaluate.Log(t.Context(), log, l, targets, &evaluate.Options{Units: l.PayoffRange})
	require.ErrorContains(t, err, "features has 2 numbers", "the impressions have other lists than the second declares")
	targets = slices.Delete(targets, 1, 2)
	r, err := evaluate.Log(t.Context(), log, l, targets, &evaluate.Options{Units: l.PayoffRange})
	require.NoError(t, err)
	all, crossless := r.Targets[0], r.Targets[1]
	t.Logf("%d judged: %+v, without products %+v", r.Log.Judged, all.DR, crossless.DR)
	require.Greater(t, r.Log.Judged, int64(1000))
}

// explainsRules explains an impression with a pinned candidate: candidates are in the order shown, and the pin is named.
func (w *world) explainsRules(t *testing.T, id string) {
	t.Helper()
	topics, err := audit.Open(t.Context(), w.access)
	require.NoError(t, err)
	defer topics.Close()
	x, err := topics.Explain(t.Context(), id, func(int64) {})
	require.NoError(t, err)
	decided := map[int]bool{}
	for k, c := range x.Ranking.Candidates {
		require.Equal(t, x.Items[k], c.Item)
		decided[c.Decided] = true
		if k == 1 && c.Decided != 2 {
			require.Equal(t, "pinned to place 2", c.Rule)
		}
	}
	require.Equal(t, "0", x.Items[1])
	require.Len(t, decided, len(x.Items))
}

// TestPipeline_ContextTeaches: users' tastes are learned through a kill and a rollback, the sums equal the checker's, and a replay computes the
// same rankings until the rollback. Pins and a cap change some of them.
func TestPipeline_ContextTeaches(t *testing.T) {
	t.Parallel()
	testenv.One(t, func(t *testing.T, env testenv.Env) {
		const impressions = 3000
		base := time.Now().Add(-24 * time.Hour).UnixMilli()
		w := newWorld(t, env, 1, "payoff_horizon: 400s\n    selection_timeout: 60s\n    caps: [{most: 1, first: 2}]\n    "+tastefulContext)
		users := &tasteful{base: base}
		got, _ := w.disturbed(t, users, impressions, 64, false)
		require.Positive(t, got["payoffs.applied"])
		t.Logf("lost: %.1f of %.1f", users.lost, users.expected)
		require.Less(t, users.lost, 0.5*users.expected)

		r, err := checker.Check(t.Context(), checker.Options{Config: w.cfg})
		require.NoError(t, err)
		require.True(t, r.OK(), "%+v", r.Violations)
		for _, law := range r.Laws {
			if strings.HasPrefix(law.Law, "context.") {
				require.Positive(t, law.Checked, law.Law)
				require.Zero(t, law.Open, law.Law)
			}
			if law.Law == "rankings.rules" {
				require.Positive(t, law.Checked)
			}
		}
		w.replayed(t, impressions, impressions*6/10) // without a base, none is exact behind the rollback at half of them
		w.explainsRules(t, "i-13")

		w.judged(t)

		seen := w.inspect(t, w.stateTool(t), admin.InspectQuery{Learner: "feed", Partition: -1})
		features := seen.Learners[0].Features
		require.Len(t, features, 5)
		require.Equal(t, "taste × kind", features[4].Name)
		require.InDelta(t, 0.3, features[4].Value, 0.1)
		require.InDelta(t, 0, features[3].Value, 0.1, "it has no effect")
		sd := map[string]float64{}
		for _, d := range seen.Learners[0].Deviations {
			sd[d.Level] = d.SD
		}
		require.InDelta(t, 0.1, sd["cell"], 0.08, "%v", sd)
		require.Contains(t, sd, "category")
	})
}
