package dashboard

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"math"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ranker-worker/ranker-worker/delay"
	"github.com/ranker-worker/ranker-worker/internal/test/memstore"
	"github.com/ranker-worker/ranker-worker/policy"
	"github.com/ranker-worker/ranker-worker/state"
	"github.com/ranker-worker/ranker-worker/stream"
	"github.com/ranker-worker/ranker-worker/stream/event"
	"github.com/ranker-worker/ranker-worker/stream/experiment"
	"github.com/ranker-worker/ranker-worker/stream/partition"
	"github.com/ranker-worker/ranker-worker/stream/task"
)

var update = flag.Bool("update", false, "rewrite golden files")

// hostile is a name that would do harm, were it taken for HTML.
const hostile = `<img src=x onerror="alert(1)">'&` + "\xff\u202e"

// worker is a Source and Counters of its own making.
type worker struct {
	id       string
	learners []partition.LearnerConfig
	seen     map[int32]stream.Observed
	totals   stream.Totals
	values   map[string]stream.LearnerTotal
	letters  []stream.Letter
	looks    int
	outside  string
}

func (w *worker) ID() string                               { return w.id }
func (w *worker) Group() string                            { return "ranker" }
func (w *worker) Learners() []partition.LearnerConfig      { return w.learners }
func (w *worker) Seen() map[int32]stream.Observed          { return w.seen }
func (w *worker) Outside() string                          { return w.outside }
func (w *worker) LookAgain(from int32, n int) (next int32) { w.looks++; return from + int32(n) }
func (w *worker) Now() int64                               { return 1_000_000 }
func (w *worker) Letters() []stream.Letter                 { return w.letters }

func (w *worker) Totals() stream.Totals {
	t := w.totals
	t.Latencies = slices.Clone(t.Latencies)
	return t
}

// counters gives the worker's method of that name, which Source has too, with another result.
type counters struct{ *worker }

func (c counters) Learners() map[string]stream.LearnerTotal { return c.values }

// busy is a worker in the middle of its work.
func busy(id string) *worker {
	w := &worker{id: id, learners: []partition.LearnerConfig{{Name: "feed", PolicyName: "moss", DelayName: "direct", PayoffMin: -1, PayoffMax: 3}},
		values: map[string]stream.LearnerTotal{}, seen: map[int32]stream.Observed{},
		letters: []stream.Letter{{At: time.UnixMilli(5), Topic: "payoffs", Partition: 1, Offset: 17, Reason: "malformed_json", Detail: hostile}}}
	w.totals.Latencies = make([]int64, len(stream.LatencyBounds())+1)
	s := &task.Status{Phase: task.Running, Lag: [3]int64{1, 2, 3}, Unsaved: 5, Watermark: 990_000}
	s.Account.Read = [3]int64{10, 9, 8}
	s.Account.Impressions = partition.ImpressionAccount{Paid: 5, Expired: 1, Unselected: 1, Pending: 3}
	s.Account.Selections = partition.SelectionAccount{Joined: 8, Late: 1}
	s.Account.Payoffs = partition.PayoffAccount{Applied: 5, Duplicate: 1, Late: 1, Orphan: 1}
	s.Experiments = []partition.ExperimentStatus{{Name: "feed", Run: 2, Control: "control", Decides: true, Arms: []partition.ArmStatus{
		{Name: "control", Units: 40, Mean: 0.5}, {Name: "feed", Units: 360, Mean: 0.625, Tripped: true,
			Lift: experiment.Lift{Units: 400, Estimate: 0.125, Lower: -0.25, Upper: 0.5}}}}}
	ended := partition.Account{Read: [event.Inputs]int64{103}, Impressions: partition.ImpressionAccount{Paid: 60, Unselected: 40}}
	s.Learners = []partition.LearnerStatus{{Name: "feed", Items: 2, Account: ended, Status: delay.Status{Fed: 5, Flights: 3, Windows: []float64{0.75, 0.25}, Selections: 8,
		Silence: delay.SilenceStatus{Law: delay.SilenceAges, Weight: 0.5, Known: true, Seen: true, Share: 0.875, Median: 1500, P90: 60_000}}}, {Name: "gone", Gone: true}}
	look := &partition.Sample{Learners: []partition.LearnerSample{{Name: "feed", Rule: "the best leads", First: 10, Favourite: 10,
		Contextual: delay.ContextualStatus{Known: true, Payoffs: 5, Deviations: [delay.Causes]float64{0.25, 0.125, -1, 0.0625, -1},
			Groups: []delay.Groups{{Of: "hour", N: 4}, {Of: "weekday", N: 2}}, Since: 500_000},
		Coefficients: []delay.Coefficient{{Name: "intercept", Value: 0.5, SD: 0.25}, {Name: "age", Value: 0.0625, SD: 0.125}, {Name: hostile, Value: -0.5, SD: 0.25}},
		Items:        []partition.ItemSample{{Name: hostile, First: 6, Favourite: 2, Evidence: policy.Evidence{W: 16, R: 8, Q: 8}}, {Name: "b", Favourite: 8}},
		Ranking: &partition.RankingSample{ID: "i-1", Offset: 3, Time: 999_000, Candidates: 2, Shown: []partition.ShownSample{
			{Name: hostile, Rank: 0, Evidence: policy.Evidence{W: 16, R: 8, Q: 8}, Propensity: 0.25}, {Name: "b", Rank: 1, Leader: 1}}}}}}
	w.seen[1] = stream.Observed{Status: s, Look: look}
	w.seen[0] = stream.Observed{Waits: "starting"}
	return w
}

