package lab

import (
	"math/rand/v2"
	"time"
)

// Scenarios in which payoffs follow the clock: 20 items, an impression a minute, and payoffs 0 or 1, half a day late by default.
const (
	// Daypart gives each item a quarter of the day, in which its mean is uniform on [0.06, 0.19]; else it is 0.02.
	Daypart Scenario = "daypart"
	// DaypartSoon is Daypart with payoffs 10 minutes late.
	DaypartSoon Scenario = "daypart:10m"
	// Weekend gives half of the items Monday to Friday, the others the weekend; means uniform on [0.06, 0.15], two days late.
	Weekend Scenario = "weekend"
	// Hours gives each item a mean for each hour of the day, uniform on [0, 0.17].
	Hours Scenario = "hours"
)

type rhythm struct {
	days  int           // T
	late  time.Duration // of payoffs
	level func(time.Time) int
	// means draws an item's means by level.
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

// owned returns the means of an item that pays at one level.
func owned(r *rand.Rand, own, levels int, most float64) []float64 {
	means := make([]float64, levels)
	for k := range means {
		means[k] = 0.02
	}
	means[own] = 0.06 + most*r.Float64()
	return means
}

// newRhythm draws all items' means by level. Their levels are independent of utilities.
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

// turn sets the present means.
func (w *world) turn(x *rhythm) { w.now = w.means[x.level(time.UnixMilli(w.clock.at(w.t)).UTC())] }
