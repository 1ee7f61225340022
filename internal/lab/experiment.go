package lab

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/ranker-worker/ranker-worker/config"
)

// Limits of an experiment. Together with MaxDelay they keep what is in memory to a few gigabytes at the most.
const (
	MaxItems   = 100_000
	MaxHorizon = 10_000_000_000
	MaxRuns    = 10_000
	// MaxPartitions is how many learners may pool what they learn.
	MaxPartitions = 256
	maxDivisor    = 1e6
	// MaxTastes bounds Tastes: beyond it nobody could tell that there is an order.
	MaxTastes = 1000
)

// Experiment is what all combinations are played in.
type Experiment struct {
	Scenario Scenario
	Items    int      // 1..MaxItems; of scenarios that show some of the items only, all of them; of Churn, the live ones
	Horizon  int64    // T, 1..MaxHorizon
	Lateness Lateness // zero for scenarios with delays of their own
	// PayoffHorizon is after how many impressions what has not been paid is told by silence, and is not heard of later;
	// 1..MaxDelay, 0 for the scenario's.
	PayoffHorizon int64
	// AtOnce tells payoffs and silence with the selection, however late they come: what a learner can know at the most.
	AtOnce bool
	// Blind keeps from learners what payoffs depend on besides the item.
	Blind bool
	// Noise is the share of users who select any item within their window, with the same probability; 0..1. Learners learn
	// from them. Regret is the ranking's, as if all users selected what they like best.
	Noise float64
	// Divisor divides payoffs before they are told, 1 for 0; regret is in the scenario's units.
	Divisor float64
	// Period is Wave's, in impressions, from 2 on; 0 for DefaultPeriod.
	Period int64
	// Tastes is how much users' tastes vary: the standard deviation of what each adds, in each impression, to his utility of
	// each candidate, normally, in gaps between neighbours in the order of the users' mean utilities; 0..MaxTastes. It is that
	// mean order that learners are given, or find. With social it is that of users' estimates, 1 where it is 0.
	Tastes float64
	// Partitions is over how many learners impressions are spread, which publish what they pool every ShareEvery impressions;
	// 1..MaxPartitions, 0 for 1, and 0 for every impression.
	Partitions int
	ShareEvery int64
	Runs       int // 1..MaxRuns; run k is the same users whatever the number of runs
	Seed       uint64
	// Cores is how many runs are played at once; 0 is one per processor. Results do not depend on it.
	Cores int
	// Progress, where not nil, is told how many of all impressions have been played, from several goroutines at once.
	Progress func(done, total int64)
}

// Point is a curve at one time.
type Point struct {
	T      int64   `json:"t"`
	Regret float64 `json:"regret"` // mean over runs
	// Stderr is the standard error of the mean; absent for a single run.
	Stderr *float64 `json:"stderr,omitempty"`
}

// Regret is what runs lost.
type Regret struct {
	Mean   float64  `json:"mean"`
	Stderr *float64 `json:"stderr"`    // of the mean; null for a single run
	SD     *float64 `json:"deviation"` // of a run; null for a single run
	Min    float64  `json:"min"`
	Max    float64  `json:"max"`
}

// BurnIn is the regret's parts where the order of utilities has to be found first. In impressions ranked so as to find it
// the policy is not asked.
type BurnIn struct {
	Impressions Regret  `json:"impressions"` // ranked so as to find the order
	Last        float64 `json:"last"`        // of them, on average over runs
	Unfinished  int     `json:"unfinished"`  // runs whose last impression was one of them
	// During is the regret in those impressions (of a scenario whose regret is against a fixed ranking: up to the last of
	// them), After what comes on top of it.
	During Regret `json:"during"`
	After  Regret `json:"after"`
}

