package faults

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"golang.org/x/sync/errgroup"

	"github.com/ranker-worker/ranker-worker/stream/event"
)

// enduring are learners that forget impressions, tombstones and parked
// records within two minutes, so that state and memory stop growing by then.
const enduring = `
  feed:  {payoffs: stochastic, policy: moss, default: true, payoff_horizon: 60s, selection_timeout: 20s}
`

// Settings of a run without faults at full speed.
const (
	fullSpeed    = 30_000 // impressions per second: more than two workers on two cores can take
	fullLag      = 200_000
	keptMillis   = "300000"   // records are deleted after 5 minutes
	segmentBytes = "16777216" // and whole segments at once
	sampleEvery  = time.Second
	rows         = 12
	mostGrowth   = 0.05             // of memory from the end of the warm-up to that of the run, see growth
	moveEvery    = 20 * time.Second // how long a third worker stays, and is away
)

type sample struct {
	at      time.Duration
	workers []int64 // resident bytes of each
	redis   int64   // bytes used
	read    int64   // records read
	lag     int64
}

// Endure runs two workers at full speed without faults, while a third comes and goes and partitions
// move. It reports whether the memory of the two and of Redis levels off (see growth), and the maximum,
// which one busy moment can raise. rate is in impressions per second; 0: more than can be taken.
func (c *Cluster) Endure(ctx context.Context, seed uint64, rate int, d time.Duration) (all []Measurement, err error) {
	err = script(ctx, func() {
		g := get(c.NewGroup(ctx, fmt.Sprintf("endure-%x", seed), Settings{Partitions: 4, Workers: 2, Seed: seed, Rate: cmp.Or(rate, fullSpeed), Learners: enduring}))
		for _, topic := range g.Topics {
			try(errors.Join(g.alter(ctx, topic, "retention.ms", keptMillis), g.alter(ctx, topic, "segment.bytes", segmentBytes)))
		}
		defer undo(g.play(ctx))
		try(g.startAll(ctx))
		running, stop := context.WithCancel(ctx)
		defer stop()
		moves := 0
		var beside errgroup.Group
		beside.Go(func() error { g.follow(running, fullLag); return nil })
		beside.Go(func() (err error) { moves, err = g.visit(running); return err })
		samples, err := g.sample(ctx, d)
		stop()
		try(errors.Join(err, beside.Wait()))
		try(g.Traffic.Hold(ctx))
		try(g.Settle(ctx, settlePatience))
		all = levels(samples, get(g.Account(ctx)), moves, g.restarted())
	})
	return all, err
}

// visit has one more worker come and go until ctx is done, and counts how often it had partitions.
func (g *Group) visit(ctx context.Context) (moves int, err error) {
	w, err := newWorker(g, len(g.Slots))
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, w.Kill()) }()
	for pause(ctx, moveEvery); ctx.Err() == nil; pause(ctx, moveEvery) {
		if err := w.Start(); err != nil {
			return moves, err
		}
		if err := w.AwaitReady(ctx); err != nil {
			if ctx.Err() != nil {
				break
			}
			return moves, err
		}
		moves++
		pause(ctx, moveEvery)
		if err := w.Stop(); err != nil {
			return moves, err
		}
	}
	return moves, nil
}

func (g *Group) sample(ctx context.Context, d time.Duration) (all []sample, err error) {
	began := time.Now()
	next := time.Duration(0)
	tick := time.NewTicker(sampleEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-tick.C:
		}
		at := time.Since(began)
		if at > d {
			return all, nil
		}
		s, err := g.look(ctx)
		if err != nil { // a leader can move when the machine is busy
			g.c.say("no sample: %v", err)
			continue
		}
		s.at = at
		all = append(all, s)
		if at >= next {
			next += d / rows
			g.c.say("%s", s.String())
		}
	}
}

func (g *Group) look(ctx context.Context) (s sample, err error) {
	for _, w := range g.Slots {
		s.workers = append(s.workers, w.Resident())
	}
	if s.redis, err = g.used(ctx); err != nil {
		return s, err
	}
	if s.lag, err = g.Lag(ctx); err != nil {
		return s, err
	}
	account, err := g.Account(ctx)
	for _, role := range roles {
		s.read += account[role+".read"]
	}
	return s, err
}

func (s *sample) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%11d records in, %7d waiting; Redis %4d MiB; workers", s.read, s.lag, s.redis>>20)
	for _, n := range s.workers {
		fmt.Fprintf(&b, " %4d", n>>20)
	}
	return b.String() + " MiB"
}

