package lab

import "time"

// clock is the event time between impressions in milliseconds; feedback arrives, and schedules run, at impressions only.
type clock int64

const (
	hundredASecond  clock = 10
	everySecond     clock = 1000
	everyTenSeconds clock = 10_000
	everyMinute     clock = 60_000
	tenADay         clock = 8_640_000
)

func (c clock) at(t int64) int64 { return t * int64(c) }

func (c clock) span(impressions int64) time.Duration {
	return time.Duration(impressions) * time.Duration(c) * time.Millisecond
}

func (c clock) in(d time.Duration) int64 { return int64(d / (time.Duration(c) * time.Millisecond)) }

const day = 24 * time.Hour
