package faults

import (
	"context"
	"fmt"
	"time"
)

// Measurement is a value measured under a fault, with its aim.
type Measurement struct {
	What  string
	Found string
	Aim   string
	Met   bool
}

var measures = []struct {
	name string
	take func(context.Context, *trial) []Measurement // a script
}{
	{"hand-over", handOver}, {"redis slow", slowRedis}, {"redis away for 30 s", redisAwayShort}, {"redis away for minutes", redisAwayLong},
	{"overload", overload}, {"storm of payoffs", payoffStorm}, {"storm of impressions", impressionStorm},
}

// Measure takes the measures with matching names in turn, each with a group of its own on an otherwise idle cluster.
func (c *Cluster) Measure(ctx context.Context, seed uint64, match func(name string) bool, say func(format string, args ...any)) (all []Measurement, err error) {
	for _, m := range measures {
		if !match(m.name) {
			continue
		}
		var found []Measurement
		if err := script(ctx, func() { found = c.trial(ctx, seed, m.take) }); err != nil {
			return all, fmt.Errorf("%s: %w", m.name, err)
		}
		for _, f := range found {
			say("%-70s %s (aim: %s)", f.What, f.Found, f.Aim)
		}
		all = append(all, found...)
	}
	return all, nil
}

type trial struct {
	*Group
	watch *Watch
}

func (c *Cluster) trial(ctx context.Context, seed uint64, take func(context.Context, *trial) []Measurement) []Measurement {
	g := get(c.NewGroup(ctx, fmt.Sprintf("trial-%x-%d", seed, time.Now().UnixMilli()), Settings{Partitions: 4, Workers: 2, Seed: seed,
		Rate: 800, Tidy: true, Learners: "\n  feed: {payoffs: stochastic, policy: elimination}\n"}))
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	t := &trial{g, get(g.Watch(ctx))}
	defer undo(g.play(ctx))
	defer func() { _ = c.Heal(context.WithoutCancel(ctx)) }()
	try(g.startAll(ctx))
	t.steady(ctx)
	return take(ctx, t)
}

// steady waits until every partition ranks new impressions, and a little longer.
func (t *trial) steady(ctx context.Context) {
	now := time.Now()
	try(until(ctx, time.Minute, "all partitions rank", func() (bool, error) { return t.watch.Resumed(now), nil }))
	pause(ctx, 3*time.Second)
}

// handOver measures the pause in which a partition has no rankings, after a kill and at a drain.
func handOver(ctx context.Context, t *trial) []Measurement {
	var all []Measurement
	for _, c := range []struct {
		what string
		end  func(*Worker) error
		most time.Duration
	}{
		{"pause of a partition after kill -9 of its owner", (*Worker).Kill, t.c.Session + 2*time.Second},
		{"pause of a partition when its owner drains", (*Worker).Stop, time.Second},
	} {
		w := t.Slots[0]
		from := time.Now()
		try(c.end(w))
		t.steady(ctx)
		found := t.watch.Pause(from)
		all = append(all, Measurement{What: c.what, Found: found.Round(time.Millisecond).String(),
			Aim: fmt.Sprintf("≤ %v (the group's session timeout is %v)", c.most, t.c.Session), Met: found <= c.most})
		try(w.Start())
		try(w.AwaitReady(ctx))
		t.steady(ctx)
	}
	return all
}

const measuredFor = 20 * time.Second

// p99 measures how long impressions wait, once the present state has lasted a while.
func (t *trial) p99(ctx context.Context) time.Duration {
	pause(ctx, 3*time.Second)
	from := time.Now()
	pause(ctx, measuredFor)
	d, n, err := t.watch.Quantile(0.99, from, time.Now())
	try(err)
	t.c.say("p99 of %d impressions: %v", n, d)
	return d
}

// slowRedis compares how long impressions wait with Redis at 200 ms a call and without.
func slowRedis(ctx context.Context, t *trial) []Measurement {
	// Before and after, since the machine's load varies.
	before := t.p99(ctx)
	t.c.Redis.proxies.Slow(true)
	slow := t.p99(ctx)
	t.c.Redis.proxies.Slow(false)
	after := t.p99(ctx)
	calm := max(before, after, time.Millisecond)
	return []Measurement{{What: "p99 from impression to ranking, Redis at 200 ms a call",
		Found: fmt.Sprintf("%v, undisturbed %v and %v", slow, before, after), Aim: "< 2 × undisturbed", Met: slow < 2*calm}}
}

// redisAwayShort: rankings go on while Redis is away for half a minute.
func redisAwayShort(ctx context.Context, t *trial) []Measurement {
	calm := t.watch.Count(time.Now().Add(-2*time.Second), time.Now())
	t.c.Redis.proxies.Refuse(true)
	from := time.Now()
	pause(ctx, 30*time.Second)
	n := t.watch.Count(from.Add(20*time.Second), time.Now())
	t.c.Redis.proxies.Refuse(false)
	return []Measurement{{What: "rankings in the last 10 s of 30 s without Redis", Found: fmt.Sprint(n),
		Aim: fmt.Sprintf("about %d", 5*calm), Met: n > 4*calm}}
}

// redisAwayLong: after a minute without Redis no more input is read, and it goes on by itself.
func redisAwayLong(ctx context.Context, t *trial) []Measurement {
	t.c.Redis.proxies.Refuse(true)
	from := time.Now()
	full := t.Slots[0].AwaitUnready(ctx, 2*time.Minute, "waits for the store to take")
	stopped := time.Since(from)
	if full == nil {
		pause(ctx, 10*time.Second)
	}
	now := time.Now()
	n := t.watch.Count(now.Add(-3*time.Second), now)
	t.c.Redis.proxies.Refuse(false)
	back := time.Now()
	again := until(ctx, 2*time.Minute, "all partitions rank", func() (bool, error) { return t.watch.Resumed(back), nil })
	return []Measurement{
		{What: "Redis away: input stops, and /readyz says why, after", Found: stopped.Round(time.Second).String(),
			Aim: "60 s or 64 MiB, then no ranking", Met: full == nil && n == 0},
		{What: "Redis back: impressions of now are ranked, the backlog worked off, after",
			Found: time.Since(back).Round(100 * time.Millisecond).String(), Aim: "by itself", Met: again == nil},
	}
}

// overload sends at full speed to workers that were away and are behind: their memory must not grow for it.
func overload(ctx context.Context, t *trial) []Measurement {
	for _, w := range t.Slots {
		try(w.Stop())
	}
	t.Traffic.rate.Store(40_000)
	pause(ctx, 30*time.Second)
	for _, w := range t.Slots {
		try(w.Start())
	}
	peak := func(d time.Duration) (most int64) {
		for end := time.Now().Add(d); time.Now().Before(end) && ctx.Err() == nil; pause(ctx, 200*time.Millisecond) {
			for _, w := range t.Slots {
				most = max(most, w.Resident())
			}
		}
		return most
	}
	lag := func() int64 {
		n, err := t.Lag(ctx)
		if err != nil {
			t.c.say("lag: %v", err)
		}
		return n
	}
	pause(ctx, 10*time.Second)
	before, first := lag(), peak(30*time.Second)
	middle, last := lag(), peak(30*time.Second)
	return []Measurement{{What: "overload: most memory of a worker, 10 to 40 s and 40 to 70 s after the start",
		Found: fmt.Sprintf("%d and %d MiB, with %d, %d, %d records waiting", first>>20, last>>20, before, middle, lag()),
		Aim:   "does not grow with the lag", Met: float64(last) < 1.25*float64(first)}}
}