// does makes the worker have ranked and learned.
func (w *worker) does() {
	w.totals.Rankings += 100
	w.totals.Read[0] += 100
	w.totals.Latencies[3] += 99
	w.totals.Latencies[8]++
	v := w.values["feed"]
	v.Account.Impressions.Paid += 60
	v.Account.Impressions.Unselected += 40
	v.Value.Payoffs += 60
	v.Value.PayoffSum += 45
	v.Value.PayoffSquares += 40
	v.Value.Decisions += 100
	v.Value.Known += 100
	v.Value.First += 25
	v.Value.Compared += 50
	v.Value.Outpaid += 40
	v.Value.Expected += 100
	v.Value.ExpectedSum += 50
	v.Account.Selections.Joined += 120
	v.Value.Shared += 100
	v.Value.SharesSum += 80
	v.Value.PayingSum += 50
	w.values["feed"] = v
}

func board(w *worker, registry state.Registry) *Dashboard {
	b := New(Options{Source: w, Counters: counters{w}, Registry: registry, Version: "v1", Remember: 60_000, Logger: slog.New(slog.DiscardHandler)})
	b.started = time.UnixMilli(0)
	return b
}

func page(t *testing.T, b *Dashboard) (p Page) {
	t.Helper()
	require.NoError(t, json.Unmarshal(b.Live().plain, &p))
	return p
}

// golden compares a JSON document with a file, without the clock's fields.
func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	var out bytes.Buffer
	require.NoError(t, json.Indent(&out, got, "", "  "))
	path := filepath.Join("testdata", name)
	if *update {
		require.NoError(t, os.MkdirAll("testdata", 0o755))
		require.NoError(t, os.WriteFile(path, append(out.Bytes(), '\n'), 0o644))
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, strings.TrimSpace(string(want)), strings.TrimSpace(out.String()), "go test ./internal/dashboard -update rewrites it")
}

