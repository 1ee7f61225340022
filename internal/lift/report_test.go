package lift

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"image/color"
	"image/png"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/ranker-worker/ranker-worker/config"
	"github.com/ranker-worker/ranker-worker/internal/joinedlog"
	"github.com/ranker-worker/ranker-worker/internal/plotting"
	"github.com/ranker-worker/ranker-worker/stream/event"
	"github.com/ranker-worker/ranker-worker/stream/experiment"
)

const (
	start   = event.Millis(1_800_000_000_000)
	horizon = event.Millis(4 * 3_600_000)
	timeout = event.Millis(600_000)
)

// world plays an experiment, and keeps the outcome of each unit.
type world struct {
	e       *experiment.Experiment
	random  *rand.Rand
	began   event.Millis
	records [event.Topics][]timed
	units   []known
	end     event.Millis
}

// timed is a record with its time.
type timed struct {
	at   event.Millis
	text string
}

// known is the observed data of a unit.
type known struct {
	began     event.Millis
	paid      event.Millis // when its payoff came in time, or when it ended without
	payoff    bool
	partition int32
	deadline  event.Millis
	group     int
	period    int64
	arm       int
	worth     float64
	z         float64 // covariate
}

func newWorld(t require.TestingT, seed uint64, s experiment.Settings) *world {
	s.Name, s.Run, s.Control = "feed", max(s.Run, 2), "control"
	if s.Arms == nil {
		s.Arms = []experiment.Arm{{Name: "feed", Share: 0.6}, {Name: "control", Share: 0.4}}
	}
	e, err := experiment.New(s)
	require.NoError(t, err)
	return &world{e: e, random: rand.New(rand.NewPCG(seed, 7)), began: start}
}

func (w *world) write(topic event.Topic, at event.Millis, record []byte) {
	w.records[topic] = append(w.records[topic], timed{at, string(record)})
	w.end = max(w.end, at)
}

// rank writes a ranking of an arm.
func (w *world) rank(id string, at event.Millis, partition int32, a event.Assignment, v event.Verdict) {
	w.write(event.Rankings, at, event.AppendRanking(nil, &event.Ranking{ID: []byte(id), Learner: []byte(a.Arm), Time: at,
		Items: [][]byte{[]byte("a"), []byte("b")}, Decision: event.Decision{Group: "g", Policy: "moss", Delay: "direct", Partition: partition, Layout: 1,
			Instance: -1, Began: at, HasSelection: true, SelectionDeadline: at + timeout, PayoffDeadline: at + horizon, Assignment: a, Verdict: v}}))
}

func (w *world) selected(id string, at event.Millis, byUtility bool) {
	w.write(event.Selections, at, event.AppendSelection(nil, &event.Selection{ID: []byte(id), Item: []byte("b"), Time: at, HasTime: true, ByUtility: byUtility}))
}

func (w *world) paid(id string, at event.Millis, x float64) {
	w.write(event.Payoffs, at, event.AppendPayoff(nil, &event.Payoff{ID: []byte(id), Payoff: x, Time: at, HasTime: true}))
}

// play has so many impressions of users, a second apart. The arm gains lift over the control.
func (w *world) play(impressions int, lift float64) {
	for k := range impressions {
		at := w.began + event.Millis(k)*1000
		user, id := w.random.IntN(300), fmt.Sprintf("i-%d-%d", w.e.Run, k)
		u := known{began: at, paid: at + horizon, partition: int32(w.random.IntN(3)), deadline: at + horizon}
		a := event.Assignment{Experiment: "feed", Run: w.e.Run, Covariate: int32(w.random.IntN(3)) * 300_000}
		u.z = float64(a.Covariate) / 1e6
		name := []byte(id)
		if w.e.ByUser {
			u.group, u.period = experiment.GroupOf(fmt.Append(nil, "u-", user)), experiment.PeriodOf(at, w.e.Period)
			name = experiment.AppendUnit(nil, u.group, u.period, w.e.Period != 0)
			a.Unit = name
		}
		u.arm = w.e.Arm(name)
		a.Arm, a.Probability = w.e.Arms[u.arm].Name, w.e.Arms[u.arm].Share
		w.rank(id, at, u.partition, a, event.Verdict{})
		chance := 0.3
		if u.arm != w.e.ControlArm() {
			chance += lift
		}
		chance += u.z - 0.3
		switch late := event.Millis(w.random.Int64N(int64(horizon) * 5 / 4)); {
		case w.random.IntN(10) == 0:
			u.worth, u.paid = 0.5, at+timeout // not selected: 0 of −1 to 1
		case w.random.IntN(20) == 0:
			w.selected(id, at+1000, true)
			w.paid(id, at+2000, 1)
			continue // shown in another order: none
		default:
			w.selected(id, at+1000, false)
			u.worth = 0.25 // unpaid, unless a payoff comes in time
			if w.random.Float64() < chance {
				w.paid(id, at+1000+late, 1)
				if 1000+late <= horizon {
					u.worth, u.payoff, u.paid = 1, true, at+1000+late
				}
			}
		}
		w.units = append(w.units, u)
	}
}

