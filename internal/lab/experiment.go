package lab

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	"github.com/ranker-worker/ranker-worker/config"
)

// Limits of an experiment. With MaxDelay they bound memory to a few gigabytes.
const (
	MaxItems   = 100_000
	MaxHorizon = 10_000_000_000
	MaxRuns    = 10_000
	// MaxPartitions bounds the learners that pool.
	MaxPartitions = 256
	maxDivisor    = 1e6
	// MaxTastes bounds Tastes; beyond it an order could not be seen.
	MaxTastes = 1000
)

// Experiment is the setting in which combinations are played.
type Experiment struct {
	Scenario    Scenario
	Items       int         // 1..MaxItems; all items, or for Churn the live ones
	Horizon     int64       // T, 1..MaxHorizon
	PayoffDelay PayoffDelay // zero for scenarios with delays of their own
	// PayoffHorizon is the number of impressions after which an unpaid selection expires; 1..MaxDelay, 0 for the scenario's.
	PayoffHorizon int64
	// AtOnce delivers payoffs and expiries with the selection: the most that a learner can know.
	AtOnce bool
	// Blind hides contexts from learners.
	Blind bool
	// Noise is the share of users in [0,1] who select any item within their window, with equal probability. Learners receive their
	// selections. Regret is that of rankings for users without noise.
	Noise float64
	// Divisor divides payoffs before learners receive them, 1 for 0; regret is in the scenario's units.
	Divisor float64
	// Period is Wave's, in impressions, at least 2; 0 is 2,000.
	Period int64
	// Numbers are those of the scenario numbers; nil in all others.
	Numbers *Numbers
	// Tastes is the standard deviation of the normal deviations that each impression's user adds to utilities, in gaps between neighbours
	// of the mean order; 0..MaxTastes. Learners are given, or find, the mean order. With social it is that of users' ratings, 1 for 0.
	Tastes float64
	// Partitions is the number of learners, 1..MaxPartitions or 0 for 1, which publish every ShareEvery impressions, 0 for 1.
	Partitions int
	ShareEvery int64
	Runs       int // 1..MaxRuns; run k has the same users for any number of runs
	Seed       uint64
	// Cores is the number of runs played at once; 0 is one per processor. Results do not depend on it.
	Cores int
	// Progress, unless nil, is called with the number of impressions played so far, from several goroutines at once.
	Progress func(done, total int64)
}

// Point is a point of a regret curve.
type Point struct {
	T      int64   `json:"t"`
	Regret float64 `json:"regret"` // mean over runs
	// Stderr is the mean's standard error; absent for a single run.
	Stderr *float64 `json:"stderr,omitempty"`
}

// Regret summarises the regret of runs.
type Regret struct {
	Mean   float64  `json:"mean"`
	Stderr *float64 `json:"stderr"`    // of the mean; null for a single run
	SD     *float64 `json:"deviation"` // of a run; null for a single run
	Min    float64  `json:"min"`
	Max    float64  `json:"max"`
}

// BurnIn divides the regret where the order of utilities must be found first. Impressions ranked to find it do not ask the policy.
type BurnIn struct {
	Impressions Regret  `json:"impressions"` // ranked to find the order
	Last        float64 `json:"last"`        // the last of them, mean over runs
	Unfinished  int     `json:"unfinished"`  // runs that ended in burn-in
	// During is the regret in those impressions (against a fixed ranking: up to the last of them), After the rest.
	During Regret `json:"during"`
	After  Regret `json:"after"`
}

