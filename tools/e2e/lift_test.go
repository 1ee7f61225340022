package e2e

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ranker-worker/ranker-worker/internal/app"
	"github.com/ranker-worker/ranker-worker/internal/joinedlog"
	"github.com/ranker-worker/ranker-worker/internal/learners"
	"github.com/ranker-worker/ranker-worker/internal/lift"
	"github.com/ranker-worker/ranker-worker/internal/platform"
	"github.com/ranker-worker/ranker-worker/internal/test/testenv"
	"github.com/ranker-worker/ranker-worker/stream/event"
)

// tried are users of an experiment, an impression every ten seconds: some select nothing, some
// are shown another order, some pay, and some of these too late. Item 1 on top pays more often.
// Records in time come hours before their deadline, since the clock goes on while workers read.
type tried struct{ base event.Millis }

const (
	triedEvery   = 10_000
	triedMinute  = 60_000
	triedHorizon = 240 * triedMinute
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
		late += triedHorizon - 70*triedMinute
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

// TestLift_SaysWhatTheMetricsSay: lift computes from the topics the same as the workers' metrics, to the last bit, although one is killed.
func TestLift_SaysWhatTheMetricsSay(t *testing.T) {
	t.Parallel()
	for name, units := range map[string]string{"by impression": "by: impression", "by user": "by: user, period: 1h"} {
		t.Run(name, func(t *testing.T) {
			testenv.One(t, func(t *testing.T, env testenv.Env) {
				const impressions = 6000
				learner := "payoff_range: [0, 4]\n    payoff_horizon: 4h\n    selection_timeout: 1h\n    on_expiry: {default: 1}"
				w := newWorld(t, env, 3, "policy: moss\n    "+learner+"\n  control:\n    payoffs: stochastic\n    policy: utility\n    "+learner+
					"\nexperiments:\n  feed: {arms: {feed: 0.6, control: 0.4}, control: control, "+units+"}")
				p, half := w.try(t, impressions)
				first := w.startAt(t, p.platform.Clock)
				w.reach(t, half, p.done)
				first.kill(t)
				second := w.startAt(t, p.platform.Clock)
				require.NoError(t, <-p.done)
				w.await(t, p.sent)

				// All is counted in the end: the last period, too, is over when its last deadline is.
				require.NoError(t, p.platform.PassTo(t.Context(), p.platform.Clock()+2*60*triedMinute))
				r, err := w.lift(t, p.platform.Clock(), 0)
				require.NoError(t, err)
				require.Greater(t, r.Units, int64(1000))
				arm := &r.Arms[1]
				want := shownLift{r.Arms[1].Units, r.Arms[0].Units, *arm.Lower, *arm.Lift, *arm.Upper}
				var got shownLift
				assert.Eventually(t, func() bool {
					if p.platform.PassTo(t.Context(), p.platform.Clock()+11_000) != nil { // or nobody would look again
						return false
					}
					got = shownLift{int64(second.gauge(t, "ranker_lift_units", "feed", "")), int64(second.gauge(t, "ranker_lift_units", "control", "")),
						second.gauge(t, "ranker_lift", "feed", "lower"), second.gauge(t, "ranker_lift", "feed", "estimate"), second.gauge(t, "ranker_lift", "feed", "upper")}
					return got == want
				}, deadline, 50*time.Millisecond)
				require.Equal(t, want, got)
				second.stop(t)

				w.forget(t, event.Payoffs, []int64{5, 5, 5})
				_, err = w.lift(t, p.platform.Clock(), 0)
				require.ErrorIs(t, err, joinedlog.ErrRetention)
				require.ErrorContains(t, err, "the payoffs before ")
				part, err := w.lift(t, p.platform.Clock(), p.platform.Clock()-12*60*triedMinute)
				require.NoError(t, err)
				require.Less(t, part.Units, r.Units)
			})
		})
	}
}

// shownLift is an arm's lift, with its units and the control's.
type shownLift struct {
	arm, control           int64
	lower, estimate, upper float64
}

// trial is a platform for the users of an experiment.
type trial struct {
	platform *platform.Platform
	sent     platform.Progress
	done     chan error
}

// try begins to play impressions; half is closed when half of them are ranked.
func (w *world) try(t *testing.T, impressions int) (p *trial, half chan struct{}) {
	t.Helper()
	b, err := app.NewBroker(w.access)
	require.NoError(t, err)
	t.Cleanup(b.Close)
	half = make(chan struct{})
	open := true
	p = &trial{done: make(chan error, 1)}
	p.platform = platform.New(platform.Options{Brokers: w.access.Kafka.Brokers, Transport: w.transport(t), Topics: app.TopicNames(w.cfg), Log: b,
		From: make([]int64, w.partitions), Impressions: impressions, Unanswered: 64, Progress: func(now platform.Progress) {
			if open && now.Rankings >= impressions/2 {
				close(half)
				open = false
			}
		}}, &tried{time.Now().Add(-23 * time.Hour).UnixMilli()})
	go func() {
		var err error
		p.sent, err = p.platform.Run(t.Context())
		p.done <- err
		close(p.done)
	}()
	return p, half
}

// lift compares arms by the topics, from a time on.
func (w *world) lift(t *testing.T, asOf, from event.Millis) (*lift.Report, error) {
	t.Helper()
	b, err := app.NewBroker(w.access)
	require.NoError(t, err)
	defer b.Close()
	ctx, cancel := context.WithTimeout(t.Context(), deadline)
	defer cancel()
	x := &w.cfg.Experiments[0]
	e, err := learners.Experiment(w.cfg, x)
	require.NoError(t, err)
	l := &w.cfg.Learners[1]
	u := lift.NewUnits(&lift.Options{Experiment: e, Payoffs: l.PayoffRange, Unpaid: learners.Unpaid(w.cfg, x), Horizon: triedHorizon, AsOf: asOf})
	q := &joinedlog.Query{Learner: l, Group: w.group, HasSelections: true, Parking: w.cfg.Join.ParkingTime, AsOf: asOf, From: from, Accept: u.Accept, Came: u.Came}
	sources, err := joinedlog.OpenTopics(ctx, b, q)
	if err != nil {
		return nil, err
	}
	log, err := joinedlog.Read(ctx, sources, q)
	require.NoError(t, err)
	defer log.Close()
	return u.Report(log)
}

// gauge returns a worker's metric of an arm; 0 if it is missing.
func (r *running) gauge(t *testing.T, name, arm, bound string) float64 {
	t.Helper()
	families, err := r.metrics.Gather()
	require.NoError(t, err)
	for _, f := range families {
		if f.GetName() != name {
			continue
		}
		for _, m := range f.GetMetric() {
			is := map[string]string{}
			for _, l := range m.GetLabel() {
				is[l.GetName()] = l.GetValue()
			}
			if is["arm"] == arm && is["bound"] == bound {
				return m.GetGauge().GetValue()
			}
		}
	}
	return 0
}