// read reads the records as files, in the order of time.
func (w *world) read(t require.TestingT, dir string, u *Units) *joinedlog.Log {
	var all []joinedlog.Source
	for topic, records := range w.records {
		if event.Topic(topic) == event.Impressions {
			continue
		}
		slices.SortStableFunc(records, func(a, b timed) int { return cmp.Compare(a.at, b.at) })
		var text strings.Builder
		for _, r := range records {
			text.WriteString(r.text + "\n")
		}
		file := filepath.Join(dir, fmt.Sprint(topic))
		require.NoError(t, os.WriteFile(file, []byte(text.String()), 0o600))
		s, err := joinedlog.OpenLines(event.Topic(topic), file)
		require.NoError(t, err)
		defer s.Close()
		all = append(all, s)
	}
	log, err := joinedlog.Read(context.Background(), all, &joinedlog.Query{Learner: &config.Learner{Name: "control", PayoffRange: config.Range{Min: -1, Max: 1}},
		HasSelections: true, Parking: time.Hour, AsOf: u.AsOf, Accept: u.Accept, Came: u.Came})
	require.NoError(t, err)
	return log
}

func (w *world) options(asOf event.Millis) *Options {
	return &Options{Experiment: w.e, Payoffs: config.Range{Min: -1, Max: 1}, Unpaid: -0.5, Horizon: horizon, AsOf: asOf}
}

func (w *world) report(t require.TestingT, dir string, o *Options) *Report {
	u := NewUnits(o)
	log := w.read(t, dir, u)
	defer log.Close()
	r, err := u.Report(log)
	require.NoError(t, err)
	return r
}

// naive sums the observed data, unit by unit into cohorts, partition by partition, and counts the units that are too young.
func (w *world) naive(asOf event.Millis) (sum experiment.Totals, young int64) {
	cohorts := map[int32]map[int64][]experiment.Counts{}
	width := experiment.Width(horizon)
	for _, u := range w.units {
		n := u.deadline / width
		if (n+1)*width > asOf {
			young++
			continue
		}
		if cohorts[u.partition] == nil {
			cohorts[u.partition] = map[int64][]experiment.Counts{}
		}
		if cohorts[u.partition][n] == nil {
			cohorts[u.partition][n] = make([]experiment.Counts, len(w.e.Arms))
		}
		by := cohorts[u.partition][n]
		by[u.arm] = by[u.arm].Add(experiment.Unit(1, u.z)).Add(experiment.Of(u.worth, u.z))
	}
	sum = make(experiment.Totals, len(w.e.Arms))
	for _, of := range cohorts {
		t := make(experiment.Totals, len(w.e.Arms))
		for len(of) > 0 {
			n := next(of)
			t.Fold(of[n])
			delete(of, n)
		}
		sum.Add(t)
	}
	return sum, young
}

func next(of map[int64][]experiment.Counts) int64 {
	least := int64(1 << 62)
	for n := range of {
		least = min(least, n)
	}
	return least
}

func (w *world) same(t require.TestingT, r *Report, sum experiment.Totals) {
	for k, a := range r.Arms {
		require.Equal(t, sum[k].N, a.Units, a.Arm)
		require.Equal(t, sum[k].Mean(), *a.Mean)
		if a.Control {
			require.Nil(t, a.Lift)
			continue
		}
		l := w.e.Lift(k, sum)
		require.Equal(t, l.Verdict.String(), a.Verdict)
		require.Equal(t, []float64{l.Estimate, l.Lower, l.Upper}, []float64{*a.Lift, *a.Lower, *a.Upper})
		last := a.Looks[len(a.Looks)-1]
		require.Equal(t, Look{last.At, l.Units, l.Estimate, l.Lower, l.Upper}, last)
	}
}

// TestByImpression compares a report with the observed data of each unit, as of any time. Some units have payoffs that are late or
// never come, and some records are no units.
func TestByImpression(t *testing.T) {
	dir := t.TempDir()
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t, rapid.Uint64().Draw(t, "seed"), experiment.Settings{})
		w.play(rapid.IntRange(50, 400).Draw(t, "impressions"), 0.2)
		asOf := start + horizon + event.Millis(rapid.IntRange(100, 600).Draw(t, "second"))*1000
		sum, young := w.naive(asOf)
		if sum[0].N == 0 || sum[1].N == 0 {
			return
		}
		r := w.report(t, dir, w.options(asOf))
		w.same(t, r, sum)
		require.LessOrEqual(t, young, r.Immature, "what was shown in another order is young as well")
		require.Equal(t, "impression", r.By)
		require.NoError(t, r.Err(errors.New("refused")))
	})
}

