package simulate

import (
	"errors"
	"fmt"
	"math"
	"time"
)

// Payoffs is how a payoff is drawn around an item's mean.
type Payoffs uint8

const (
	// Bernoulli payoffs are 1 with the item's mean as probability, else 0.
	Bernoulli Payoffs = iota
	// Gaussian payoffs have the item's mean and Config.Noise as standard deviation, clipped to [0,1]. Clipping moves
	// the mean; Impression.Means are those after clipping.
	Gaussian
)

// Config describes a population. Zero values of Items, Candidates, Interval, Horizon, the delays and Windows stand for
// the defaults of Defaults; shares of zero are zeros.
type Config struct {
	Seed       uint64
	Items      int // of the catalogue
	Candidates int // per impression, at most Items

	// Alignment is the correlation of an item's utility with its mean payoff, in [-1,1]: 1 is a world where people
	// like what pays, −1 one where they like what doesn't.
	Alignment float64
	// Taste is the standard deviation by which utilities differ from one impression to the next, in units of their
	// standard deviation over the catalogue: with 0, every user likes the same.
	Taste float64

	// SwitchAt is the number of the first impression from which on items pay by another draw of the catalogue's means,
	// aligned with utilities just as before; 0: they never do.
	SwitchAt int

	Payoffs Payoffs
	Noise   float64 // Gaussian only: standard deviation of a payoff, above 0
	Windows Windows

	Start    int64         // time of impression 0, milliseconds since the Unix epoch
	Interval time.Duration // between one impression and the next

	// A selection follows its impression after up to SelectionDelay (uniform, at least 1 s); its payoff follows the
	// selection after a delay whose logarithm is uniform between MinDelay and MaxDelay: as many between one hour and
	// two as between one week and two.
	SelectionDelay     time.Duration
	MinDelay, MaxDelay time.Duration
	// Horizon is the payoff horizon of the learner, counted from the impression: late payoffs arrive after it.
	Horizon time.Duration

	// Shares of the impressions, each in [0,1], together of the first three at most 1: with nothing selected; with a
	// selection whose payoff never comes; with a payoff that comes after the horizon. Of the payoffs that come in
	// time, Duplicates arrive a second time within the hour. Orphans is the number of payoffs for unknown impressions, relative to
	// that of the impressions.
	Unselected, Missing, Late, Duplicates, Orphans float64
}

// Defaults are those of the demo: a small misaligned catalogue, windows of the first few entries, payoffs that come
// after minutes to two weeks.
func Defaults(seed uint64) Config {
	windows, err := Geometric(0.7, 20)
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

// withDefaults fills what is zero and may not be.
func (c Config) withDefaults() Config {
	d := Defaults(c.Seed)
	setDefault(&c.Items, d.Items)
	setDefault(&c.Candidates, min(d.Candidates, c.Items))
	setDefault(&c.Interval, d.Interval)
	setDefault(&c.SelectionDelay, d.SelectionDelay)
	setDefault(&c.MinDelay, d.MinDelay)
	setDefault(&c.MaxDelay, max(d.MaxDelay, c.MinDelay))
	setDefault(&c.Horizon, max(d.Horizon, c.SelectionDelay+c.MaxDelay))
	if c.Windows.upTo == nil {
		c.Windows = d.Windows
	}
	return c
}

func setDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

// validate reports every fault.
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