// Result is one combination's. All but Seconds is a function of the experiment and the combination.
type Result struct {
	Policy       string `json:"policy"`
	Delay        string `json:"delay"`
	MaxInstances *int   `json:"max_instances"` // null for learners without instances
	// Utilities is where the order of utilities comes from, as in the configuration.
	Utilities   string    `json:"utilities"`
	Scenario    Scenario  `json:"scenario"`
	Items       int       `json:"items"`
	Horizon     int64     `json:"horizon"`
	PayoffDelay *Lateness `json:"payoff_delay"` // null where delays are the scenario's own
	// PayoffHorizon is after how many impressions silence is told, OnExpiry the payoff that it counts as: null for none
	// where it is dropped, or nobody waits that long.
	PayoffHorizon *int64   `json:"payoff_horizon"`
	OnExpiry      *float64 `json:"on_expiry"`
	Silence       string   `json:"silence"` // what a selection counts as before, as in the configuration
	Drift         float64  `json:"drift"`   // by how much means are taken to move, as in the configuration
	AtOnce        bool     `json:"told_at_once"`
	Context       bool     `json:"context"` // what payoffs depend on besides the item is told
	Noise         float64  `json:"noise"`
	Divisor       float64  `json:"payoff_divisor"`
	Period        int64    `json:"period,omitempty"` // Wave's
	Tastes        float64  `json:"tastes"`
	Partitions    int      `json:"partitions"`
	Runs          int      `json:"runs"`
	Seed          uint64   `json:"seed"`
	Regret        Regret   `json:"regret"`
	// DynamicRegret is against the best ranking of each impression's candidates at its time; Regret is the same, unless the
	// scenario is AgainstFixed.
	DynamicRegret Regret `json:"dynamic_regret"`
	// Payoff is what rankings bring an impression, in the mean, and Best what the best ones of each impression would; where users may
	// leave, an impression without a selection counts.
	Payoff     float64    `json:"payoff_per_impression"`
	Best       float64    `json:"best_per_impression"`
	BurnIn     *BurnIn    `json:"burn_in,omitempty"` // where the order of utilities had to be found
	Bound      *float64   `json:"bound"`             // see Upper; null where none holds
	LowerBound *float64   `json:"lower_bound"`       // see Lower; null where there is none
	Curve      []Point    `json:"curve"`
	Told       *UserModel `json:"selections,omitempty"` // of the first run, where utilities are given
	Instances  int64      `json:"instances"`            // the most that any run needed; 0 for learners without
	Seconds    float64    `json:"seconds"`              // of computing, all runs together

	combination *Combination
	experiment  *Experiment
}

// Grid is the times at which curves are taken: 24 in each power of ten, and T.
func Grid(horizon int64) []int64 {
	var grid []int64
	for k := 0; ; k++ {
		t := int64(math.Round(math.Pow(10, float64(k)/24)))
		if t >= horizon {
			return append(grid, horizon)
		}
		if len(grid) == 0 || t > grid[len(grid)-1] {
			grid = append(grid, t)
		}
	}
}

// maxPositions bounds the positions that are remembered of decisions whose payoffs are on their way.
const maxPositions = 200_000_000

// Check tells what is out of range.
func (e *Experiment) Check() error {
	if _, err := ParseScenario(string(e.Scenario)); err != nil {
		return &config.SettingError{Key: "scenario", Err: err}
	}
	for _, x := range []struct {
		key        string
		value, max int64
	}{
		{"items", int64(e.Items), MaxItems}, {"horizon", e.Horizon, MaxHorizon}, {"runs", int64(e.Runs), MaxRuns},
	} {
		if x.value < 1 || x.value > x.max {
			return &config.SettingError{Key: x.key, Err: fmt.Errorf("must be from 1 to %d, not %d", x.max, x.value)}
		}
	}
	if all := e.every(); all > MaxItems {
		return &config.SettingError{Key: "horizon", Err: fmt.Errorf("%d items would come and go; there may be %d", all, MaxItems)}
	}
	if !(e.Noise >= 0 && e.Noise <= 1) {
		return &config.SettingError{Key: "noise", Err: fmt.Errorf("must be from 0 to 1, not %v", e.Noise)}
	}
	if !(e.Divisor == 0 || e.Divisor >= 1 && e.Divisor <= maxDivisor) {
		return &config.SettingError{Key: "payoff-divisor", Err: fmt.Errorf("must be from 1 to %g, not %v", float64(maxDivisor), e.Divisor)}
	}
	if e.Period != 0 && (e.Period < 2 || e.Scenario != Wave) {
		return &config.SettingError{Key: "period", Err: fmt.Errorf("must be from 2, and is of scenario %s alone", Wave)}
	}
	if !(e.Tastes >= 0 && e.Tastes <= MaxTastes) {
		return &config.SettingError{Key: "tastes", Err: fmt.Errorf("must be from 0 to %d, not %v", MaxTastes, e.Tastes)}
	}
	if e.Tastes > 0 && e.Scenario == Ranks {
		return &config.SettingError{Key: "tastes", Err: fmt.Errorf("payoffs of scenario %s belong to ranks of each user's own", Ranks)}
	}
	if e.PayoffHorizon < 0 || e.PayoffHorizon > MaxDelay {
		return &config.SettingError{Key: "payoff-horizon", Err: fmt.Errorf("must be from 0 to %d, not %d", MaxDelay, e.PayoffHorizon)}
	}
	if e.Scenario.OwnDelays() && e.Lateness != (Lateness{}) {
		return &config.SettingError{Key: "payoff-delay", Err: fmt.Errorf("scenario %s has delays of its own", e.Scenario)}
	}
	if e.Partitions < 0 || e.Partitions > MaxPartitions {
		return &config.SettingError{Key: "partitions", Err: fmt.Errorf("must be from 1 to %d, not %d", MaxPartitions, e.Partitions)}
	}
	if e.ShareEvery < 0 {
		return &config.SettingError{Key: "share-every", Err: fmt.Errorf("must be from 1, not %d", e.ShareEvery)}
	}
	if e.Cores < 0 || e.Cores > 4096 {
		return &config.SettingError{Key: "cores", Err: fmt.Errorf("must be from 0 to 4096, not %d", e.Cores)}
	}
	if k := e.Lateness.Mean; k < 0 || k > MaxDelay {
		return &config.SettingError{Key: "payoff-delay", Err: fmt.Errorf("must be from 0 to %d, not %d", MaxDelay, k)}
	}
	if k, key := e.longest(); k*int64(e.Scenario.Candidates(e.Items)) > maxPositions {
		return &config.SettingError{Key: key, Err: fmt.Errorf("%d with %d candidates would take too much memory; their product may be %d",
			k, e.Scenario.Candidates(e.Items), maxPositions)}
	}
	return nil
}

