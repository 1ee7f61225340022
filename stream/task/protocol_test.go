package task

import (
	"flag"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ranker-worker/ranker-worker/delay"
	"github.com/ranker-worker/ranker-worker/policy"
	"github.com/ranker-worker/ranker-worker/stream/event"
	"github.com/ranker-worker/ranker-worker/stream/partition"
)

var (
	schedules = flag.Int("schedules", 150, "simulated schedules per kind of fault")
	firstSeed = flag.Uint64("seed", 1, "seed of the first schedule")
)

// simConfig is the task and machine of a simulated partition.
func simConfig(horizon, selection, parking time.Duration) Config {
	names := [event.Topics]string{"impressions", "selections", "payoffs", "rankings"}
	machine := partition.Config{
		Group: "g", TopicNames: names, HasSelections: true, ParkingTime: parking.Milliseconds(),
		MaxParked: 1000, MaxParkedBytes: 1 << 20, MaxCandidates: 100, MaxRecordBytes: 1 << 16, Salt: 7,
		Learners: []partition.LearnerConfig{{
			Name: "feed", Default: true, PolicyName: "elimination", DelayName: "qpmd", Fingerprint: "f",
			PayoffMax: 1, PayoffHorizon: horizon.Milliseconds(), SelectionTimeout: selection.Milliseconds(),
			Seed: 1, New: newTestLearner,
		}},
	}
	return Config{Group: "g", TopicNames: names, HasSelections: true, SessionTimeout: 500 * time.Millisecond,
		MaxRecordBytes: 1 << 16, FetchWait: 50 * time.Millisecond,
		NewMachine: func(max int) (*partition.Machine, error) {
			m := machine
			m.MaxRankingBytes = max
			return partition.New(m)
		}}
}

// users is a simulated platform: impressions, and for each ranking seen a selection and a payoff, in any order,
// now and then twice, malformed or never.
type users struct {
	w         *world
	left      int
	made      int
	seen      int // of the rankings log
	valid     map[string]bool
	records   [event.Inputs]int64
	scheduled []func()
	clean     bool // no duplicates, nothing malformed or missing
}

func newUsers(w *world, n int, clean bool) *users {
	return &users{w: w, left: n, valid: map[string]bool{}, clean: clean}
}

func (u *users) put(t event.Topic, key string, format string, args ...any) {
	u.records[t]++
	u.w.append(t, []byte(key), fmt.Appendf(nil, format, args...))
}

func (u *users) act() {
	rng := u.w.rng
	if u.left > 0 && rng.IntN(3) == 0 {
		u.left--
		u.made++
		id := fmt.Sprintf("i-%d", u.made)
		if !u.clean && rng.IntN(20) == 0 {
			id = fmt.Sprintf("i-%d", 1+rng.IntN(u.made))
		}
		switch {
		case !u.clean && rng.IntN(25) == 0:
			u.put(event.Impressions, id, `{"impression_id":"%s","candidates":[]}`, id)
		default:
			u.valid[id] = true
			u.put(event.Impressions, id, `{"impression_id":"%s","candidates":[{"item":"a","utility":%d},`+
				`{"item":"b","utility":%d},{"item":"c-%d","utility":0.5}]}`, id, rng.IntN(9), rng.IntN(9), rng.IntN(4))
		}
		if !u.clean && rng.IntN(10) == 0 { // early
			u.put(event.Payoffs, id, `{"impression_id":"%s","payoff":0.5}`, id)
		}
	}
	for ; u.seen < len(u.w.rankings); u.seen++ {
		if l := u.w.rankings[u.seen]; !l.marker {
			u.react(l)
		}
	}
	if n := len(u.scheduled); n > 0 && rng.IntN(2) == 0 {
		k := rng.IntN(n)
		f := u.scheduled[k]
		u.scheduled[k] = u.scheduled[n-1]
		u.scheduled = u.scheduled[:n-1]
		f()
	}
}

func (u *users) react(l logged) {
	rng := u.w.rng
	var r event.Ranking
	if err := newRankingDecoder().Ranking(&r, l.value); err != nil {
		panic(err)
	}
	id, item := string(r.ID), string(r.Items[rng.IntN(len(r.Items))])
	times := func() int {
		if u.clean {
			return 1
		}
		return []int{0, 1, 1, 1, 1, 2}[rng.IntN(6)]
	}
	for range times() {
		u.scheduled = append(u.scheduled, func() {
			u.put(event.Selections, id, `{"impression_id":"%s","item":"%s"}`, id, item)
		})
	}
	payoff := float64(rng.IntN(5)) / 4
	for range times() {
		u.scheduled = append(u.scheduled, func() {
			if !u.clean && rng.IntN(20) == 0 {
				u.put(event.Payoffs, id, `{"impression_id":"%s","payoff":7}`, id)
				return
			}
			u.put(event.Payoffs, id, `{"impression_id":"%s","payoff":%g}`, id, payoff)
		})
	}
}

func (u *users) done() bool {
	return u.left == 0 && len(u.scheduled) == 0 && u.seen == len(u.w.rankings)
}