// TestThePageOfAWorker: the content of /page/live.json, member for member.
func TestThePageOfAWorker(t *testing.T) {
	w := busy("w-1")
	b := board(w, nil)
	b.tick(time.UnixMilli(1_000_000))
	w.does()
	b.tick(time.UnixMilli(1_001_000))
	b.mu.Lock()
	p := combine(b.all(), b.history.sums(), 1_001_000)
	b.mu.Unlock()
	got, err := json.Marshal(p)
	require.NoError(t, err)
	golden(t, "page.golden.json", got)
	require.NotContains(t, string(got), "<", "a name cannot leave the JSON, wherever that is put")

	l := p.Learners[0]
	require.InDelta(t, 120./160, *l.Selecting, 1e-4, "of selections that came and impressions that nobody selected from in time")
	require.InDelta(t, (-1*60+4*45.)/60, *l.PerSelection, 1e-4)
	require.InDelta(t, *l.Selecting**l.PerSelection, *l.Payoff, 1e-4)
	require.InDelta(t, 0.8*-1+4*0.5, *l.ByUtility, 1e-4, "favourites' shares times their means")
	require.Equal(t, byShares, l.How)
	require.InDelta(t, 0.8, *l.Outpaid, 1e-4)
	require.InDelta(t, 100, p.Rates.Rankings, 1e-9)
	require.InDelta(t, 0.0025, *p.P50, 0.001)
}

// TestTheGroupIsSeenFromEachWorker: other workers' figures are added up; their counts from before they were met have no known time.
func TestTheGroupIsSeenFromEachWorker(t *testing.T) {
	store := memstore.New(func() string { return "token" })
	one, two := busy("w-1"), busy("w-2")
	two.does()
	two.outside = hostile
	a, b := board(one, store), board(two, store)
	for k := range 3 {
		now := time.UnixMilli(1_000_000 + 1000*int64(k))
		a.tick(now)
		b.tick(now)
		b.show(t.Context())
		a.show(t.Context())
		one.does()
		two.does()
	}
	a.tick(time.UnixMilli(1_003_000))
	p := page(t, a)
	require.Len(t, p.Workers, 2)
	require.Equal(t, "w-1", p.Workers[0].ID, "that which serves it is the first")
	require.Empty(t, p.Workers[0].Outside)
	require.Contains(t, p.Workers[1].Outside, "<img")
	require.Len(t, p.Partitions, 4)
	require.EqualValues(t, 20, p.Account["impressions.read"])
	require.Len(t, p.Learners, 1)
	require.EqualValues(t, 300+200, p.Learners[0].Ended, "all of its own, and of the other's what it has shown since it was met")
	require.Equal(t, []int64{1, 2, 3, 2, 4, 6}[3:], p.Lag[:])
	require.Len(t, p.Learners[0].ItemRows, 2, "the same items")
	require.Empty(t, p.Alone)
}

// TestTheWorkerThatServesThePageHasNoPartition: then estimates and settings are those of the others.
func TestTheWorkerThatServesThePageHasNoPartition(t *testing.T) {
	idle, at := busy("w-1"), busy("w-2")
	clear(idle.seen)
	feed := &at.seen[1].Status.Learners[0]
	feed.Attraction.Learned, feed.Selections = true, 0 // windows are given
	all := []shown{{Summary: collect(idle, counters{idle}, 0)}, {Summary: collect(at, counters{at}, 0)}}
	require.Equal(t, combine(all[1:], nil, 0).Learners, combine(all, nil, 0).Learners)
}

// TestWithoutTheOthers: a store that forbids it at once, or does not answer again and again, leaves this worker alone.
func TestWithoutTheOthers(t *testing.T) {
	for _, c := range []struct {
		err   error
		after int
		want  string
	}{{fmt.Errorf("%w: NOPERM", state.ErrForbidden), 1, "rights"}, {context.DeadlineExceeded, missedOften, "could not be asked"}} {
		b := board(busy("w-1"), unwilling{c.err})
		b.tick(time.Now())
		for k := range c.after {
			require.Empty(t, page(t, b).Alone, "%d", k)
			b.show(t.Context())
			b.tick(time.Now())
		}
		require.Contains(t, page(t, b).Alone, c.want)
		require.Len(t, page(t, b).Workers, 1)
	}
}

type unwilling struct{ err error }

