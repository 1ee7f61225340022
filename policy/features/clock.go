package features

import (
	"fmt"
	"time"
)

// Clock declares by which levels of the clock items may pay differently.
type Clock struct {
	Hour, Weekday bool
	Zone          *time.Location // nil: UTC
}

const (
	hoursADay = 24
	daysAWeek = 7
	// MaxLevels is the largest number of levels.
	MaxLevels = hoursADay * daysAWeek
)

// On returns whether there are levels.
func (c *Clock) On() bool { return c.Hour || c.Weekday }

// Levels returns their number: hours of a day, days of a week, or hours of a week; 1 if nothing is declared.
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

// Period returns the time in milliseconds after which levels repeat, except for changes of the zone's offset; 0 if nothing is declared.
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

// level returns the level of a Unix time in milliseconds.
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

// Grouping pools levels of the clock.
type Grouping struct {
	Of     []int32 // by level: its group, from 0 on
	Groups int32
	// Hours and Days are the numbers of parts of the day and of the week; 1 if undivided.
	Hours, Days int
}

// Groupings returns those to choose from, by parts of the day and by days or weekend. The first pools all levels.
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

// Name returns a group's name, such as "Saturday and Sunday, 12–18 h"; "" for a single group.
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

// Spread divides the time in [start, end), in Unix milliseconds, among levels in parts of about an hour; if it is longer than a
// period, the last period only. Shares sum to 1.
func (c *Clock) Spread(start, end int64, do func(level int32, share float64)) {
	const hour = 3_600_000
	start = max(start, end-max(hour, c.Period()))
	parts := max(1, (end-start)/hour)
	for k := range parts {
		do(int32(c.level(start+(2*k+1)*(end-start)/(2*parts))), 1/float64(parts))
	}
}
