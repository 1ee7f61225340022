package lab

import (
	"math/rand/v2"
	"time"
)

// ofTime are scenarios in which payoffs follow the clock, or items' age: 20 items, an impression a minute, and payoffs 0 or 1.
var ofTime = []*definition{
	daypart("daypart", "20 items, an impression a minute; each has its quarter of the day; payoffs 12 hours late"),
	daypart("daypart:10m", "the same; 10 minutes late", func(d *definition) { d.late = everyMinute.in(10 * time.Minute) }),
	daypart("weekend", "the same; items of the week and of the weekend, payoffs two days late", func(d *definition) {
		d.impressions, d.late = everyMinute.in(56*day), everyMinute.in(2*day)
		d.level, d.draw = weekend, drawByLevel(func(r *rand.Rand, item int) []float64 { return owned(r, item%2, 2, 0.09) })
	}),
	daypart("hours", "the same; each pays differently in each hour of the day; 12 hours late", func(d *definition) {
		d.level, d.draw = hour, drawByLevel(func(r *rand.Rand, _ int) (means []float64) {
			for range 24 {
				means = append(means, 0.17*r.Float64())
			}
			return means
		})
	}),
	{name: "news", about: "20 items at a time, alive for six hours, of whose interest half is left every two; 30 minutes late",
		items: 20, impressions: everyMinute.in(30 * day), late: everyMinute.in(30 * time.Minute), clock: everyMinute,
		fewer: true, news: true, draw: drawNews},
}

var daypart = family(func() *definition {
	return &definition{items: 20, impressions: everyMinute.in(90 * day), late: everyMinute.in(12 * time.Hour), clock: everyMinute, level: quarter,
		draw: drawByLevel(func(r *rand.Rand, item int) []float64 { return owned(r, item%4, 4, 0.13) })}
})

// owned returns the means of an item that pays at one level.
func owned(r *rand.Rand, own, levels int, most float64) []float64 {
	means := make([]float64, levels)
	for k := range means {
		means[k] = 0.02
	}
	means[own] = 0.06 + most*r.Float64()
	return means
}

// drawByLevel draws all items' means by level. Their levels are independent of utilities.
func drawByLevel(means func(r *rand.Rand, item int) []float64) func(w *World, items int, r *rand.Rand) [][]float64 {
	return func(_ *World, items int, r *rand.Rand) (byLevel [][]float64) {
		for item, k := range r.Perm(items) {
			for level, mean := range means(r, k) {
				if level == len(byLevel) {
					byLevel = append(byLevel, make([]float64, items))
				}
				byLevel[level][item] = mean
			}
		}
		return byLevel
	}
}

// time is the event time of the present impression.
func (w *World) time() time.Time { return time.UnixMilli(w.clock.at(w.t)).UTC() }

func quarter(w *World) int { return w.time().Hour() / 6 }
func hour(w *World) int    { return w.time().Hour() }

func weekend(w *World) int {
	if d := w.time().Weekday(); d == time.Saturday || d == time.Sunday {
		return 1
	}
	return 0
}
