//go:build !race

package e2e

import (
	"context"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ranker-worker/ranker-worker/internal/app"
	"github.com/ranker-worker/ranker-worker/internal/joinedlog"
	"github.com/ranker-worker/ranker-worker/internal/learners"
	"github.com/ranker-worker/ranker-worker/internal/lift"
	"github.com/ranker-worker/ranker-worker/internal/platform"
	"github.com/ranker-worker/ranker-worker/internal/test/testenv"
	"github.com/ranker-worker/ranker-worker/internal/test/testworker"
	"github.com/ranker-worker/ranker-worker/stream/event"
	"github.com/ranker-worker/ranker-worker/stream/experiment"
)

// tried are users of an experiment, an impression every ten seconds: some select nothing, some
// are shown another order, some pay. Item 1 on top pays more often. Records in time come hours
// before their deadline, since the clock goes on while workers read.
type tried struct {
	base event.Millis
	late event.Millis // the horizon, if some pay too late
}

const (
	triedEvery  = 10_000
	triedMinute = 60_000
)

// Impression implements platform.Users.
func (u *tried) Impression(n int) (event.Impression, event.Millis, []platform.Record) {
	i := event.Impression{ID: fmt.Appendf(nil, "i-%d", n), Learner: []byte("feed"), HasUtilities: true, User: fmt.Appendf(nil, "u-%d", n*7919%600)}
	for item := range 3 {
		i.Candidates = append(i.Candidates, event.Candidate{Item: []byte(strconv.Itoa(item)), Utility: float64(item)})
	}
	return i, u.base + event.Millis(n)*triedEvery, nil
}

// Respond implements platform.Users.
func (u *tried) Respond(n int, items [][]byte) ([]platform.Record, error) {
	_, at, _ := u.Impression(n)
	rng, id := rand.New(rand.NewPCG(uint64(n), 5)), fmt.Appendf(nil, "i-%d", n)
	luck, late, kind := rng.Float64(), event.Millis(rng.IntN(90*triedMinute)), rng.IntN(20)
	if late > 80*triedMinute {
		if late += u.late - 70*triedMinute; u.late == 0 {
			late = 0
		}
	}
	if kind < 3 {
		return nil, nil
	}
	records := []platform.Record{{At: at + 500, Topic: event.Selections, Selection: event.Selection{ID: id, Item: slices.Clone(items[0]), ByUtility: kind == 3}}}
	if chance := map[string]float64{"0": 0.1, "1": 0.7, "2": 0.3}[string(items[0])]; luck < chance {
		records = append(records, platform.Record{At: at + 600 + late, Topic: event.Payoffs, Payoff: event.Payoff{ID: id, Payoff: 3}})
	}
	return records, nil
}

// trialCase is an experiment on the learner feed. All its arms pay 3, or nothing, of 0 to 4.
type trialCase struct {
	feed, plain string // policies; a third arm, other, has moss
	experiment  string
	horizon     string
	unpaid      int
	late        bool // some pay after the horizon
	impressions int
	alone       bool // it begins when a good half is ranked by feed
	settle      event.Millis
	// off bounds the difference of the bounds before the deadlines: workers learn delays tick by tick, up to the tick at which they read
	// their last payoffs.
	off float64
}

// text is the lines of the learners, and of the experiment unless they are alone.
func (c *trialCase) text(alone bool) string {
	learner := fmt.Sprintf("payoff_range: [0, 4]\n    payoff_horizon: %s\n    selection_timeout: 3h\n    on_expiry: {default: %d}", c.horizon, c.unpaid)
	text := "policy: " + c.feed + "\n    " + learner
	for _, other := range []string{"plain", "other"} {
		text += fmt.Sprintf("\n  %s:\n    payoffs: stochastic\n    policy: %s\n    %s", other, map[string]string{"plain": c.plain, "other": "moss"}[other], learner)
	}
	if !alone {
		text += "\nexperiments:\n  feed: " + c.experiment
	}
	return text
}