// play runs one schedule to its quiet end and returns the partition's last owner, still running.
func play(t *testing.T, seed uint64, cfg Config, f faults, clean bool) (*world, *users, *proc) {
	w := newWorld(seed, cfg)
	w.faults, w.noise = f, true
	u := newUsers(w, 60, clean)
	for range 60_000 {
		u.act()
		w.step()
		if u.done() {
			break
		}
	}
	// Quiet: the faults end, a last owner catches up, what the users still do is done, and the rest is read.
	w.noise = false
	for _, p := range w.procs {
		p.paused = p.gen < 0
	}
	last := w.start()
	for n := 0; ; n++ {
		u.act()
		w.step()
		s := last.task.Status()
		require.NotEqual(t, Stopped, s.Phase, "seed %d: %s: %v", seed, s.Reason, s.Err)
		if u.done() && s.Phase == Running && s.Lag == [event.Inputs]int64{} && s.Unsaved == 0 && caughtUp(w, last) {
			return w, u, last
		}
		require.Less(t, n, 400_000, "seed %d: no quiet end: %v %+v", seed, s.Phase, s)
	}
}

// caughtUp tells whether the last owner has stepped and saved everything.
func caughtUp(w *world, p *proc) bool {
	r := p.task.run
	if r == nil || len(r.segments) > 0 || r.openSince >= 0 || !r.rankings.idle() {
		return false
	}
	for i := range r.queues {
		if r.queues[i].pos.Offset != int64(len(w.inputs[i])) {
			return false
		}
	}
	return true
}

// checkRankings holds the log of rankings against invariant 4: one decision per impression, in order.
func checkRankings(t *testing.T, seed uint64, w *world, u *users) {
	last, ids := int64(-1), map[string]bool{}
	for _, l := range w.rankings {
		if l.marker {
			continue
		}
		var r event.Ranking
		require.NoError(t, newRankingDecoder().Ranking(&r, l.value), "seed %d", seed)
		require.Greater(t, r.Decision.Offset, last, "seed %d: impression offsets of rankings must rise", seed)
		require.False(t, ids[string(r.ID)], "seed %d: %s ranked twice", seed, r.ID)
		last, ids[string(r.ID)] = r.Decision.Offset, true
	}
	for id := range u.valid {
		require.True(t, ids[id], "seed %d: %s was never ranked", seed, id)
	}
}

func forEachSeed(t *testing.T, f func(t *testing.T, seed uint64)) {
	for k := range *schedules {
		seed := *firstSeed + uint64(k)
		f(t, seed)
		if t.Failed() {
			t.Fatalf("failed with -seed %d", seed)
		}
	}
}

var kinds = map[string]faults{
	"calm":         {},
	"lost replies": {fail: 0.03, lose: 0.05},
	"crashes":      {crash: 0.002, fail: 0.01, lose: 0.02},
	"zombies":      {pause: 0.003, resume: 0.002, reassign: 0.002, lose: 0.02},
	"all":          {crash: 0.001, pause: 0.002, resume: 0.002, reassign: 0.002, fail: 0.02, lose: 0.02},
	"rollback":     {crash: 0.001, reassign: 0.001, rollback: 0.001, lose: 0.02},
}

// TestProtocol_ExactlyOnceUnderFaults: with clean traffic and long deadlines every outcome is known beforehand, whatever
// dies: one ranking per impression, each selection joined, each payoff applied, once.
func TestProtocol_ExactlyOnceUnderFaults(t *testing.T) {
	for name, f := range kinds {
		t.Run(name, func(t *testing.T) {
			forEachSeed(t, func(t *testing.T, seed uint64) {
				w, u, last := play(t, seed, simConfig(24*time.Hour, 24*time.Hour, 24*time.Hour), f, true)
				checkRankings(t, seed, w, u)
				checkClean(t, seed, u, last)
			})
		})
	}
}

// TestProtocol_AccountAddsUpUnderFaults: with duplicate, early, malformed and missing records and deadlines that pass,
// every record read has exactly one outcome.
func TestProtocol_AccountAddsUpUnderFaults(t *testing.T) {
	for name, f := range kinds {
		t.Run(name, func(t *testing.T) {
			forEachSeed(t, func(t *testing.T, seed uint64) {
				w, u, last := play(t, seed, simConfig(20*time.Second, 8*time.Second, 5*time.Second), f, false)
				checkRankings(t, seed, w, u)
				checkAccount(t, seed, u, last)
			})
		})
	}
}

func newTestLearner() delay.Learner {
	p, err := policy.NewElimination(policy.Confidence{Radius: policy.Subgaussian, Sigma: 0.5, Delta: 0.05})
	if err != nil {
		panic(err)
	}
	return delay.NewQPMD(p)
}

func checkAccount(t *testing.T, seed uint64, u *users, p *proc) {
	a := p.task.Status().Account
	require.Equal(t, u.records, a.Read, "seed %d: every record is read once", seed)
	require.Equal(t, [event.Inputs]int64{}, a.Unaccounted(), "seed %d: every record has one outcome: %+v", seed, a)
}

func checkClean(t *testing.T, seed uint64, u *users, p *proc) {
	checkAccount(t, seed, u, p)
	a, n := p.task.Status().Account, int64(len(u.valid))
	require.Equal(t, n, a.Impressions.Paid, "seed %d: %+v", seed, a)
	require.Equal(t, n, a.Selections.Joined, "seed %d: %+v", seed, a)
	require.Equal(t, n, a.Payoffs.Applied, "seed %d: %+v", seed, a)
}
