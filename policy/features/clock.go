package features

import (
	"fmt"
	"time"
)

// Clock says which turns of the clock items may pay differently at.
type Clock struct {
	Hour, Weekday bool
	Zone          *time.Location // nil: UTC
}

const (
	hoursADay = 24
	daysAWeek = 7
	// MaxLevels is how many levels a clock has at the most.
	MaxLevels = hoursADay * daysAWeek
)

// On returns whether there are any.
func (c *Clock) On() bool { return c.Hour || c.Weekday }

// Levels is how many levels the clock has: the hours of a day, the days of a week, the hours of a week; 1 where nothing is declared.
func (c *Clock) Levels() int {
	n := 1
	if c.Hour {
		n *= hoursADay
	}
	if c.Weekday {
		n *= daysAWeek
	}
	return n
}

// Period is after how many milliseconds the levels begin again, but for changes of the zone's offset; 0 where nothing is declared.
func (c *Clock) Period() int64 {
	const day = hoursADay * 3_600_000
	switch {
	case c.Weekday:
		return daysAWeek * day
	case c.Hour:
		return day
	}
	return 0
}

// level is that of a time in milliseconds since 1970.
func (c *Clock) level(at int64) (n int) {
	if !c.On() {
		return 0
	}
	t := time.UnixMilli(at).UTC()
	if c.Zone != nil {
		t = t.In(c.Zone)
	}
	if c.Weekday {
		n = (int(t.Weekday()) + daysAWeek - 1) % daysAWeek // Monday is 0
	}
	if c.Hour {
		n = n*hoursADay + t.Hour()
	}
	return n
}

// Grouping takes levels of the clock together.
type Grouping struct {
	Of     []int32 // by level: its group, from 0 on
	Groups int32
	// Hours and Days are into how many parts it divides the day and the week; 1 where it does not.
	Hours, Days int
}

// Groupings are those that a learner chooses among, the first of which takes all levels together: parts of the day of 24, 6, 3 hours and
// one, by week, by weekday and weekend, or by day.
func (c *Clock) Groupings() (all []Grouping) {
	hours, days := []int{hoursADay}, []func(int) int{func(int) int { return 0 }}
	if c.Hour {
		hours = append(hours, 6, 3, 1)
	}
	if c.Weekday {
		days = append(days, func(day int) int { return day / 5 }, func(day int) int { return day })
	}
	for _, day := range days {
		for _, width := range hours {
			g := Grouping{Hours: hoursADay / width, Days: day(daysAWeek-1) + 1}
			g.Groups = int32(g.Days * g.Hours)
			for level := range c.Levels() {
				d, h := level, 0
				if c.Hour {
					d, h = level/hoursADay, level%hoursADay
				}
				g.Of = append(g.Of, int32(day(d)*g.Hours+h/width))
			}
			all = append(all, g)
		}
	}
	return all
}

// Name returns the name of a group, such as "Saturday and Sunday, 12–18 h"; "" where there is one group alone.
func (g *Grouping) Name(group int32) (name string) {
	days := [][]string{1: {""}, 2: {"Monday to Friday", "Saturday and Sunday"}, 7: {"Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"}}
	name = days[g.Days][int(group)/g.Hours]
	if g.Hours == 1 {
		return name
	}
	if name != "" {
		name += ", "
	}
	width := hoursADay / g.Hours
	from := int(group) % g.Hours * width
	return name + fmt.Sprintf("%d–%d h", from, from+width)
}

// Spread divides the time from start to before end, in milliseconds since 1970, among levels: in parts of about an hour, and of the last
// period alone where it is longer. Shares add up to 1.
func (c *Clock) Spread(start, end int64, do func(level int32, share float64)) {
	const hour = 3_600_000
	start = max(start, end-max(hour, c.Period()))
	parts := max(1, (end-start)/hour)
	for k := range parts {
		do(int32(c.level(start+(2*k+1)*(end-start)/(2*parts))), 1/float64(parts))
	}
}