// period is Wave's, in impressions.
func (e *Experiment) period() int64 {
	if e.Period > 0 {
		return e.Period
	}
	return DefaultPeriod
}

// divisor is what payoffs are divided by.
func (e *Experiment) divisor() float64 {
	if e.Divisor > 0 {
		return e.Divisor
	}
	return 1
}

// horizon is after how many impressions silence is told; 0 for never.
func (e *Experiment) horizon() int64 {
	if e.PayoffHorizon > 0 {
		return e.PayoffHorizon
	}
	return e.Scenario.PayoffHorizon()
}

// longest is how many impressions something may be on its way, in the mean where there is no end, and the setting that
// says so.
func (e *Experiment) longest() (impressions int64, key string) {
	if h := e.horizon(); h > 0 && !e.AtOnce {
		return min(h, e.Horizon), "payoff-horizon"
	}
	return min(e.lateness().Mean, e.Horizon), "payoff-delay"
}

// lateness is how late payoffs come of scenarios without delays of their own.
func (e *Experiment) lateness() Lateness {
	if e.AtOnce {
		return Lateness{}
	}
	return e.Lateness
}

// every is how many items there are in the course of a run.
func (e *Experiment) every() int64 {
	if t := trades[e.Scenario]; t != nil {
		return t.all(e.Items, e.Horizon)
	}
	if e.Scenario == News {
		return newsAll(e.Items, e.Horizon)
	}
	return int64(e.Items)
}

// Late says in a few words when payoffs come.
func (e *Experiment) Late() string {
	switch {
	case e.AtOnce:
		return "payoffs and silence at once"
	case e.Scenario.OwnDelays():
		return fmt.Sprintf("payoffs within %d", e.horizon())
	case e.PayoffHorizon > 0:
		return fmt.Sprintf("payoffs %s late, within %d", e.Lateness, e.PayoffHorizon)
	}
	return fmt.Sprintf("payoffs %s late", e.Lateness)
}

// Run plays all runs of all combinations, over the same users, and gives the results in the order of the combinations.
// It ends early, with an error, when ctx does.
func Run(ctx context.Context, e *Experiment, combinations []*Combination) ([]*Result, error) {
	if err := e.Check(); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var (
		grid  = Grid(e.Horizon)
		runs  = make([][]played, len(combinations))
		jobs  = len(combinations) * e.Runs
		total = int64(jobs) * e.Horizon
		next  atomic.Int64 // job
		done  atomic.Int64 // impressions
		cores = e.Cores
		wg    sync.WaitGroup
	)
	for k := range runs {
		runs[k] = make([]played, e.Runs)
	}
	progress := func(more int64) {
		if now := done.Add(more); e.Progress != nil {
			e.Progress(now, total)
		}
	}
	if cores == 0 {
		cores = runtime.GOMAXPROCS(0)
	}
	for range min(cores, jobs) {
		wg.Go(func() {
			for ctx.Err() == nil {
				// The combinations of one run lie side by side, so that all are nearly done when time is up.
				job := int(next.Add(1) - 1)
				if job >= jobs {
					return
				}
				k, run := job%len(combinations), job/len(combinations)
				p, err := play(ctx, e, combinations[k], run, grid, progress)
				if err != nil {
					cancel(err)
					return
				}
				runs[k][run] = p
			}
		})
	}
	wg.Wait()
	if err := context.Cause(ctx); err != nil && !errors.Is(err, context.Canceled) {
		return nil, fmt.Errorf("playing %d runs: %w", jobs, err)
	} else if err != nil {
		return nil, err
	}
	results := make([]*Result, len(combinations))
	for k, c := range combinations {
		results[k] = e.result(c, runs[k], grid)
	}
	return results, nil
}