// TestFindsTheLift has a lift that is found, and as many looks as are shown at most.
func TestFindsTheLift(t *testing.T) {
	w := newWorld(t, 1, experiment.Settings{})
	w.play(30_000, 0.4)
	r := w.report(t, t.TempDir(), w.options(w.end))
	sum, _ := w.naive(w.end)
	w.same(t, r, sum)
	arm := r.Arms[1]
	require.Equal(t, []string{"feed", "better"}, []string{arm.Arm, arm.Verdict})
	require.Len(t, arm.Looks, mostLooks)
	require.True(t, slices.IsSortedFunc(arm.Looks, func(a, b Look) int { return cmp.Compare(a.Units, b.Units) }))
	encoded, err := json.Marshal(r)
	require.NoError(t, err)
	require.Contains(t, string(encoded), `"experiment":"feed","run":2,"by":"impression","as_of":`)
	for _, format := range []string{"svg", "png"} {
		var picture bytes.Buffer
		require.NoError(t, r.Plot(&picture, format))
		require.Greater(t, picture.Len(), 1000)
	}
	// A single look is drawn.
	r.Arms[1].Looks = r.Arms[1].Looks[:1]
	var file bytes.Buffer
	require.NoError(t, r.Plot(&file, "png"))
	drawn, err := png.Decode(&file)
	require.NoError(t, err)
	want, coloured := color.RGBAModel.Convert(plotting.ColourOf("moss")), 0
	for x := range drawn.Bounds().Dx() {
		for y := range drawn.Bounds().Dy() {
			if color.RGBAModel.Convert(drawn.At(x, y)) == want {
				coloured++
			}
		}
	}
	require.Greater(t, coloured, 20)
	r.Arms[1].Looks = nil
	require.ErrorIs(t, r.Plot(&bytes.Buffer{}, "svg"), errNoLooks)
}

// TestByUser holds reports by user to groups that are added up here.
func TestByUser(t *testing.T) {
	const period = 1_800_000
	w := newWorld(t, 3, experiment.Settings{ByUser: true, Period: period})
	w.play(12_000, 0.3)
	asOf := start + 9_000_000 + horizon
	r := w.report(t, t.TempDir(), w.options(asOf))
	require.Equal(t, "user", r.By)
	sum, young := make(experiment.Totals, 2), int64(0)
	periods := map[int64]experiment.Groups{}
	for _, u := range w.units {
		if (u.period+1)*period+horizon > asOf {
			young++
			continue
		}
		if periods[u.period] == nil {
			periods[u.period] = make(experiment.Groups, experiment.GroupCount)
		}
		periods[u.period].Add(u.group, experiment.Unit(1, u.z))
		periods[u.period].Add(u.group, experiment.Of(u.worth, u.z))
	}
	for p := start / period; p < asOf/period; p++ {
		if periods[p] != nil {
			w.e.Fold(sum, p, periods[p])
		}
	}
	require.Len(t, periods, 5)
	w.same(t, r, sum)
	require.LessOrEqual(t, young, r.Immature)
}

// TestNever has users who keep their arm: no bounds, unless each group is asked for once.
func TestNever(t *testing.T) {
	w := newWorld(t, 3, experiment.Settings{ByUser: true})
	w.play(12_000, 0.4)
	refused := errors.New("refused")
	o := w.options(w.end + horizon)
	r := w.report(t, t.TempDir(), o)
	arm := r.Arms[1]
	require.Equal(t, "refused", arm.Verdict)
	require.Nil(t, arm.Lower)
	require.Contains(t, arm.Why, "keep their arm")
	require.ErrorIs(t, r.Err(refused), refused)

	o.Once = true
	once := w.report(t, t.TempDir(), o)
	require.True(t, once.Once)
	require.NoError(t, once.Err(refused))
	groups := map[int]bool{}
	for _, u := range w.units {
		groups[u.group] = true
	}
	require.EqualValues(t, len(groups), once.Units)
	require.Equal(t, *arm.Lift, *once.Arms[1].Lift)
	require.Len(t, once.Arms[1].Looks, 1)
}

