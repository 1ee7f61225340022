package lab

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/ranker-worker/ranker-worker/config"
	"github.com/ranker-worker/ranker-worker/internal/learners"
)

// Numbers describe a site: its users select an item in each impression, and a share of the selections converts, after some time. A
// conversion pays 1, and nothing else comes. Items convert at 0.2 to 1.8 times the mean rate, whatever their utility.
type Numbers struct {
	Conversion float64       // mean share of selections that convert, in (0, 0.5]
	Delay      time.Duration // mean time to the conversion; times are geometric
	PerDay     int64         // impressions
	Candidates int
	Days       int
}

// ofNumbers is the scenario of an Experiment with Numbers. It is not in Scenarios.
var ofNumbers = &definition{name: "numbers", about: "a site with given numbers", silent: true,
	draw: func(w *World, items int, r *rand.Rand) [][]float64 {
		all := make([]float64, items)
		for i := range all {
			all[i] = w.conversion * (0.2 + 1.6*r.Float64())
		}
		return [][]float64{all}
	}}

// Experiment returns the experiment of a site with a learner of the configuration, beside ranking by utility. It fails if the learner
// depends on features or segments.
func (n *Numbers) Experiment(l *config.Learner, runs int, seed uint64) (*Experiment, []*Combination, error) {
	if l.Context.On() {
		return nil, nil, fmt.Errorf("learner %q has a context, and these numbers describe none", l.Name)
	}
	impressions := func(d time.Duration) int64 { return int64(math.Round(d.Hours() / 24 * float64(n.PerDay))) }
	e := &Experiment{Scenario: ofNumbers.name, Numbers: n, Items: n.Candidates, Horizon: int64(n.Days) * n.PerDay, Runs: runs, Seed: seed}
	e.PayoffHorizon = max(1, min(impressions(l.PayoffHorizon), e.Horizon+1))
	late := impressions(n.Delay)
	e.PayoffDelay = PayoffDelay{Mean: late, Random: late > 0}
	own, utility := *l, config.DefaultLearner("utility", config.Stochastic)
	utility.Policy = "utility"
	var all []*Combination
	for _, one := range []config.Learner{own, utility} {
		one.PayoffRange, one.Aggregate = config.Range{Min: 0, Max: 1}, config.First
		if one.OnExpiry.Default != nil {
			one.OnExpiry.Default = new(float64)
		}
		c := &Combination{Learner: one}
		var err error
		if c.new, err = learners.New(&c.Learner); err != nil {
			return nil, nil, err
		}
		all = append(all, c)
	}
	return e, all, n.check(e)
}

// check checks an experiment of n. Its times in impressions are of the configuration, and too long with too many impressions a day.
func (n *Numbers) check(e *Experiment) error {
	err := e.Check()
	if fault := (*config.SettingError)(nil); errors.As(err, &fault) && (fault.Key == "payoff-horizon" || fault.Key == "payoff-delay") {
		return &config.SettingError{Key: "impressions-per-day", Err: fmt.Errorf("%s in impressions: %w", fault.Key, fault.Err)}
	}
	return err
}

// PaysOff is the time from which a learner has earned more than ranking by utility.
type PaysOff struct {
	// InHalf and InMost are the days from which the learner has earned more than ranking by utility: in half of the runs, and in nine of ten.
	// Null: not within all days. In half of the runs this is often soon, since utility happens to prefer bad payers.
	InHalf *int `json:"days_in_half"`
	InMost *int `json:"days_in_nine_of_ten"`
	// Gain is how much more it earns over all days, in percent of the payoff of ranking by utility, and GainSE its standard error.
	Gain   float64  `json:"gain_percent"`
	GainSE *float64 `json:"gain_percent_stderr"`
	Within int      `json:"within_days"`
	Runs   int      `json:"runs"`
}

// PaysOff compares the results of the two combinations of Numbers.Experiment.
func (n *Numbers) PaysOff(own, utility *Result) PaysOff {
	p := PaysOff{Within: n.Days, Runs: len(own.runs)}
	never := n.Days + 1
	var days []int
	for k := range own.runs {
		ours, theirs := own.runs[k].regret, utility.runs[k].regret
		day := never
		for d := len(ours); d > 0 && ours[d-1] < theirs[d-1]; d-- {
			day = d
		}
		days = append(days, day)
	}
	slices.Sort(days)
	at := func(share float64) *int {
		if d := days[int(math.Ceil(share*float64(len(days))))-1]; d < never {
			return &d
		}
		return nil
	}
	p.InHalf, p.InMost = at(0.5), at(0.9)
	runs := make([]played, len(own.runs))
	for k := range runs {
		runs[k].payoff = 100 * (own.runs[k].payoff/utility.runs[k].payoff - 1)
	}
	m := momentsOf(runs, func(x *played) float64 { return x.payoff })
	p.Gain, p.GainSE = m.mean, m.stderr()
	return p
}