// result puts runs together, in their order.
func (e *Experiment) result(c *Combination, runs []played, grid []int64) *Result {
	r := &Result{
		Policy: string(c.Learner.Policy), Delay: string(c.Learner.Delay), MaxInstances: c.instances(),
		Utilities: string(c.Learner.Utilities), Scenario: e.Scenario,
		Items: e.Items, Horizon: e.Horizon, Silence: string(c.Learner.Silence), Drift: c.Learner.Drift, AtOnce: e.AtOnce, Context: c.Told, Noise: e.Noise, Tastes: e.Tastes,
		Divisor: e.divisor(), Partitions: max(1, e.Partitions), Runs: e.Runs, Seed: e.Seed,
		Told: runs[0].told, combination: c, experiment: e,
	}
	if e.Scenario == Wave {
		r.Period = e.period()
	}
	if !e.Scenario.OwnDelays() {
		r.PayoffDelay = &e.Lateness
	}
	if h := e.horizon(); h > 0 {
		r.PayoffHorizon, r.OnExpiry = &h, c.Learner.OnExpiry.Default
	}
	for k, t := range grid {
		m := momentsOf(runs, func(p *played) float64 { return p.regret[k] })
		r.Curve = append(r.Curve, Point{t, m.mean, m.stderr()})
		if k == len(grid)-1 {
			r.Regret = m.regret()
		}
	}
	r.DynamicRegret = momentsOf(runs, func(p *played) float64 { return p.dynamic }).regret()
	r.Payoff = momentsOf(runs, func(p *played) float64 { return p.payoff }).mean
	r.Best = r.Payoff + r.DynamicRegret.Mean/float64(e.Horizon)
	for _, p := range runs {
		r.Instances = max(r.Instances, p.instances)
		r.Seconds += p.seconds
	}
	if c.Learner.Utilities != config.Given {
		r.BurnIn = e.burnIn(runs)
	}
	if upper := e.Upper(c); upper != nil {
		b := upper(float64(e.Horizon))
		r.Bound = &b
	}
	if lower, ok := e.Lower(); ok {
		b := lower * math.Log(float64(e.Horizon))
		r.LowerBound = &b
	}
	return r
}

// burnIn puts the runs' burn-ins together.
func (e *Experiment) burnIn(runs []played) *BurnIn {
	b := &BurnIn{
		Impressions: momentsOf(runs, func(p *played) float64 { return float64(p.burnIn.impressions) }).regret(),
		During:      momentsOf(runs, func(p *played) float64 { return p.burnIn.regret }).regret(),
		After:       momentsOf(runs, func(p *played) float64 { return p.regret[len(p.regret)-1] - p.burnIn.regret }).regret(),
		Last:        momentsOf(runs, func(p *played) float64 { return float64(p.burnIn.last) }).mean,
	}
	for _, p := range runs {
		if p.burnIn.last == e.Horizon {
			b.Unfinished++
		}
	}
	return b
}

// moments are those of some number of the runs.
type moments struct {
	n        int
	mean, m2 float64
	min, max float64
}

// momentsOf takes two passes, which loses no digits.
func momentsOf(runs []played, of func(*played) float64) moments {
	m := moments{n: len(runs), min: math.Inf(1), max: math.Inf(-1)}
	for k := range runs {
		x := of(&runs[k])
		m.mean += x
		m.min, m.max = min(m.min, x), max(m.max, x)
	}
	m.mean /= float64(m.n)
	for k := range runs {
		d := of(&runs[k]) - m.mean
		m.m2 += d * d
	}
	return m
}

func (m moments) regret() Regret { return Regret{m.mean, m.stderr(), m.deviation(), m.min, m.max} }

// deviation is the standard deviation of a run; nil for a single run.
func (m moments) deviation() *float64 {
	if m.n < 2 {
		return nil
	}
	d := math.Sqrt(m.m2 / float64(m.n-1))
	return &d
}

func (m moments) stderr() *float64 {
	d := m.deviation()
	if d != nil {
		*d /= math.Sqrt(float64(m.n))
	}
	return d
}

// Ordered is results by their mean regret, the least first.
func Ordered(results []*Result) []*Result {
	return slices.SortedStableFunc(slices.Values(results), func(a, b *Result) int { return cmp.Compare(a.Regret.Mean, b.Regret.Mean) })
}