func (u unwilling) Announce(context.Context, state.WorkerInfo) ([]state.WorkerInfo, error) {
	return nil, u.err
}
func (u unwilling) Workers(context.Context) ([]state.WorkerInfo, error)    { return nil, u.err }
func (u unwilling) Withdraw(context.Context, string) error                 { return u.err }
func (u unwilling) MemoryUsed(context.Context) (float64, error)            { return 0, u.err }
func (u unwilling) Show(context.Context, string, []byte) ([][]byte, error) { return nil, u.err }

// TestAStoppedPartitionIsOnThePage, however many partitions the group has.
func TestAStoppedPartitionIsOnThePage(t *testing.T) {
	const perWorker, stopped = mostPartitions, 700
	var all []shown
	for w := range 10 {
		var s Summary
		for k := range perWorker {
			p := Partition{Number: int32(w*perWorker + k)}
			if p.Number == stopped {
				p.Waits = "retention has overtaken us"
			}
			s.list(p)
		}
		all = append(all, shown{Summary: s})
	}
	p := combine(all, nil, 0)
	require.Len(t, p.Partitions, pagePartitions)
	require.Equal(t, 10*perWorker-pagePartitions, p.MorePartitions)
	require.EqualValues(t, stopped, p.Partitions[pagePartitions-1].Number, "sorted by number")
	require.EqualValues(t, pagePartitions-2, p.Partitions[pagePartitions-2].Number)
}

// TestWhatIsShownIsBounded: however much there is, and whatever another worker says.
func TestWhatIsShownIsBounded(t *testing.T) {
	w := busy("w-1")
	long := strings.Repeat("<", 5000)
	for k := range 200 {
		name := fmt.Sprint(k, long)
		w.learners = append(w.learners, partition.LearnerConfig{Name: name})
		look := partition.LearnerSample{Name: name, Rule: long}
		for i := range 30 {
			look.Items = append(look.Items, partition.ItemSample{Name: fmt.Sprint(i, long)})
		}
		look.Ranking = &partition.RankingSample{ID: long, Time: 999_000, Shown: make([]partition.ShownSample, 10)}
		w.seen[int32(10+k)] = stream.Observed{Waits: long, Look: &partition.Sample{Learners: []partition.LearnerSample{look}}}
		w.letters = append(w.letters, stream.Letter{Detail: long})
	}
	b := board(w, nil)
	b.tick(time.Now())
	shows, err := b.own.encode()
	require.NoError(t, err)
	require.LessOrEqual(t, len(shows), state.MaxShownBytes)
	var s Summary
	require.NoError(t, json.Unmarshal(shows, &s))
	require.NotEmpty(t, s.Learners)
	require.Equal(t, 202, len(s.Partitions)+s.MorePartitions, "what is not listed is counted")
	require.Equal(t, 201, len(s.Learners)+s.MoreLearners)

	greedy := Summary{Form: form, ID: "w-2", Account: Account{"impressions.read": 7, long: 1}, Learners: make([]Learner, 10_000), Partitions: make([]Partition, 10_000), Rankings: make([]Ranking, 10_000)}
	greedy.Rankings[0].Shown, greedy.Learners[0].Windows = make([]Shown, 10_000), make([]float64, 10_000)
	raw, err := json.Marshal(greedy)
	require.NoError(t, err)
	all := others("w-1", [][]byte{raw, []byte("no JSON"), []byte(`{"id":""}`)})
	require.Len(t, all, 1)
	require.Len(t, all[0].Learners, mostLearners)
	require.Len(t, all[0].Partitions, mostPartitions)
	require.Len(t, all[0].Rankings[0].Shown, 16)
	require.Equal(t, Account{"impressions.read": 7}, all[0].Account)

	many := make([]shown, state.MaxShown)
	for k := range many {
		many[k] = shown{Summary: b.own.bounded(1)}
		many[k].ID = fmt.Sprint(k)
	}
	p := combine(many, nil, 0)
	require.LessOrEqual(t, len(p.Partitions), pagePartitions)
	require.LessOrEqual(t, len(p.Learners), mostLearners)
	for _, l := range p.Learners {
		require.LessOrEqual(t, len(l.ItemRows), pageItems)
	}
}

