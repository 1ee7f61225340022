package page

import (
	"fmt"
	"log/slog"
	"math"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ranker-worker/ranker-worker/delay"
	"github.com/ranker-worker/ranker-worker/internal/dashboard"
	"github.com/ranker-worker/ranker-worker/policy"
	"github.com/ranker-worker/ranker-worker/stream"
	"github.com/ranker-worker/ranker-worker/stream/event"
	"github.com/ranker-worker/ranker-worker/stream/experiment"
	"github.com/ranker-worker/ranker-worker/stream/partition"
	"github.com/ranker-worker/ranker-worker/stream/task"
)

// group is a worker with figures of the test's own making. They grow with each tick.
type group struct {
	name        string
	learners    []partition.LearnerConfig
	statuses    []partition.LearnerStatus
	gains       map[string]float64 // share by which a learner's payoffs exceed those of ranking by utility
	partitions  map[int32]stream.Observed
	experiments func(tick int64) []partition.ExperimentStatus
	letters     []stream.Letter
	ticks       atomic.Int64
}

func (g *group) ID() string                          { return "worker-of-" + g.name }
func (g *group) Group() string                       { return g.name }
func (g *group) Outside() string                     { return "" }
func (g *group) LookAgain(int32, int) int32          { return 0 }
func (g *group) Now() int64                          { return time.Now().UnixMilli() }
func (g *group) Letters() []stream.Letter            { return g.letters }
func (g *group) Learners() []partition.LearnerConfig { return g.learners }

func (g *group) Totals() stream.Totals {
	n := float64(g.ticks.Add(1))
	t := stream.Totals{Latencies: make([]int64, len(stream.LatencyBounds())+1)}
	if len(g.statuses) > 0 {
		t.Read, t.Rankings, t.Latencies[4] = [event.Inputs]float64{250 * n, 240 * n, 12 * n}, 250*n, int64(250*n)
	}
	return t
}

func (g *group) Seen() map[int32]stream.Observed {
	all := map[int32]stream.Observed{}
	for p, o := range g.partitions {
		if o.Status != nil && o.Status.Phase == task.Running {
			o.Status.Watermark = g.Now()
			if p == 0 && g.experiments != nil {
				o.Status.Experiments = g.experiments(g.ticks.Load())
			}
		}
		all[p] = o
	}
	return all
}

// groupCounters are the group's metrics.
type groupCounters struct{ *group }

func (c groupCounters) Learners() map[string]stream.LearnerTotal {
	all, n := map[string]stream.LearnerTotal{}, c.ticks.Load()
	for _, l := range c.learners {
		gain, ranks := c.gains[l.Name]
		if !ranks {
			continue
		}
		var t stream.LearnerTotal
		t.Account.Impressions.Paid, t.Account.Impressions.Unselected = 180*n, 70*n
		t.Account.Selections.Joined = 180 * n
		v := &t.Value
		v.Payoffs, v.PayoffSum, v.PayoffSquares = 180*n, 180*float64(n)*0.3*(1+gain), 180*float64(n)*0.3*(1+gain)
		v.Decisions, v.Known, v.First, v.Compared, v.Outpaid = 250*n, 250*n, 20*n, 250*n, 230*n
		v.Expected, v.ExpectedSum, v.ExpectedVariance = 180*n, 180*float64(n)*0.3, 0
		if l.PolicyName == "utility" {
			v.First = v.Decisions
		}
		all[l.Name] = t
	}
	return all
}