// TestUnraced_LiftSaysWhatTheMetricsSay: lift computes from the topics the same as the workers, to the last unit. Meanwhile workers are killed,
// partitions change their owners, and the deciding one's store goes back. Verdicts and reasons are the same, and so are bounds.
func TestUnraced_LiftSaysWhatTheMetricsSay(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]trialCase{
		"by impression": {feed: "moss", plain: "utility", horizon: "4h", unpaid: 1, late: true, impressions: 6000, settle: 120 * triedMinute,
			experiment: "{arms: {feed: 0.4, plain: 0.3, other: 0.3}, control: feed, by: impression, guard: {margin: 0.05, fallback: feed}}"},
		"by user": {feed: "moss", plain: "utility", horizon: "4h", unpaid: 1, late: true, impressions: 6000, settle: 120 * triedMinute,
			experiment: "{arms: {feed: 0.6, plain: 0.4}, control: plain, by: user, period: 1h}"},
		"guard on the run-off": {feed: "moss", plain: "utility", horizon: "10h", unpaid: 1, impressions: 4400, settle: 700 * triedMinute,
			experiment: "{arms: {feed: 0.5, plain: 0.5}, control: feed, by: impression, guard: {margin: 0.05, fallback: feed}}"},
		"before the horizon": {feed: "utility", plain: "moss", horizon: "10h", impressions: 5000, alone: true, settle: 25 * triedMinute, off: 1e-4,
			experiment: "{arms: {feed: 0.5, plain: 0.5}, control: feed, by: impression}"},
		"before the horizon by user": {feed: "utility", plain: "moss", horizon: "10h", impressions: 5000, alone: true, settle: 25 * triedMinute, off: 1e-4,
			experiment: "{arms: {feed: 0.5, plain: 0.5}, control: feed, by: user, period: 1h}"},
	} {
		t.Run(name, func(t *testing.T) {
			testenv.One(t, func(t *testing.T, env testenv.Env) {
				w := newWorld(t, env, 3, c.text(c.alone))
				p, last := w.disturbTrial(t, env, &c)
				horizon, err := time.ParseDuration(c.horizon)
				require.NoError(t, err)
				// In the middle of a bucket: one that ends between the last look and the workers' end would be in the stored sums alone.
				at, width := p.platform.Clock()+c.settle, horizon.Milliseconds()/(experiment.Lags-1)
				if c.alone {
					at += width + width/2 - at%width
				}
				require.NoError(t, p.platform.PassTo(t.Context(), at))
				var u *lift.Units
				var r *lift.Report
				var want, got map[string]any
				for end := time.Now().Add(deadline); got == nil || !alike(want, got, c.off); {
					require.True(t, time.Now().Before(end), "lift: %v\nworkers: %v", want, got)
					require.NoError(t, p.platform.PassTo(t.Context(), p.platform.Clock()+11_000)) // or nobody would look again
					u, r, err = w.lift(t, p.platform.Clock(), 0)
					require.NoError(t, err)
					want, got = saidByLift(r), saidByWorkers(t, last)
				}
				t.Logf("%d units: %v", r.Units, want)
				for _, worker := range last {
					worker.stop(t)
				}
				w.sameSums(t, u, r)
				arms := map[string]*lift.Arm{}
				for k := range r.Arms {
					arms[r.Arms[k].Arm] = &r.Arms[k]
				}
				switch plain := arms["plain"]; name {
				case "before the horizon", "before the horizon by user":
					require.Zero(t, r.Units)
					require.Equal(t, []any{"better", int64(0)}, []any{plain.Outlook.EndIs, plain.Outlook.Due})
				case "guard on the run-off": // the units whose deadlines were past did not suffice
					require.NotNil(t, plain.Out)
					since, err := time.Parse(time.RFC3339, plain.Out.Since)
					require.NoError(t, err)
					_, then, err := w.lift(t, since.UnixMilli(), 0)
					require.NoError(t, err)
					at := slices.IndexFunc(then.Arms, func(a lift.Arm) bool { return a.Control })
					margin := 0.05 * *then.Arms[at].Mean // of the moment at which the guard looked
					require.Less(t, plain.Out.Upper, -margin)
					require.NotEmpty(t, plain.Looks)
					for _, look := range plain.Looks {
						require.Greater(t, look.Upper, -margin)
					}
				case "by user":
					require.Greater(t, r.Units, int64(1000))
				default:
					require.Equal(t, []any{"worse", true}, []any{plain.Verdict, plain.Out != nil})
					require.Nil(t, arms["other"].Out)
					w.forget(t, event.Payoffs, []int64{5, 5, 5})
					_, _, err := w.lift(t, p.platform.Clock(), 0)
					require.ErrorIs(t, err, joinedlog.ErrRetention)
					require.ErrorContains(t, err, "the payoffs before ")
					_, part, err := w.lift(t, p.platform.Clock(), p.platform.Clock()-12*60*triedMinute)
					require.NoError(t, err)
					require.Less(t, part.Units, r.Units)
				}
			})
		})
	}
}