// TestOthers_OfAnotherForm: of a worker of another version, whose figures may mean something else, the page lists the worker alone.
func TestOthers_OfAnotherForm(t *testing.T) {
	for _, account := range []string{`[1,2]`, `{"impressions.read":7}`} {
		all := others("w-1", [][]byte{[]byte(`{"at":5000,"form":2,"id":"w-1"}`),
			[]byte(`{"at":3000,"form":1,"id":"w-2","version":"0.9","started":1000,"running":3,"account":` + account + `}`)})
		require.Len(t, all, 1)
		require.InDelta(t, 2, all[0].age, 1e-9)
		got := all[0].Summary
		require.Equal(t, []any{"w-2", "0.9", int64(1000), 0}, []any{got.ID, got.Version, got.Started, got.Running})
		require.Empty(t, got.Account)
	}
}

// TestHistory keeps two hours in bounded memory, a shorter past at a finer resolution, and loses nothing that it adds up.
func TestHistory(t *testing.T) {
	var h history
	ended := int64(0)
	for k := range int64(3 * 3600) {
		h.add(point{at: 1000 * k, rankings: 7, learners: map[string]Counts{"feed": {Ended: 1, Value: partition.Value{Payoffs: 1, PayoffSum: 0.5}}}})
		ended++
		require.LessOrEqual(t, len(h.points), mostPoints)
		if len(h.points) < mostPoints && h.level < 2 {
			require.Equal(t, ended, h.sums()["feed"].Ended)
		}
	}
	require.Equal(t, 2, h.level)
	times := h.points
	require.GreaterOrEqual(t, times[len(times)-1].at-times[0].at, int64(7100*1000))
	past := h.show(map[string][2]float64{"feed": {0, 2}})
	require.InDelta(t, 7, past.Rankings[len(past.Rankings)-1], 1e-6)
	require.InDelta(t, 1, *past.Learners["feed"].Payoff[len(past.Times)-1], 1e-6)
	require.Nil(t, past.Learners["feed"].ByUtility[5], "nothing is known of it")
}

// TestWithoutTraffic: figures stand as of the last impression, whose time is shown, and their line ends there. After two hours there are none.
func TestWithoutTraffic(t *testing.T) {
	w := busy("w-1")
	b := board(w, nil)
	b.started = time.UnixMilli(500_000)
	now := int64(1_000_000)
	tick := func() {
		b.tick(time.UnixMilli(now))
		now += 1000
	}
	tick()
	require.EqualValues(t, 500_000, page(t, b).Learners[0].LastAt, "before the first, since the worker began")
	for range 3 {
		w.does()
		tick()
	}
	last := now - 1000
	before := page(t, b).Learners[0]
	for range 90 {
		tick()
	}
	p := page(t, b)
	require.EqualValues(t, last, before.LastAt)
	require.EqualValues(t, last, p.Learners[0].LastAt)
	require.Equal(t, before.Payoff, p.Learners[0].Payoff)
	require.Zero(t, p.Rates.Rankings)
	var h History
	require.NoError(t, json.Unmarshal(b.History().plain, &h))
	require.Len(t, h.Times, 94)
	require.NotNil(t, h.Learners["feed"].Payoff[3])
	require.Nil(t, h.Learners["feed"].Payoff[4])
	for range 7300 {
		tick()
	}
	p = page(t, b)
	require.EqualValues(t, last, p.Learners[0].LastAt)
	require.Nil(t, p.Learners[0].Payoff)
	require.Zero(t, p.Learners[0].Ended)
}

