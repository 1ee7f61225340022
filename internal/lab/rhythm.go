package lab

import (
	"math/rand/v2"
	"time"
)

// The scenarios in which what returns with the clock decides how items pay. They have 20 items, an impression a minute, and payoffs of 0
// or 1 that are half a day late unless it is said.
const (
	// Daypart gives each item a quarter of the day, in which its mean is uniform on [0.06, 0.19]; else it is 0.02.
	Daypart Scenario = "daypart"
	// DaypartSoon is Daypart with payoffs 10 minutes late.
	DaypartSoon Scenario = "daypart:10m"
	// Weekend gives half of the items the days from Monday to Friday, and the others Saturday and Sunday, with means uniform on [0.06, 0.15].
	// Payoffs are two days late.
	Weekend Scenario = "weekend"
	// Hours gives each item another mean in each hour of the day, uniform on [0, 0.17].
	Hours Scenario = "hours"
)

// rhythm is what a scenario of these is made of.
type rhythm struct {
	days  int           // T
	late  time.Duration // of payoffs
	level func(time.Time) int
	// means draws an item's, by level.
	means func(*rand.Rand, int) []float64
}

const rhythmItems = 20

var rhythms = func() map[Scenario]*rhythm {
	daypart := rhythm{days: 90, late: 12 * time.Hour, level: func(t time.Time) int { return t.Hour() / 6 },
		means: func(r *rand.Rand, item int) []float64 { return owned(r, item%4, 4, 0.13) }}
	soon := daypart
	soon.late = 10 * time.Minute
	return map[Scenario]*rhythm{
		Daypart:     &daypart,
		DaypartSoon: &soon,
		Weekend: {days: 56, late: 48 * time.Hour, level: func(t time.Time) int {
			if d := t.Weekday(); d == time.Saturday || d == time.Sunday {
				return 1
			}
			return 0
		}, means: func(r *rand.Rand, item int) []float64 { return owned(r, item%2, 2, 0.09) }},
		Hours: {days: 90, late: 12 * time.Hour, level: time.Time.Hour, means: func(r *rand.Rand, _ int) (means []float64) {
			for range 24 {
				means = append(means, 0.17*r.Float64())
			}
			return means
		}},
	}
}()

// owned are the means of an item that pays at one level of so many.
func owned(r *rand.Rand, own, levels int, most float64) []float64 {
	means := make([]float64, levels)
	for k := range means {
		means[k] = 0.02
	}
	means[own] = 0.06 + most*r.Float64()
	return means
}

// newRhythm draws the means of all items by level. Which items have which level is random, and so has nothing to do with utilities.
func newRhythm(x *rhythm, items int, draws *stream) (byLevel [][]float64) {
	r := rand.New(draws)
	for item, k := range r.Perm(items) {
		for level, mean := range x.means(r, k) {
			if level == len(byLevel) {
				byLevel = append(byLevel, make([]float64, items))
			}
			byLevel[level][item] = mean
		}
	}
	return byLevel
}

// turn goes to the means of the impression at hand.
func (w *world) turn(x *rhythm) { w.now = w.means[x.level(time.UnixMilli(w.clock.at(w.t)).UTC())] }