// Result is the result of one combination. All but Seconds is a function of experiment and combination.
type Result struct {
	Policy       string `json:"policy"`
	Delay        string `json:"delay"`
	MaxInstances *int   `json:"max_instances"` // null for learners without instances
	// Utilities is the source of the order of utilities, as in the configuration.
	Utilities   string       `json:"utilities"`
	Scenario    Scenario     `json:"scenario"`
	Items       int          `json:"items"`
	Horizon     int64        `json:"horizon"`
	PayoffDelay *PayoffDelay `json:"payoff_delay"` // null if the scenario has delays of its own
	// PayoffHorizon is the number of impressions until expiry, and OnExpiry the payoff assumed then; null for none or drop.
	PayoffHorizon *int64   `json:"payoff_horizon"`
	OnExpiry      *float64 `json:"on_expiry"`
	Silence       string   `json:"silence"` // weight of a selection in flight, as in the configuration
	Drift         float64  `json:"drift"`   // drift of means, as in the configuration
	AtOnce        bool     `json:"payoffs_at_once"`
	Context       bool     `json:"context"` // learners receive contexts
	Noise         float64  `json:"noise"`
	Divisor       float64  `json:"payoff_divisor"`
	Period        int64    `json:"period,omitempty"` // Wave's
	Tastes        float64  `json:"tastes"`
	Partitions    int      `json:"partitions"`
	Runs          int      `json:"runs"`
	Seed          uint64   `json:"seed"`
	Regret        Regret   `json:"regret"`
	// DynamicRegret is against the best ranking of each impression; Regret is the same unless the scenario is AgainstFixed.
	DynamicRegret Regret `json:"dynamic_regret"`
	// Payoff is the rankings' mean payoff per impression, and Best that of the best ones; users who leave pay nothing.
	Payoff     float64    `json:"payoff_per_impression"`
	Best       float64    `json:"best_per_impression"`
	BurnIn     *BurnIn    `json:"burn_in,omitempty"` // if the order of utilities had to be found
	Bound      *float64   `json:"bound"`             // see Upper; null if none holds
	LowerBound *float64   `json:"lower_bound"`       // see Lower; null if none holds
	Curve      []Point    `json:"curve"`
	UserModel  *UserModel `json:"selections,omitempty"` // of the first run, if utilities are given
	Instances  int64      `json:"instances"`            // the most of any run; 0 for learners without
	Seconds    float64    `json:"seconds"`              // computing time of all runs

	combination *Combination
	experiment  *Experiment
	runs        []played
}

// Grid returns the times of a curve's points: 24 in each power of ten, and T.
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

// maxPositions bounds the positions kept for payoffs in flight.
const maxPositions = 200_000_000

// Check returns the first setting that is out of range, as a *config.SettingError.
func (e *Experiment) Check() error {
	fault := func(key, format string, args ...any) error {
		return &config.SettingError{Key: key, Err: fmt.Errorf(format, args...)}
	}
	if _, err := ParseScenario(string(e.Scenario)); err != nil {
		return &config.SettingError{Key: "scenario", Err: err}
	}
	for _, x := range []struct {
		key             string
		value, min, max int64
	}{
		{"items", int64(e.Items), 1, MaxItems}, {"horizon", e.Horizon, 1, MaxHorizon}, {"runs", int64(e.Runs), 1, MaxRuns},
		{"payoff-horizon", e.PayoffHorizon, 0, MaxDelay}, {"payoff-delay", e.PayoffDelay.Mean, 0, MaxDelay},
		{"partitions", int64(e.Partitions), 0, MaxPartitions}, {"cores", int64(e.Cores), 0, 4096},
	} {
		if x.value < x.min || x.value > x.max {
			return fault(x.key, "must be from %d to %d, not %d", x.min, x.max, x.value)
		}
	}
	all, own := e.every(), e.Scenario.definition()
	longest, of := e.longest()
	switch {
	case all > MaxItems:
		return fault("horizon", "%d items would come and go; there may be %d", all, MaxItems)
	case (e.Numbers != nil) != (own == ofNumbers):
		return fault("scenario", "%s needs numbers, and no other does", ofNumbers.name)
	case !(e.Noise >= 0 && e.Noise <= 1):
		return fault("noise", "must be from 0 to 1, not %v", e.Noise)
	case !(e.Divisor == 0 || e.Divisor >= 1 && e.Divisor <= maxDivisor):
		return fault("payoff-divisor", "must be from 1 to %g, not %v", float64(maxDivisor), e.Divisor)
	case e.Period != 0 && (e.Period < 2 || e.Scenario != wave):
		return fault("period", "must be from 2, and is of scenario %s alone", wave)
	case !(e.Tastes >= 0 && e.Tastes <= MaxTastes):
		return fault("tastes", "must be from 0 to %d, not %v", MaxTastes, e.Tastes)
	case e.Tastes > 0 && own.byRank:
		return fault("tastes", "payoffs of scenario %s belong to ranks of each user's own", e.Scenario)
	case own.delays != nil && e.PayoffDelay != (PayoffDelay{}):
		return fault("payoff-delay", "scenario %s has delays of its own", e.Scenario)
	case e.ShareEvery < 0:
		return fault("share-every", "must be from 1, not %d", e.ShareEvery)
	case longest*int64(e.Scenario.Candidates(e.Items)) > maxPositions:
		return fault(of, "%d with %d candidates would take too much memory; their product may be %d",
			longest, e.Scenario.Candidates(e.Items), maxPositions)
	}
	return nil
}

// wave is the scenario with a period.
const wave Scenario = "wave"

// defaultPeriod is the period in impressions.
const defaultPeriod = 2000

func (e *Experiment) period() int64 { return cmp.Or(e.Period, defaultPeriod) }

func (e *Experiment) clock() clock {
	if e.Numbers != nil {
		return clock(day.Milliseconds() / e.Numbers.PerDay)
	}
	return e.Scenario.clock()
}