// TestEstimatesOfRankingByUtility: which is shown, and when none is.
func TestEstimatesOfRankingByUtility(t *testing.T) {
	unit := [2]float64{0, 1}
	for _, c := range []struct {
		c    Counts
		want float64
		how  string
	}{
		{Counts{Ended: 10, Value: partition.Value{Payoffs: 5, Counterfactual: partition.Counterfactual{Expected: 4, ExpectedSum: 2}}}, 0.25, byMeans},
		{Counts{Ended: 10, Unselected: 5, Joined: 5, Value: partition.Value{Payoffs: 5, Counterfactual: partition.Counterfactual{Expected: 4, ExpectedSum: 2}}}, 0.25, byMeans},
		{Counts{Ended: 10, Unselected: 5, Joined: 5, Value: partition.Value{Payoffs: 4, Counterfactual: partition.Counterfactual{Expected: 4, ExpectedSum: 2, Shared: 4, SharesSum: 3.2, PayingSum: 1.6}}}, 0.32, byShares},
		{Counts{Ended: 100, Value: partition.Value{Payoffs: 100, Counterfactual: partition.Counterfactual{Weighed: 100, Weights: 40, Squares: 50, WeighedSum: 10}}}, 0.25, byPropensities},
		{Counts{Ended: 100, Value: partition.Value{Payoffs: 100, Counterfactual: partition.Counterfactual{Weighed: 100, Weights: 40, Squares: 800, WeighedSum: 10}}}, -1, byPropensities},
		{Counts{Ended: 100, Value: partition.Value{Payoffs: 100, PayoffSum: 100, Counting: partition.Counting{Weight: 1900},
			Counterfactual: partition.Counterfactual{Weighed: 100, Weights: 40, Squares: 50, WeighedSum: 40, Expected: 100, ExpectedSum: 5}}}, 0.05, byMeans},
		{Counts{Ended: 10, Value: partition.Value{Payoffs: 10, PayoffSum: 5, Counting: partition.Counting{Weight: 10}, Counterfactual: partition.Counterfactual{Decisions: 30, Known: 30, First: 30, Expected: 20, ExpectedSum: 2}}}, 0.25, byRankings},
		{Counts{Ended: 10, Value: partition.Value{Payoffs: 5, Counterfactual: partition.Counterfactual{Decisions: 100, Ruled: 1, Expected: 4, ExpectedSum: 2}}}, 0.25, byMeans},
		{Counts{Ended: 10, Value: partition.Value{Payoffs: 5, Counterfactual: partition.Counterfactual{Decisions: 100, Ruled: 2, Expected: 4, ExpectedSum: 2}}}, -1, byRules},
		{Counts{Ended: 10, Value: partition.Value{Payoffs: 5}}, -1, ""},
		{Counts{}, -1, ""},
	} {
		x, _, how := c.c.byUtility(unit)
		require.Equal(t, c.how, how)
		require.Equal(t, c.want < 0, x == nil)
		if x != nil {
			require.InDelta(t, c.want, *x, 1e-6)
		}
	}
	perImpression := func(c Counts, payoffs [2]float64) *float64 {
		x, half := c.perImpression(payoffs)
		require.Equal(t, x == nil, half == nil)
		return x
	}
	require.InDelta(t, 0.51*0.4, *perImpression(Counts{Ended: 500, Unselected: 490, Joined: 510, Value: partition.Value{Payoffs: 10, PayoffSum: 4}}, unit), 1e-5,
		"where most payoffs are on their way, as where they are not")
	require.InDelta(t, 0.1, *perImpression(Counts{Ended: 10, Joined: 100, Value: partition.Value{Payoffs: 10, PayoffSum: 10, Counting: partition.Counting{Weight: 90}}}, unit), 1e-5, "selections in flight count as unpaid")
	require.InDelta(t, -0.8, *perImpression(Counts{Ended: 10, Joined: 100, Value: partition.Value{Payoffs: 10, PayoffSum: 10, Counting: partition.Counting{Weight: 90}}}, [2]float64{-1, 1}), 1e-5)
	require.Nil(t, perImpression(Counts{Ended: 500, Unselected: 500, Joined: 500}, unit), "nothing is paid yet")
	require.Zero(t, *perImpression(Counts{Ended: 5, Unselected: 5}, unit), "nobody selects")
	i := Item{W: 100, R: 40, Q: 40}
	mean, low, high := i.interval()
	require.InDelta(t, 0.4, mean, 1e-9)
	require.InDelta(t, 0.31, low, 0.01)
	require.InDelta(t, 0.50, high, 0.01)
	none := Item{}
	_, low, high = none.interval()
	require.Less(t, low, 0.05)
	require.Greater(t, high, 0.95)
}

