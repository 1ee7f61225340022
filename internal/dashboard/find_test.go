package dashboard

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ranker-worker/ranker-worker/stream/experiment"
	"github.com/ranker-worker/ranker-worker/stream/partition"
)

func find(t *testing.T, b *Dashboard, name string) (f Found) {
	t.Helper()
	out := httptest.NewRecorder()
	b.Handler().ServeHTTP(out, httptest.NewRequest(http.MethodGet, "/page/find.json?name="+url.QueryEscape(name), nil))
	require.Equal(t, http.StatusOK, out.Code)
	require.Equal(t, "no-store", out.Header().Get("Cache-Control"))
	require.NoError(t, json.Unmarshal(out.Body.Bytes(), &f))
	return f
}

// TestFind: a sampled ranking stays findable after others, an item has its row and history, and other names give nothing.
func TestFind(t *testing.T) {
	w := busy("w-1")
	b := board(w, nil)
	look := &w.seen[1].Look.Learners[0]
	for k := range 3 * itemTicks {
		sampled := *look.Ranking
		sampled.ID = fmt.Sprint("i-", k)
		look.Ranking = &sampled
		b.tick(time.UnixMilli(1_000_000 + 1000*int64(k)))
		w.does()
	}
	f := find(t, b, "i-3")
	require.Len(t, f.Rankings, 1)
	require.Equal(t, "feed", f.Rankings[0].Learner)
	require.Len(t, f.Rankings[0].Shown, 2)
	require.Empty(t, f.Items)

	f = find(t, b, hostile)
	require.Len(t, f.Items, 1)
	i := f.Items[0]
	require.InDelta(t, 1, *i.Row.Mean, 1e-9)
	require.Len(t, i.Times, 3)
	require.Equal(t, int64(1_000_000+5000), i.Times[1])
	require.InDelta(t, 1, *i.Mean[2], 1e-4)
	require.InDelta(t, 0.6, *i.First[0], 1e-4)
	require.Less(t, *i.Low[0], 1.)
	require.Greater(t, *i.High[0], 1.)
	require.Nil(t, find(t, b, "b").Items[0].Mean[0], "no payoff of it is known")

	f = find(t, b, strings.Repeat("<", 5000))
	require.Empty(t, f.Rankings)
	require.Empty(t, f.Items)
}

// TestLongNamesStayApart: items and impressions may have the same long beginning.
func TestLongNamesStayApart(t *testing.T) {
	const a, b = "https://www.example.com/catalogue/electronics/headphones/a", "https://www.example.com/catalogue/electronics/headphones/b"
	w := busy("w-1")
	look := &w.seen[1].Look.Learners[0]
	look.Items = []partition.ItemSample{{Name: a, First: 9}, {Name: b, First: 1}}
	d := board(w, nil)
	for candidates, id := range []string{a, b} {
		look.Ranking = &partition.RankingSample{ID: id, Time: 999_000, Candidates: candidates}
		d.tick(time.Now())
	}
	require.Len(t, page(t, d).Learners[0].ItemRows, 2)
	for candidates, id := range []string{a, b} {
		for _, name := range []string{id, clipName(id)} {
			f := find(t, d, name)
			require.Len(t, f.Items, 1)
			require.Len(t, f.Rankings, 1)
			require.Equal(t, candidates, f.Rankings[0].Candidates)
		}
		require.Regexp(t, "^.{40}…[0-9a-f]{6}$", clipName(id), "as search.js expects it")
	}
}

// TestFindingIsBounded: however many rankings are sampled, and items shown.
func TestFindingIsBounded(t *testing.T) {
	var k known
	for at := range int64(3 * mostItemPast) {
		k.addRankings([]shown{{Summary: Summary{Rankings: []Ranking{{ID: fmt.Sprint(at), Learner: "feed", Until: 1}}}}}, 0)
		k.addItems([]LearnerPage{{Learner: Learner{Name: "feed"}, ItemRows: []ItemPage{{Name: "always"}, {Name: fmt.Sprint(at)}}}}, at)
	}
	require.Len(t, k.rankings, mostSampled)
	require.Len(t, k.sampled, mostSampled)
	require.Len(t, k.items, mostItemPast)
	require.NotEmpty(t, k.find("always").Items, "what is shown again stays")
	require.Empty(t, k.find("1").Items)

	var values thinned[int]
	for v := range 100_000 {
		values.add(v)
		require.Less(t, len(values.points), mostThinned)
	}
	require.Greater(t, len(values.points), mostThinned/4)
	require.Less(t, values.points[0], 1000, "they reach back to the beginning")
	require.Greater(t, values.points[len(values.points)-1], 99_000)
	for k := 1; k < len(values.points); k++ {
		require.Equal(t, values.points[1]-values.points[0], values.points[k]-values.points[k-1], "at even intervals")
	}
}