// running is a partition at work, with these learners.
func running(number int32, learners []partition.LearnerStatus) stream.Observed {
	s := &task.Status{Phase: task.Running, Unsaved: 2048, Learners: learners}
	s.Account.Read = [event.Inputs]int64{31_000, 22_000, 1_100}
	s.Account.Impressions = partition.ImpressionAccount{Paid: 1_000, Expired: 12_000, Unselected: 8_000, Pending: 10_000}
	s.Account.Selections = partition.SelectionAccount{Joined: 21_900, Late: 60, Orphan: 40}
	s.Account.Payoffs = partition.PayoffAccount{Applied: 1_000, Late: 60, Orphan: 40}
	o := stream.Observed{Status: s, Look: &partition.Sample{}}
	for k, l := range learners {
		one := partition.LearnerSample{Name: l.Name, Rule: "the candidate with the largest index leads: its mean payoff, plus a bonus for few payoffs", First: 100, Favourite: 100}
		ranking := &partition.RankingSample{ID: fmt.Sprintf("i-%s-%d", l.Name, number), Offset: 31_000 - int64(k), Time: time.Now().UnixMilli(), Candidates: 12}
		leader, highest := 0, -1
		for i := range 8 {
			rate := 0.1 + 0.08*float64((5*i)%8)
			e := policy.Evidence{W: 400 / float64(i+1), R: 400 / float64(i+1) * rate, Q: 400 / float64(i+1) * rate}
			name := fmt.Sprintf("item-%02d", i)
			if i == 3 {
				name = "a-course-with-a-long-name-about-harmony-and-counterpoint"
			}
			one.Items = append(one.Items, partition.ItemSample{Name: name, First: int64(40 / (i + 1)), Favourite: int64(5 * i), Evidence: e})
			rank := (3 * i) % 8
			if rank > highest {
				leader, highest = i, rank
			}
			ranking.Shown = append(ranking.Shown, partition.ShownSample{Name: name, Rank: int32(rank), Evidence: e, Propensity: 0.5 / float64(i+1), Leader: leader})
		}
		one.Ranking = ranking
		o.Look.Learners = append(o.Look.Learners, one)
	}
	return o
}

func learnerOf(name, policyName string) (partition.LearnerConfig, partition.LearnerStatus) {
	c := partition.LearnerConfig{Name: name, PolicyName: policyName, DelayName: "direct", PayoffMax: 1,
		PayoffHorizon: 30 * 86_400_000, SelectionTimeout: 3_600_000}
	s := partition.LearnerStatus{Name: name, Items: 40, PayoffMax: 1, Status: delay.Status{Fed: 1_000, Flights: 900, Windows: []float64{0.4, 0.3, 0.2, 0.1}, Selections: 5_000,
		Silence: delay.SilenceStatus{Law: delay.SilenceAges, Weight: 800, Known: true, Share: 0.05, Median: 3_600_000, P90: 86_400_000}}}
	s.Account.Read[event.Impressions] = 31_000
	s.Account.Impressions = partition.ImpressionAccount{Paid: 1_000, Expired: 19_100, Unselected: 10_000}
	return c, s
}

// emptyGroup has not read anything.
func emptyGroup() *group {
	c, _ := learnerOf("feed", "moss")
	g := &group{name: "empty", learners: []partition.LearnerConfig{c}, partitions: map[int32]stream.Observed{}}
	for p := range int32(4) {
		g.partitions[p] = stream.Observed{Status: &task.Status{Phase: task.Running}}
	}
	return g
}

// manyLearners has 16 learners: some better than ranking by utility, one worse, one not known to be either, and two too early to say.
func manyLearners() *group {
	g := &group{name: "sixteen", gains: map[string]float64{}, partitions: map[int32]stream.Observed{}}
	policies := []string{"moss", "thompson", "optimistic", "klucb", "greedy", "elimination", "egreedy", "ftrl", "osmd", "robust", "utility"}
	for k := range 16 {
		name := fmt.Sprintf("shelf-%d", k+1)
		if k == 5 {
			name = "recommendations-below-the-basket-of-returning-users"
		}
		c, s := learnerOf(name, policies[k%len(policies)])
		g.gains[name] = 0.7 - 0.1*float64(k%10)
		switch k {
		case 3: // payoffs are to come
			s.Silence = delay.SilenceStatus{Law: delay.SilenceWaits}
			s.Account.Impressions = partition.ImpressionAccount{Paid: 100, Unselected: 10_000}
			s.Flights = 20_900
		case 4: // selections are to come
			s.Account.Impressions = partition.ImpressionAccount{Paid: 1_000, Unselected: 100}
		case 7:
			g.gains[name] = 0.0001
		case 8:
			c.DelayName, s.OnHold, s.HoldItem, s.Queued = "qpmd", true, "item-07", 300
		}
		g.learners, g.statuses = append(g.learners, c), append(g.statuses, s)
	}
	for p := range int32(4) {
		g.partitions[p] = running(p, g.statuses)
	}
	return g
}