// TestIntervalsOfDroppedSelections: nineteen of twenty selections are dropped. Of 95 % intervals of the payoff per selection about 95 in 100 hold
// it, whether paid selections pay alike or not.
func TestIntervalsOfDroppedSelections(t *testing.T) {
	const worlds, selections, paid = 400, 20_000, 0.05
	for name, payoff := range map[string]func(rng *rand.Rand) float64{"alike": func(*rand.Rand) float64 { return 1 }, "evenly": (*rand.Rand).Float64} {
		for _, payoffs := range [][2]float64{{0, 1}, {-1, 1}, {1, 5}} {
			rng := rand.New(rand.NewPCG(1, 2)) // so the result is the same in each run
			mean := map[string]float64{"alike": 1, "evenly": 0.5}[name]
			truth, held := paid*scaled(mean, payoffs), 0
			for range worlds {
				c := Counts{Ended: selections, Value: partition.Value{Counterfactual: partition.Counterfactual{Decisions: selections}}}
				for range selections {
					if rng.Float64() < paid {
						r := payoff(rng)
						c.Payoffs, c.PayoffSum, c.PayoffSquares = c.Payoffs+1, c.PayoffSum+r, c.PayoffSquares+r*r
					}
				}
				if x, half := c.perImpression(payoffs); math.Abs(*x-truth) <= *half {
					held++
				}
			}
			require.InDelta(t, 0.95, float64(held)/worlds, 0.04, "%s in %v", name, payoffs)
		}
	}
}

// TestTheServer: only GET, nothing cached of figures, nothing from elsewhere, and compressed for who asks for that.
func TestTheServer(t *testing.T) {
	w := busy("w-1")
	b := board(w, nil)
	b.tick(time.Now())
	h := b.Handler()
	get := func(method, path string, headers ...string) *httptest.ResponseRecorder {
		r := httptest.NewRequest(method, path, nil)
		for k := 0; k < len(headers); k += 2 {
			r.Header.Set(headers[k], headers[k+1])
		}
		out := httptest.NewRecorder()
		h.ServeHTTP(out, r)
		return out
	}
	for path, kind := range map[string]string{"/": "text/html; charset=utf-8", "/page/page.js": "text/javascript; charset=utf-8", "/page/find.json?name=b": "application/json",
		"/page/page.css": "text/css; charset=utf-8", "/page/uPlot.iife.min.js": "text/javascript; charset=utf-8", "/page/icon.svg": "image/svg+xml",
		"/page/live.json": "application/json", "/page/history.json": "application/json", "/page/uPlot.LICENSE": "text/plain; charset=utf-8"} {
		r := get(http.MethodGet, path)
		require.Equal(t, http.StatusOK, r.Code, path)
		require.Equal(t, kind, r.Header().Get("Content-Type"), path)
		require.Contains(t, r.Header().Get("Content-Security-Policy"), "default-src 'none'", path)
		require.Equal(t, "nosniff", r.Header().Get("X-Content-Type-Options"), path)
		if tag := r.Header().Get("ETag"); tag != "" {
			require.Equal(t, http.StatusNotModified, get(http.MethodGet, path, "If-None-Match", tag).Code)
		} else {
			require.Equal(t, "no-store", r.Header().Get("Cache-Control"), path)
		}
		zipped := get(http.MethodGet, path, "Accept-Encoding", "gzip")
		z, err := gzip.NewReader(zipped.Body)
		require.NoError(t, err)
		plain, err := io.ReadAll(z)
		require.NoError(t, err)
		require.Equal(t, r.Body.Len(), len(plain), path)
		require.Equal(t, http.StatusMethodNotAllowed, get(http.MethodPost, path).Code, path)
		require.Zero(t, get(http.MethodHead, path).Body.Len(), path)
	}
	require.Equal(t, http.StatusNotFound, get(http.MethodGet, "/page/doc.go").Code)
	files, err := assets.ReadDir("assets")
	require.NoError(t, err)
	for _, f := range files {
		if strings.HasPrefix(f.Name(), "uPlot") {
			continue
		}
		content, err := assets.ReadFile("assets/" + f.Name())
		require.NoError(t, err)
		require.NotRegexp(t, `(?im)(src|href)="?(https?:)?//|innerHTML|insertAdjacentHTML|eval\(|@import|^import [^"]*"[^.]`, string(content), f.Name())
		require.Equal(t, http.StatusOK, get(http.MethodGet, strings.Replace("/page/"+f.Name(), "/page/index.html", "/", 1)).Code)
	}
}

