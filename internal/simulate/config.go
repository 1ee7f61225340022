package simulate

import (
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/ranker-worker/ranker-worker/policy/admissible"
)

// ErrConfig is wrapped by errors about a configuration.
var ErrConfig = errors.New("faulty configuration")

// Payoffs is a distribution of payoffs around an item's mean.
type Payoffs uint8

const (
	// Bernoulli payoffs are 1 with the mean as probability, else 0.
	Bernoulli Payoffs = iota
	// Gaussian payoffs have standard deviation Config.Noise, clipped to [0,1]. Impression.Means are those after clipping.
	Gaussian
)

// Config describes a population.
type Config struct {
	Seed       uint64
	Items      int // of the catalogue
	Candidates int // per impression, at most Items

	// Alignment is the correlation of items' utilities with their mean payoffs, in [-1,1]: at −1 users like best the items that pay least.
	Alignment float64
	// Taste is the standard deviation of utilities between impressions, relative to that over the catalogue; at 0 all users agree.
	Taste float64

	// SwitchAt is the first impression with other mean payoffs, aligned with utilities as before; 0 for never.
	SwitchAt int

	Payoffs Payoffs
	Noise   float64 // Gaussian only: a payoff's standard deviation, above 0
	Windows *admissible.Windows

	Start    int64         // time of impression 0, milliseconds since the Unix epoch
	Interval time.Duration // between impressions

	// A selection follows its impression after 1 s to SelectionDelay, uniformly; its payoff follows after a delay whose logarithm
	// is uniform between MinDelay and MaxDelay.
	SelectionDelay     time.Duration
	MinDelay, MaxDelay time.Duration
	// Horizon is the learner's payoff horizon, from the impression; late payoffs come after it.
	Horizon time.Duration

	// Shares of impressions, each in [0,1], the first three together at most 1: without a selection; with a selection never paid;
	// with a payoff after the horizon. Of payoffs in time, Duplicates arrive again within an hour. Orphans is the number of payoffs
	// for unknown impressions, relative to impressions.
	Unselected, Missing, Late, Duplicates, Orphans float64
}

// Defaults are the demo's: a small misaligned catalogue, short windows, and payoffs after minutes to two weeks.
func Defaults(seed uint64) Config {
	windows, err := admissible.Geometric(0.7, 20)
	if err != nil {
		panic(err) // constants
	}
	return Config{
		Seed: seed, Items: 50, Candidates: 10, Alignment: -0.6, Taste: 0.3,
		Payoffs: Bernoulli, Noise: 0.2, Windows: windows,
		Start: 1_767_225_600_000, Interval: 5 * time.Minute, // from the first of January 2026 on
		SelectionDelay: 5 * time.Minute, MinDelay: 5 * time.Minute, MaxDelay: 14 * 24 * time.Hour,
		Horizon:    30 * 24 * time.Hour,
		Unselected: 0.02, Missing: 0.05, Late: 0.005, Duplicates: 0.01, Orphans: 0.002,
	}
}

func (c Config) validate() error {
	var faults []error
	require := func(ok bool, format string, args ...any) {
		if !ok {
			faults = append(faults, fmt.Errorf(format+": %w", append(args, ErrConfig)...))
		}
	}
	require(c.Items >= 1, "%d items", c.Items)
	require(c.Candidates >= 1 && c.Candidates <= c.Items, "%d candidates of %d items", c.Candidates, c.Items)
	require(c.SwitchAt >= 0, "payoffs that switch at impression %d", c.SwitchAt)
	require(c.Alignment >= -1 && c.Alignment <= 1, "alignment %g", c.Alignment)
	require(c.Taste >= 0 && !math.IsInf(c.Taste, 0), "taste %g", c.Taste)
	require(c.Payoffs <= Gaussian, "payoffs of kind %d", c.Payoffs)
	require(c.Payoffs != Gaussian || c.Noise > 0 && !math.IsInf(c.Noise, 0), "noise %g", c.Noise)
	require(c.Windows != nil, "no windows")
	require(c.Interval >= time.Millisecond, "interval %v", c.Interval)
	require(c.SelectionDelay >= time.Second, "selection delay %v, of at least 1 s,", c.SelectionDelay)
	require(c.MinDelay >= time.Millisecond && c.MinDelay <= c.MaxDelay, "delays from %v to %v", c.MinDelay, c.MaxDelay)
	require(c.SelectionDelay+c.MaxDelay <= c.Horizon, "payoffs up to %v after the impression, with a horizon of %v",
		c.SelectionDelay+c.MaxDelay, c.Horizon)
	for name, share := range map[string]float64{"unselected": c.Unselected, "missing": c.Missing, "late": c.Late,
		"duplicates": c.Duplicates, "orphans": c.Orphans} {
		require(share >= 0 && share <= 1, "a share %s of %g", name, share)
	}
	require(c.Unselected+c.Missing+c.Late <= 1, "shares of unselected, missing and late of together %g",
		c.Unselected+c.Missing+c.Late)
	return errors.Join(faults...)
}