// disturbTrial plays a case while two workers share the partitions. One is killed, both are stopped, both are killed and partition 0's store goes
// back, and one more joins. It returns the last workers, when all is read.
func (w *world) disturbTrial(t *testing.T, env testenv.Env, c *trialCase) (*trial, []*running) {
	t.Helper()
	p, points := w.try(t, c)
	start := func() *running { return w.startAt(t, p.platform.Clock) }
	at := func(percent int) (goOn func()) {
		w.reach(t, points[percent].reached, p.done)
		return func() { close(points[percent].left) }
	}
	first, second := start(), start()
	goOn := at(30)
	first.kill(t)
	goOn()
	goOn = at(55)
	if c.alone { // where an impression of now is read behind the clock, the experiment begins with it in the log alone
		w.await(t, points[55].sent)
	}
	second.stop(t)
	old := w.copyStore(t, w.group+":0")
	w.cfg, w.file = testworker.Load(t, plain(env, c.text(false)).text(w.group), os.LookupEnv)
	third, fourth := start(), start()
	goOn()
	goOn = at(70)
	third.kill(t)
	fourth.kill(t)
	w.rollBack(t, old)
	fifth := start()
	goOn()
	goOn = at(85)
	sixth := start()
	if strings.Contains(c.experiment, "guard") { // a verdict behind the last ranking stands in no log
		for end := time.Now().Add(deadline); !strings.Contains(w.log.String(), "out of service"); {
			require.True(t, time.Now().Before(end), "the guard does not trip")
			// Or nobody would look again. Users who have not answered yet select as much later: within the selection timeout for all of deadline.
			require.NoError(t, p.platform.PassTo(t.Context(), p.platform.Clock()+1000))
		}
	}
	goOn()
	require.NoError(t, <-p.done)
	w.await(t, p.sent)
	return p, []*running{fifth, sixth}
}

// saidByLift is all that a report says of arms: figures by metric, arm and bound, and words by arm.
func saidByLift(r *lift.Report) map[string]any {
	all := map[string]any{}
	bounds := func(metric, arm string, b *experiment.Interval) {
		if b != nil {
			all[metric+arm+"lower"], all[metric+arm+"estimate"], all[metric+arm+"upper"] = b.Lower, b.Estimate, b.Upper
		}
	}
	for k := range r.Arms {
		a := &r.Arms[k]
		all["ranker_lift_units"+a.Arm] = float64(a.Units)
		if a.Control {
			continue
		}
		all[a.Arm] = a.Verdict + a.Why
		lift := experiment.Interval{Estimate: *a.Lift, Lower: -1, Upper: 1}
		if a.Lower != nil {
			lift.Lower, lift.Upper = *a.Lower, *a.Upper
		}
		bounds("ranker_lift", a.Arm, &lift)
		if o := a.Outlook; o != nil {
			all[a.Arm+"outlook"] = fmt.Sprint(o.Units, o.Due, o.SoFarIs, o.SoFarWhy, o.EndIs, o.EndWhy, o.Timing)
			bounds("ranker_lift_in_the_end", a.Arm, o.End)
			if o.End != nil {
				all["ranker_lift_explained"+a.Arm] = o.Explained
			}
			if o.BreakEven > 0 {
				all["ranker_lift_break_even"+a.Arm] = o.BreakEven
			}
			if o.Forecast != nil {
				all["ranker_lift_forecast"+a.Arm+"better"], all["ranker_lift_forecast"+a.Arm+"worse"] = o.Forecast.Better, o.Forecast.Worse
			}
			bounds("ranker_lift_so_far", a.Arm, o.SoFar)
			if o.Timing != "" {
				all["ranker_lift_timing"+a.Arm] = map[string]float64{"sooner": -1, "later": 1}[o.Timing]
			}
		}
	}
	return all
}

// alike reports whether both say the same, and figures of the end differ by off at most.
func alike(want, got map[string]any, off float64) bool {
	return maps.EqualFunc(want, got, func(x, y any) bool {
		a, figure := x.(float64)
		b, both := y.(float64)
		return x == y || figure && both && math.Abs(a-b) <= off
	})
}

// saidByWorkers is the same from workers' metrics, and from the status that the page shows.
func saidByWorkers(t *testing.T, workers []*running) map[string]any {
	t.Helper()
	all := map[string]any{}
	for _, w := range workers {
		for _, s := range w.App.Worker.Statuses() {
			for _, x := range s.Experiments {
				for k := range x.Arms {
					if a := &x.Arms[k]; x.Decides && a.Name != x.Control {
						all[a.Name] = a.Lift.Verdict.String() + a.Lift.Why
						if o := &a.Outlook; o.Units > 0 {
							all[a.Name+"outlook"] = fmt.Sprint(o.Units, o.Due, o.Ahead(), o.SoFarWhy, o.End.Verdict, o.End.Why, o.Timing)
						}
					}
				}
			}
		}
		families, err := w.metrics.Gather()
		require.NoError(t, err)
		for _, f := range families {
			if name := f.GetName(); strings.HasPrefix(name, "ranker_lift") && name != "ranker_lift_lag_seconds" {
				for _, m := range f.GetMetric() {
					is := map[string]string{}
					for _, l := range m.GetLabel() {
						is[l.GetName()] = l.GetValue()
					}
					all[name+is["arm"]+is["bound"]+is["verdict"]] = m.GetGauge().GetValue()
				}
			}
		}
	}
	return all
}