// TestPoliciesHaveTheirColour: that of the table.
func TestPoliciesHaveTheirColour(t *testing.T) {
	css := httptest.NewRecorder()
	board(busy("w-1"), nil).Handler().ServeHTTP(css, httptest.NewRequest(http.MethodGet, "/page/page.css", nil))
	for _, k := range policy.Specs {
		require.Equal(t, 1, strings.Count(css.Body.String(), " --"+k.Name+": "+k.Colour+";"))
	}
}

// TestFiguresAreMadeOnceATick, whoever asks; and looks are taken often only while somebody watches.
func TestFiguresAreMadeOnceATick(t *testing.T) {
	w := busy("w-1")
	b := board(w, nil)
	now := time.Now()
	for k := range 60 {
		b.tick(now.Add(time.Duration(k) * time.Second))
	}
	require.Less(t, w.looks, 20)
	first, again := b.Live(), b.Live()
	require.Same(t, &first.plain[0], &again.plain[0])
	before := w.looks
	b.tick(time.Now())
	b.tick(time.Now())
	require.Equal(t, before+2, w.looks)
	later := b.Live()
	require.NotSame(t, &first.plain[0], &later.plain[0])
}

// TestALearnerThatComesBack: another worker's summary was too large for all its learners for a while. Only the counts made since a learner
// was met have a known time.
func TestALearnerThatComesBack(t *testing.T) {
	b := board(busy("w-1"), nil)
	at := int64(1_000_000)
	shows := func(ended map[string]int64) {
		s := Summary{ID: "w-2"}
		for _, name := range slices.Sorted(maps.Keys(ended)) {
			s.Learners = append(s.Learners, Learner{Name: name, Counts: Counts{Ended: ended[name]}})
		}
		b.others = []shown{{Summary: s}}
		at += 1000
		b.tick(time.UnixMilli(at))
	}
	shows(map[string]int64{"a": 50, "b": 1000})
	shows(map[string]int64{"a": 60})
	shows(map[string]int64{"a": 70, "b": 1010})
	shows(map[string]int64{"a": 80, "b": 1020, "c": 7})
	require.EqualValues(t, 20, b.history.sums()["b"].Ended)
	require.EqualValues(t, 30, b.history.sums()["a"].Ended)
	require.Zero(t, b.history.sums()["c"].Ended)
}

// TestPartitionsThatAreNotListed: a worker has more partitions than its summary lists. Their lag and work count, and one that has stopped is
// listed.
func TestPartitionsThatAreNotListed(t *testing.T) {
	s := Summary{ID: "w-2"}
	for k := range int32(200) {
		one := Partition{Number: k, Phase: "running", Lag: [3]int64{1, 0, 2}}
		if k == 199 {
			one.Phase, one.Waits = "stopped", "stopped (topic)"
		}
		s.list(one)
	}
	for _, share := range []int{1, 4} {
		p := combine([]shown{{Summary: s.bounded(share)}}, nil, 0)
		require.Equal(t, [3]int64{200, 0, 400}, p.Lag)
		require.Equal(t, []int{199, 200}, []int{p.Running, len(p.Partitions) + p.MorePartitions})
		require.Equal(t, "stopped", p.Partitions[len(p.Partitions)-1].Phase)
	}
	require.EqualValues(t, 199, s.Partitions[199].Number, "the worker's own list stays")
}