// experimenting has three experiments: one that becomes decided, one without a unit, and one whose units do not fit the shares.
func experimenting() *group {
	g := &group{name: "experimenting", gains: map[string]float64{"feed": 0.7, "control": 0}, partitions: map[int32]stream.Observed{}}
	for _, l := range [][2]string{{"feed", "moss"}, {"control", "utility"}} {
		c, s := learnerOf(l[0], l[1])
		g.learners, g.statuses = append(g.learners, c), append(g.statuses, s)
	}
	g.experiments = func(tick int64) []partition.ExperimentStatus {
		n := 400 * tick
		half := 2 / math.Sqrt(float64(n))
		lift := experiment.Lift{Units: n, Estimate: 0.06, Lower: 0.06 - half, Upper: 0.06 + half}
		if lift.Lower > 0 {
			lift.Verdict = experiment.Better
		}
		arms := func(lift experiment.Lift, off bool, units ...int64) []partition.ArmStatus {
			return []partition.ArmStatus{{Name: "control", Share: 0.1, Units: units[0], Mean: 0.25}, {Name: "feed", Share: 0.9, Units: units[1], Mean: 0.31, Lift: lift, OffShares: off}}
		}
		young := arms(experiment.Lift{}, false, 0, 0)
		young[1].Outlook = experiment.Outlook{Units: 90, SoFar: experiment.Interval{Estimate: 0.25, Lower: 0.125, Upper: 0.5},
			End: experiment.End{Interval: experiment.Interval{Estimate: 0.125, Lower: -0.25, Upper: 0.5}}}
		return []partition.ExperimentStatus{
			{Name: "feed", Control: "control", Run: 2, Decides: true, Arms: arms(lift, false, n/10, n-n/10)},
			{Name: "front-page", Control: "control", Run: 1, Decides: true, Next: time.Now().Add(9 * 24 * time.Hour).UnixMilli(), Arms: young},
			{Name: "lossy", Control: "control", Run: 1, Decides: true, Arms: arms(experiment.Lift{Units: 1_500, Estimate: 0.04, Lower: -1, Upper: 1, Verdict: experiment.Refused,
				Why: "1100 and 400 units do not fit the shares: impressions of one arm are lost or repeated"}, true, 400, 1_100)},
		}
	}
	g.partitions[0] = running(0, g.statuses)
	return g
}

// stoppedGroup has one partition that has stopped, and one that waits.
func stoppedGroup() *group {
	c, s := learnerOf("feed", "moss")
	g := &group{name: "stopped", learners: []partition.LearnerConfig{c}, statuses: []partition.LearnerStatus{s}, gains: map[string]float64{"feed": 0.7},
		partitions: map[int32]stream.Observed{},
		letters: []stream.Letter{{At: time.Now(), Topic: "payoffs", Partition: 3, Offset: 123_456, Reason: "malformed_json",
			Detail: `at byte 17: unexpected end of the record: {"impression_id":`}}}
	g.partitions[0], g.partitions[1] = running(0, g.statuses), running(1, g.statuses)
	g.partitions[2] = stream.Observed{Status: &task.Status{Phase: task.Stopped, Lag: [event.Inputs]int64{120_345, 80_112, 512}},
		Waits: "the group has run before, but nothing is stored for this partition: was Redis emptied? See docs/runbooks/stopped.md#no_state"}
	g.partitions[3] = stream.Observed{Status: &task.Status{Phase: task.Replaying}, Waits: "replaying since 12 s: load: dial tcp 10.0.0.17:6379: connection refused"}
	return g
}

// show serves a group's page, and returns its address.
func show(t *testing.T, g *group) string {
	t.Helper()
	board := dashboard.New(dashboard.Options{Source: g, Counters: groupCounters{g}, Version: "0.1.0", Logger: slog.New(slog.DiscardHandler)})
	go board.Run(t.Context())
	server := httptest.NewServer(board.Handler())
	t.Cleanup(server.Close)
	return server.URL + "/"
}