// grid returns the times of a curve's points: with Numbers the end of each day.
func (e *Experiment) grid() (grid []int64) {
	if e.Numbers == nil {
		return Grid(e.Horizon)
	}
	for d := range int64(e.Numbers.Days) {
		grid = append(grid, (d+1)*e.Numbers.PerDay)
	}
	return grid
}

func (e *Experiment) divisor() float64 { return cmp.Or(e.Divisor, 1) }

// horizon returns the number of impressions until expiry; 0 for never.
func (e *Experiment) horizon() int64 {
	return cmp.Or(e.PayoffHorizon, e.Scenario.PayoffHorizon())
}

// longest returns the longest time in flight in impressions, or its mean if it is unbounded, and the setting that defines it.
func (e *Experiment) longest() (impressions int64, key string) {
	if h := e.horizon(); h > 0 && !e.AtOnce {
		return min(h, e.Horizon), "payoff-horizon"
	}
	return min(e.lateness().Mean, e.Horizon), "payoff-delay"
}

// lateness returns the delay in scenarios without delays of their own.
func (e *Experiment) lateness() PayoffDelay {
	if e.AtOnce {
		return PayoffDelay{}
	}
	return e.PayoffDelay
}

// every returns the number of items over a run.
func (e *Experiment) every() int64 {
	switch d := e.Scenario.definition(); {
	case d.delays != nil:
		return d.delays.all(e.Items, e.Horizon)
	case d.news:
		return newsAll(e.Items, e.Horizon)
	}
	return int64(e.Items)
}

// Late describes the payoffs' delay.
func (e *Experiment) Late() string {
	switch {
	case e.AtOnce:
		return "payoffs and silence at once"
	case e.Scenario.OwnDelays():
		return fmt.Sprintf("payoffs within %d", e.horizon())
	case e.PayoffHorizon > 0:
		return fmt.Sprintf("payoffs %s late, within %d", e.PayoffDelay, e.PayoffHorizon)
	}
	return fmt.Sprintf("payoffs %s late", e.PayoffDelay)
}

// Run plays all runs of all combinations with the same users, and returns results in the order of the combinations. It fails if a
// setting is out of range, or ctx ends.
func Run(ctx context.Context, e *Experiment, combinations []*Combination) ([]*Result, error) {
	if err := e.Check(); err != nil {
		return nil, err
	}
	grid := e.grid()
	total := int64(len(combinations)) * int64(e.Runs) * e.Horizon
	var done atomic.Int64 // impressions
	progress := func(more int64) {
		if now := done.Add(more); e.Progress != nil {
			e.Progress(now, total)
		}
	}
	runs := make([][]played, len(combinations))
	for k := range runs {
		runs[k] = make([]played, e.Runs)
	}
	group, playing := errgroup.WithContext(ctx)
	group.SetLimit(cmp.Or(e.Cores, runtime.GOMAXPROCS(0)))
	// The combinations of one run are adjacent, so that all are nearly done if time runs out.
	for run := range e.Runs {
		for k, c := range combinations {
			group.Go(func() (err error) {
				runs[k][run], err = play(playing, e, c, run, grid, progress)
				return err
			})
		}
	}
	if err := group.Wait(); errors.Is(err, context.Canceled) {
		return nil, err
	} else if err != nil {
		return nil, fmt.Errorf("playing %d runs: %w", len(combinations)*e.Runs, err)
	}
	results := make([]*Result, len(combinations))
	for k, c := range combinations {
		results[k] = e.result(c, runs[k], grid)
	}
	return results, nil
}

func (e *Experiment) result(c *Combination, runs []played, grid []int64) *Result {
	r := &Result{
		Policy: string(c.Learner.Policy), Delay: string(c.Learner.Delay), MaxInstances: c.instances(),
		Utilities: string(c.Learner.Utilities), Scenario: e.Scenario,
		Items: e.Items, Horizon: e.Horizon, Silence: string(c.Learner.Silence), Drift: c.Learner.Drift, AtOnce: e.AtOnce, Context: c.Contexts, Noise: e.Noise, Tastes: e.Tastes,
		Divisor: e.divisor(), Partitions: max(1, e.Partitions), Runs: e.Runs, Seed: e.Seed,
		UserModel: runs[0].userModel, combination: c, experiment: e, runs: runs,
	}
	if e.Scenario == wave {
		r.Period = e.period()
	}
	if !e.Scenario.OwnDelays() {
		r.PayoffDelay = &e.PayoffDelay
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

type moments struct {
	n        int
	mean, m2 float64
	min, max float64
}

// momentsOf takes two passes, for precision.
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

// deviation returns the standard deviation of a run; nil for a single run.
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