// sameSums compares the stored sums of all partitions with those of lift, integer by integer.
func (w *world) sameSums(t *testing.T, u *lift.Units, r *lift.Report) {
	t.Helper()
	e := u.Experiment
	totals, lags := make(experiment.Totals, len(e.Arms)), e.NewLagTotals()
	for p := range w.partitions {
		stored, err := w.redis.HGetAll(t.Context(), fmt.Sprintf("{%s:%d}:experiments", w.group, p)).Result()
		require.NoError(t, err)
		all := e.NewRunOffs(u.Horizon)
		for block, off := range all {
			field := "feed:lags"
			if e.ByUser {
				field += fmt.Sprint(":", block)
			}
			require.NoError(t, e.ParseRunOff(stored[field], off), field)
		}
		lags.AddAll(all)
		if text := stored["feed:totals"]; text != "" {
			of, err := e.ParseTotals(text)
			require.NoError(t, err)
			totals.Add(of)
		}
	}
	want, _ := u.Lags(u.AsOf)
	require.Equal(t, want, lags)
	if e.ByUser { // groups are folded over all partitions
		return
	}
	for k, a := range r.Arms {
		require.Equal(t, a.Units, totals[k].N, a.Arm)
		if a.Units > 0 {
			require.Equal(t, *a.Mean, totals[k].Mean(), a.Arm)
		}
	}
}

// trial is a platform for the users of an experiment.
type trial struct {
	platform *platform.Platform
	sent     platform.Progress
	done     chan error
}

// point is reached when so many percent of the impressions are ranked. The play waits there until it is left: else it would be far ahead
// when a worker has stopped.
type point struct {
	reached, left chan struct{}
	sent          platform.Progress // by then
}

// try begins to play impressions.
func (w *world) try(t *testing.T, c *trialCase) (p *trial, points map[int]*point) {
	t.Helper()
	b, err := app.NewBroker(w.access)
	require.NoError(t, err)
	t.Cleanup(b.Close)
	points, open := map[int]*point{}, []int{30, 55, 70, 85}
	for _, percent := range open {
		points[percent] = &point{reached: make(chan struct{}), left: make(chan struct{})}
	}
	// The clock is ahead of impressions that are being written, by a third of a minute each. A worker at the topic's end takes the clock for the
	// topic's time. Where an experiment begins, it leaves out an impression behind that time, so few are written at once there.
	unanswered := 64
	if c.alone {
		unanswered = 4
	}
	users := &tried{base: time.Now().Add(-23 * time.Hour).UnixMilli()}
	if c.late {
		users.late = w.cfg.Learners[0].PayoffHorizon.Milliseconds()
	}
	p = &trial{done: make(chan error, 1)}
	p.platform = platform.New(platform.Options{Brokers: w.access.Kafka.Brokers, Transport: w.transport(t), Topics: app.TopicNames(w.cfg), Log: b,
		From: make([]int64, w.partitions), Impressions: c.impressions, Unanswered: unanswered, Every: time.Millisecond, Progress: func(now platform.Progress) {
			for len(open) > 0 && now.Rankings >= c.impressions*open[0]/100 {
				at := points[open[0]]
				open = open[1:]
				at.sent = now
				close(at.reached)
				select {
				case <-at.left:
				case <-t.Context().Done():
				}
			}
		}}, users)
	go func() {
		var err error
		p.sent, err = p.platform.Run(t.Context())
		p.done <- err
		close(p.done)
	}()
	return p, points
}

// lift compares arms by the topics, from a time on.
func (w *world) lift(t *testing.T, asOf, from event.Millis) (*lift.Units, *lift.Report, error) {
	t.Helper()
	b, err := app.NewBroker(w.access)
	require.NoError(t, err)
	defer b.Close()
	ctx, cancel := context.WithTimeout(t.Context(), deadline)
	defer cancel()
	x := &w.cfg.Experiments[0]
	e, err := learners.Experiment(w.cfg, x)
	require.NoError(t, err)
	l := w.cfg.Learner(x.Control)
	u := lift.NewUnits(&lift.Options{Experiment: e, Payoffs: l.PayoffRange, Unpaid: learners.Unpaid(w.cfg, x), Silence: learners.Silence(l),
		Horizon: l.PayoffHorizon.Milliseconds(), AsOf: asOf})
	q := &joinedlog.Query{Learner: l, Group: w.group, HasSelections: true, Parking: w.cfg.Join.ParkingTime, AsOf: asOf, From: from, Accept: u.Accept, Came: u.Came}
	sources, err := joinedlog.OpenTopics(ctx, b, q)
	if err != nil {
		return nil, nil, err
	}
	log, err := joinedlog.Read(ctx, sources, q)
	require.NoError(t, err)
	defer log.Close()
	r, err := u.Report(log)
	return u, r, err
}
