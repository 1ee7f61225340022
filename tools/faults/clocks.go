package faults

import (
	"context"
	"fmt"
	"strconv"
	"time"
)

// clockBound is the difference from Kafka's clock above which a worker reports it and lets nothing expire.
const clockBound = 5 * time.Minute

// comparing is the worker's message then.
const comparing = "comparing the worker's clock with Kafka's"

// clockFaults make workers' clocks wrong for a while.
func clockFaults() []Fault {
	const hour, years = time.Hour, 10 * 365 * 24 * time.Hour
	one := func(kind string, from, to time.Duration) Fault {
		return Fault{Kind: kind, Uses: aWorker, Takes: 10 * time.Second,
			Inject: onWorker(func(ctx context.Context, s *Scene, w *Worker) { s.wrong(ctx, from, to, s.rng.IntN(2) == 0, w) })}
	}
	all := func(kind string, from, to time.Duration) Fault {
		return Fault{Kind: kind, Uses: allWorkers, Also: []Resource{aWorker}, Takes: 10 * time.Second,
			Inject: func(ctx context.Context, s *Scene) { s.wrong(ctx, from, to, false, s.Slots...) }}
	}
	return []Fault{
		one("clock seconds ahead", time.Second, clockBound-time.Minute), one("clock seconds behind", -time.Second, time.Minute-clockBound),
		one("clock an hour ahead", hour, 2*hour), one("clock an hour behind", -hour, -2*hour),
		one("clock years ahead", years, 2*years), one("clock years behind", -years, -2*years),
		all("clocks of all workers ahead of Kafka's", hour, years), all("clocks of all workers behind Kafka's", -hour, -years),
	}
}

// wrong lets workers' clocks jump by one error, and back. With restart, one is wrong from the worker's start. Among workers that are all wrong,
// the brokers' clocks look wrong.
func (s *Scene) wrong(ctx context.Context, from, to time.Duration, restart bool, workers ...*Worker) {
	by := from + time.Duration(s.rng.Float64()*float64(to-from))
	for _, w := range workers {
		defer undo(func() error { return w.SetClock(0) })
		if restart && !s.quick {
			try(w.Kill())
		}
		try(w.SetClock(by))
		if !w.Running() {
			try(w.Start())
		}
	}
	// Some dead letters meanwhile: their topics accept no record more than a minute from the broker's time.
	s.upset(ctx, "malformed records", 50)
	if s.alone && by.Abs() > clockBound {
		for _, w := range workers {
			expect(ctx, w.AwaitReported(ctx, comparing, comparing))
		}
	}
	pause(ctx, s.between(3*time.Second, 8*time.Second))
	for _, w := range workers {
		try(w.SetClock(0))
	}
	for _, w := range workers {
		if s.alone {
			expect(ctx, w.AwaitReady(ctx))
		}
	}
}

// watchTime checks that event time is never ahead of Kafka's, which is this machine's, whatever workers' clocks say.
func (s *soak) watchTime(ctx context.Context) {
	every(ctx, time.Second, func() {
		metas, err := s.g.stored(ctx)
		if err != nil { // Redis is away
			return
		}
		for p, violation := range aheadOfTime(metas, time.Now()) {
			s.violate("partition %d: %s", p, violation)
		}
	})
}

// aheadOfTime returns the partitions whose event time is ahead.
func aheadOfTime(metas []map[string]string, now time.Time) map[int]string {
	all := map[int]string{}
	for p, meta := range metas {
		at, err := strconv.ParseInt(meta["watermark"], 10, 64)
		if ahead := at - now.UnixMilli(); err == nil && ahead > 0 {
			all[p] = fmt.Sprintf("event time is %d ms ahead of Kafka's", ahead)
		}
	}
	return all
}
