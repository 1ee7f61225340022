package lab

import "time"

// clock is the laboratory's only time: the milliseconds of event time from one impression to the next. Impression t is at
// t times as much. Decisions, payoffs and the ends of waits are told at the times of impressions, and learners that do
// something on a schedule, or by age, know no other time.
type clock int64

const (
	hundredASecond  clock = 10
	everySecond     clock = 1000
	everyTenSeconds clock = 10_000
	everyMinute     clock = 60_000
	tenADay         clock = 8_640_000
)

// at is when impression t is, in milliseconds of event time.
func (c clock) at(t int64) int64 { return t * int64(c) }

// span is how long so many impressions take.
func (c clock) span(impressions int64) time.Duration {
	return time.Duration(impressions) * time.Duration(c) * time.Millisecond
}

// in is how many impressions go by in d.
func (c clock) in(d time.Duration) int64 { return int64(d / (time.Duration(c) * time.Millisecond)) }

const day = 24 * time.Hour