// TestOutOfService: a report includes an arm as of when its guard tripped, and excludes rankings by another in its place.
func TestOutOfService(t *testing.T) {
	w := newWorld(t, 5, experiment.Settings{})
	w.play(20_000, -0.3)
	tripped := start + horizon + 3_000_000
	asThen, before := w.report(t, t.TempDir(), w.options(tripped)), w.report(t, t.TempDir(), w.options(tripped-1))
	a := event.Assignment{Experiment: "feed", Run: 2, Arm: "feed", Probability: 0.6, Fallback: true}
	w.rank("late-1", tripped, 1, a, event.Verdict{Run: 2, Arm: "feed", Units: 5, Lower: -0.5, Upper: -0.25})
	w.rank("late-2", tripped+1, 2, a, event.Verdict{Run: 2, Arm: "feed", Units: 5, Lower: -0.5, Upper: -0.25})
	for _, other := range []event.Verdict{{Run: 1, Arm: "feed", Units: 9}, {Run: 2, Arm: "gone", Units: 9}} {
		w.rank("other-"+other.Arm, tripped-2, 1, a, other)
	}
	require.Equal(t, before.Arms, w.report(t, t.TempDir(), w.options(tripped-1)).Arms, "a verdict passed later is not known, nor one of another run or arm")
	r := w.report(t, t.TempDir(), w.options(w.end))
	require.Equal(t, &Out{stamp(tripped), 5, -0.5, -0.25}, r.Arms[1].Out)
	require.Equal(t, "worse", r.Arms[1].Verdict)
	require.Equal(t, []float64{-0.375, -0.5, -0.25}, []float64{*r.Arms[1].Lift, *r.Arms[1].Lower, *r.Arms[1].Upper})
	require.Equal(t, asThen.Arms[1].Looks, r.Arms[1].Looks, "looks end then")
	require.NotNil(t, asThen.Arms[1].Outlook)
	require.Nil(t, r.Arms[1].Outlook)
	require.Greater(t, r.Arms[1].Units, asThen.Arms[1].Units, "all units that it had count in the end")
	require.Greater(t, r.Arms[0].Units, asThen.Arms[0].Units)
	require.Contains(t, strings.Join(r.Notes, "; "), "4 impressions of arm feed are left out")
}

// TestOutOfServiceAtOnce: a guard may trip before an arm's first look.
func TestOutOfServiceAtOnce(t *testing.T) {
	w := newWorld(t, 5, experiment.Settings{})
	w.play(2_000, -0.3)
	a := event.Assignment{Experiment: "feed", Run: 2, Arm: "feed", Probability: 0.6, Fallback: true}
	w.rank("early", start+1, 1, a, event.Verdict{Run: 2, Arm: "feed", Units: 5, Lower: -0.5, Upper: -0.25})
	r := w.report(t, t.TempDir(), w.options(w.end))
	require.Equal(t, &Out{stamp(start + 1), 5, -0.5, -0.25}, r.Arms[1].Out)
	require.Empty(t, r.Arms[1].Looks)
}

// TestNoUsers: the error of an experiment by user names the cause that impressions have none.
func TestNoUsers(t *testing.T) {
	w := newWorld(t, 5, experiment.Settings{ByUser: true})
	w.rank("i-1", start, 0, event.Assignment{}, event.Verdict{})
	u := NewUnits(w.options(start))
	log := w.read(t, t.TempDir(), u)
	defer log.Close()
	_, err := u.Report(log)
	require.ErrorIs(t, err, ErrNone)
	require.ErrorContains(t, err, "impressions without `user` are ranked by the control")
}

// TestRefusals: other runs, other shares, no units, and files that do not say how far they go.
func TestRefusals(t *testing.T) {
	good := event.Assignment{Experiment: "feed", Run: 2, Arm: "feed", Probability: 0.6}
	for _, c := range []struct {
		change func(a *event.Assignment)
		asOf   event.Millis
		want   string
	}{
		{func(a *event.Assignment) { a.Run = 1 }, start, `no ranking belongs to the experiment "feed", run 2, among 1; 1 are of run 1`},
		{func(a *event.Assignment) { a.Experiment = "other" }, start, `no ranking belongs to the experiment "feed", run 2, among 1`},
		{func(a *event.Assignment) { a.Probability = 0.5 }, start, "1 rankings of run 2 are of arms or shares that are not configured"},
		{func(a *event.Assignment) { a.Arm = "gone" }, start, "1 rankings of run 2 are of arms or shares that are not configured"},
		{func(a *event.Assignment) { a.Unit = []byte("1f3@1") }, start, "1 rankings of run 2 are of arms or shares that are not configured"},
		{func(*event.Assignment) {}, 0, "do not say how far event time has come"},
	} {
		w, a := newWorld(t, 1, experiment.Settings{}), good
		c.change(&a)
		w.rank("i-1", start, 0, a, event.Verdict{})
		u := NewUnits(w.options(c.asOf))
		log := w.read(t, t.TempDir(), u)
		_, err := u.Report(log)
		require.ErrorContains(t, err, c.want)
		require.NoError(t, log.Close())
	}
}