// used returns Redis' memory in bytes.
func (g *Group) used(ctx context.Context) (n int64, err error) {
	err = g.redis.use(func(c goredis.UniversalClient) error {
		info, err := c.InfoMap(ctx, "memory").Result()
		if err != nil {
			return fmt.Errorf("ask Redis for its memory: %w", err)
		}
		_, err = fmt.Sscan(info["Memory"]["used_memory"], &n)
		return err
	})
	return n, err
}

// restarted returns how often workers had to be started again.
func (g *Group) restarted() (n int) {
	for _, w := range g.Slots {
		n += w.started - 1
	}
	return n
}

// levels reports whether a run's memory has levelled off, and its input.
func levels(samples []sample, account map[string]int64, moves, restarts int) (all []Measurement) {
	if len(samples) < fewestSamples {
		return []Measurement{{What: "samples", Found: fmt.Sprint(len(samples)), Aim: fmt.Sprintf("at least %d: run longer", fewestSamples)}}
	}
	last := samples[len(samples)-1]
	level := func(what string, of func(*sample) int64) {
		var taken []int64
		for i := range samples {
			taken = append(taken, of(&samples[i]))
		}
		rest, grows := taken[len(taken)/warmUp:], growth(taken)
		all = append(all, Measurement{What: "memory of " + what + " after the warm-up",
			Found: fmt.Sprintf("median %.0f, most %d MiB; grows by %+.1f%%", medianOf(rest)/(1<<20), slices.Max(rest)>>20, 100*grows),
			Aim:   fmt.Sprintf("≤ %+.0f%% by the slope of its medians", 100*mostGrowth), Met: grows <= mostGrowth})
	}
	for i := range last.workers {
		level(fmt.Sprintf("worker %d", i), func(s *sample) int64 { return s.workers[i] })
	}
	level("Redis", func(s *sample) int64 { return s.redis })
	whole := true
	for t, role := range roles {
		whole = whole && recordsAccounted(account, event.Topic(t)) == account[role+".read"]
	}
	behind := slices.MaxFunc(samples, func(a, b sample) int { return int(a.lag - b.lag) }).lag
	return append(all,
		Measurement{What: "records in", Found: fmt.Sprintf("%d in %v, %.0f per second, at most %d waiting", last.read, last.at.Round(time.Second),
			float64(last.read)/last.at.Seconds(), behind), Aim: "as many as there is time for", Met: last.read > 0},
		Measurement{What: "account", Found: fmt.Sprintf("outcomes add up: %t", whole), Aim: "outcomes add up to the records read", Met: whole},
		Measurement{What: "partitions moved to another worker and back", Found: fmt.Sprintf("%d times", moves), Aim: "at least once", Met: moves > 0},
		Measurement{What: "workers started again", Found: fmt.Sprint(restarts), Aim: "0", Met: restarts == 0})
}

const (
	// the first 1/warmUp of a run fills caches and state
	warmUp = 4
	// The rest is divided into blocks. Each stands for its median, which excludes moments of other load, or before a garbage collection.
	blocks = 12
	// enough for blocks of one sample
	fewestSamples = blocks * warmUp / (warmUp - 1)
)

// growth returns the relative growth of an evenly sampled series from the end of its warm-up to its end. It is the slope by Theil and Sen
// as a share of the median: the median of the slopes between any two blocks. It tolerates up to 29% of outlying blocks. It is 0 for fewer
// than fewestSamples, or a median of 0.
func growth(samples []int64) float64 {
	rest := samples[len(samples)/warmUp:]
	if len(rest) < blocks {
		return 0
	}
	var medians [blocks]float64
	for i := range medians {
		medians[i] = medianOf(rest[i*len(rest)/blocks : (i+1)*len(rest)/blocks])
	}
	var slopes []float64
	for i := range medians {
		for j := range i {
			slopes = append(slopes, (medians[i]-medians[j])/float64(i-j))
		}
	}
	slices.Sort(slopes)
	level := medianOf(rest)
	if level <= 0 {
		return 0
	}
	return (slopes[(len(slopes)-1)/2] + slopes[len(slopes)/2]) / 2 * blocks / level
}

func medianOf(all []int64) float64 {
	sorted := slices.Sorted(slices.Values(all))
	n := len(sorted)
	return (float64(sorted[(n-1)/2]) + float64(sorted[n/2])) / 2
}