// TestWhenFiguresAreKnown: open outcomes are of the last horizon. At a steady rate they are a third once three horizons have passed.
func TestWhenFiguresAreKnown(t *testing.T) {
	learner := func(age, horizon int64) Learner { // one impression a second, each selected at once, none paid
		l := Learner{Horizon: float64(horizon), Ranked: age}
		l.Awaited = min(age, horizon)
		l.Resolved = age - l.Awaited
		return l
	}
	for _, c := range []struct{ age, horizon, want int64 }{{10, 100, 290}, {100, 100, 200}, {250, 100, 50}} {
		l := learner(c.age, c.horizon)
		require.Equal(t, earlyPayoffs, l.early())
		require.InDelta(t, c.want, l.remains(1), 1e-6)
		l = learner(c.age+c.want, c.horizon)
		require.Empty(t, l.early(), "it was right")
	}
	selected := Learner{Timeout: 100, Ranked: 10}
	require.Equal(t, earlySelections, selected.early())
	require.InDelta(t, 290, selected.remains(1), 1e-6)

	p := Page{Now: 1_000_000, Seconds: 10, Learners: []LearnerPage{{Learner: learner(10, 100), Early: earlyPayoffs, LastAt: 999_000}}}
	p.Learners[0].Name = "feed"
	p.expectFigures(map[string]Counts{"feed": {Value: partition.Value{Counterfactual: partition.Counterfactual{Decisions: 10}}}})
	require.EqualValues(t, 1_290_000, p.Learners[0].FirstAt)
	p.Learners[0].LastAt = p.Now - idleAfter - 1
	p.expectFigures(nil)
	require.EqualValues(t, p.Learners[0].LastAt+100_000, p.Learners[0].FirstAt, "without traffic, the last impression's deadline")
	p.Learners[0].FirstAt, p.Simulated = 0, true
	p.expectFigures(map[string]Counts{"feed": {Value: partition.Value{Counterfactual: partition.Counterfactual{Decisions: 10}}}})
	require.Zero(t, p.Learners[0].FirstAt, "the simulated clock is not that of the page")
}

// TestLiftsOverTime: lifts are in the payoffs' own unit, over the worker's whole life; without units an arm has the time of the first.
func TestLiftsOverTime(t *testing.T) {
	w := busy("w-1")
	b := board(w, nil)
	b.tick(time.UnixMilli(1_000_000))
	x := &w.seen[1].Status.Experiments[0]
	x.Arms[1].Lift.Estimate = 0.25
	b.tick(time.UnixMilli(1_001_000))
	var h History
	require.NoError(t, json.Unmarshal(b.History().plain, &h))
	require.Equal(t, []int64{1_000_000, 1_001_000}, h.Lifts.Times)
	require.Len(t, h.Lifts.Arms, 1, "the control has no lift")
	require.Equal(t, []float64{0.5, 1}, []float64{*h.Lifts.Arms[0].Lift[0], *h.Lifts.Arms[0].Lift[1]})
	require.Equal(t, -1., *h.Lifts.Arms[0].Lower[0])

	x.Arms = []partition.ArmStatus{{Name: "control"}, {Name: "feed"}}
	x.Next = 5_000_000
	b.tick(time.UnixMilli(1_002_000))
	p := page(t, b)
	require.EqualValues(t, 5_000_000, p.Arms[1].FirstAt)
	require.Len(t, b.lifts.points, 2, "nothing to draw")

	x.Arms = []partition.ArmStatus{{Name: "control", Units: 400, Share: 0.1}, {Name: "feed", Units: 100, Share: 0.9, OffShares: true,
		Lift: experiment.Lift{Units: 500, Lower: -1, Upper: 1, Verdict: experiment.Refused, Why: "they do not fit"}}}
	b.tick(time.UnixMilli(1_003_000))
	p = page(t, b)
	require.True(t, p.Arms[1].OffShares)
	require.Equal(t, "they do not fit", p.Arms[1].Why)
	require.Zero(t, p.Arms[1].FirstAt)
	require.Len(t, b.lifts.points, 2, "there are no bounds")
}

// TestUnitsOfAnyAge are compared in the payoffs' own unit, with the time of the first deadlines while they are to come, also where none counts yet.
func TestUnitsOfAnyAge(t *testing.T) {
	w := busy("w-1")
	b := board(w, nil)
	x := &w.seen[1].Status.Experiments[0]
	o := experiment.Outlook{Units: 90, SoFar: experiment.Interval{Estimate: 0.25, Lower: 0.125, Upper: 0.5}, Timing: experiment.Sooner,
		End: experiment.End{Interval: experiment.Interval{Estimate: 0.125, Lower: -0.25, Upper: 1}, Explained: 0.5, BreakEven: 3,
			Forecast: &experiment.Forecast{Better: 0.75}}}
	x.Arms, x.FirstDue = []partition.ArmStatus{{Name: "control"}, {Name: "feed", Outlook: o}}, 7_000_000
	b.tick(time.UnixMilli(1_000_000))
	p := page(t, b)
	require.Nil(t, p.Arms[0].AnyAge)
	require.Equal(t, &AnyAge{Units: 90, SoFar: 1, SoFarIs: "ahead", End: 0.5, AtLeast: -1, EndIs: "open", KnownAt: 7_000_000, Timing: "sooner",
		Explained: 0.5, BreakEven: 3, Forecast: &experiment.Forecast{Better: 0.75}},
		p.Arms[1].AnyAge)

	x.Arms[1].Outlook.Due, x.Arms[1].Outlook.End.Upper = 1, 0.75
	b.tick(time.UnixMilli(1_001_000))
	require.Zero(t, page(t, b).Arms[1].AnyAge.KnownAt)
	require.Equal(t, new(3.0), page(t, b).Arms[1].AnyAge.AtMost, "a bound below the width of the range is one")
	x.Arms[1].Tripped = true
	b.tick(time.UnixMilli(1_002_000))
	require.Nil(t, page(t, b).Arms[1].AnyAge, "an arm out of service has no units any more")
}
