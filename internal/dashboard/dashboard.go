package dashboard

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math"
	"sync"
	"time"

	"github.com/ranker-worker/ranker-worker/state"
	"github.com/ranker-worker/ranker-worker/stream/partition"
)

const (
	tickEvery   = time.Second
	showEvery   = 5 * time.Second
	showTimeout = 2 * time.Second
	looksATick  = 4 // the most partitions sampled
	watchedFor  = 15 * time.Second
	missedOften = 3 // consecutive failed exchanges
	itemTicks   = 5 // between points of items' pasts
)

// Options are a Dashboard's dependencies.
type Options struct {
	Source   Source
	Counters Counters
	Registry state.Registry // where workers publish their summaries; nil: this worker is alone
	Version  string
	Logger   *slog.Logger
	// Remember is for how long after its payoff deadline an impression is remembered, in milliseconds.
	Remember int64
	// Unserved means that nobody reads this page: the worker samples nothing, publishes its figures for the others' pages, and reads none.
	Unserved bool
	// Simulated means that the worker's clock is simulated: durations by it are not shown.
	Simulated bool
}

// Dashboard holds the page's data. Run updates it; any goroutine may call the other methods.
type Dashboard struct {
	opt     Options
	started time.Time

	mu      sync.Mutex
	ticks   uint64
	own     Summary
	others  []shown
	alone   string             // why others are not known
	missed  int                // consecutive failures to read them
	said    bool               // the failure was logged
	before  map[string]counted // by worker
	ranked  map[string]int64   // by learner: when its last impression was ranked, in milliseconds; none before the first
	past    past
	history history
	lifts   thinned[liftPoint]
	known   known
	next    int32     // the partition to sample next
	watched time.Time // last request of the page
	live    document
	long    document
}

// counted are a worker's learners' counts at the last look.
type counted map[string]Counts

// document is served content, made at most once a tick.
type document struct {
	tick uint64 // 0: never made
	body body
}

func New(opt Options) *Dashboard {
	b := &Dashboard{opt: opt, started: time.Now(), before: map[string]counted{}, ranked: map[string]int64{}}
	if opt.Registry == nil {
		b.alone = "this worker is on its own"
	}
	if opt.Simulated { // users are nobody, and all deadlines are past when their clock stops
		b.opt.Remember = math.MaxInt32 * 1000
	}
	return b
}

// Run updates the dashboard until ctx is done.
func (b *Dashboard) Run(ctx context.Context) {
	var wg sync.WaitGroup
	defer wg.Wait()
	if b.opt.Registry != nil {
		wg.Go(func() { every(ctx, showEvery, func() { b.show(ctx) }) })
	}
	every(ctx, tickEvery, func() { b.tick(time.Now()) })
}

// every calls do at once and at each interval, until ctx is done.
func every(ctx context.Context, interval time.Duration, do func()) {
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		do()
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// tick reads the worker.
func (b *Dashboard) tick(now time.Time) {
	own := collect(b.opt.Source, b.opt.Counters, b.opt.Remember)
	own.Version, own.Started = b.opt.Version, b.started.UnixMilli()
	totals := b.opt.Counters.Totals()
	b.mu.Lock()
	defer b.mu.Unlock()
	b.past.add(now, totals, &own)
	if b.opt.Simulated {
		own.Latencies = nil
	}
	if b.opt.Unserved {
		own = own.nameless()
	}
	b.own = own
	// Samples are needed while somebody watches, here or at another worker, which reads this one seldom.
	often := uint64(showEvery / tickEvery)
	if !b.opt.Unserved && (b.ticks < often || b.ticks%often == 0 || now.Sub(b.watched) < watchedFor) {
		b.next = b.opt.Source.LookAgain(b.next, looksATick)
	}
	b.ticks++
	b.remember(now)
}

func (b *Dashboard) remember(now time.Time) {
	all := b.all()
	page := combine(all, nil, now.UnixMilli())
	p := point{at: now.UnixMilli(), rankings: page.Rates.Rankings, p50: page.P50, p99: page.P99, lag: page.Lag[0] + page.Lag[1] + page.Lag[2],
		learners: map[string]Counts{}}
	before := make(map[string]counted, len(all))
	for i := range all {
		s := &all[i]
		had := b.before[s.ID]
		before[s.ID] = counted{}
		maps.Copy(before[s.ID], had) // also of learners that a large summary leaves out
		for k := range s.Learners {
			l := &s.Learners[k]
			before[s.ID][l.Name] = l.Counts
			was, met := had[l.Name]
			if met || s.ID == b.own.ID { // another worker's counts from before a learner was met have no known time
				p.learners[l.Name] = p.learners[l.Name].plus(l.Counts.minus(was))
			}
		}
	}
	b.before = before
	for name := range p.learners {
		if p.learners[name].Decisions > 0 {
			b.ranked[name] = p.at
		}
	}
	b.known.addRankings(all, b.opt.Source.Now())
	if b.ticks%itemTicks == 1 {
		b.known.addItems(page.Learners, p.at)
	}
	if arms := lifted(page.Arms); len(arms) > 0 {
		b.lifts.add(liftPoint{p.at, arms})
	}
	for k := range page.Learners {
		if l := &page.Learners[k]; l.early() != "" {
			c := p.learners[l.Name]
			c.Early = 1
			p.learners[l.Name] = c
		}
	}
	b.history.add(p)
}

// all returns the summaries, this worker's first.
func (b *Dashboard) all() []shown { return append([]shown{{Summary: b.own}}, b.others...) }

// show publishes this worker's summary, and reads the others'.
func (b *Dashboard) show(ctx context.Context) {
	b.mu.Lock()
	own := b.own
	b.mu.Unlock()
	if own.ID == "" {
		return
	}
	others, err := b.exchange(ctx, &own)
	if ctx.Err() != nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if err == nil {
		b.alone, b.others, b.missed, b.said = "", others, 0, false
		return
	}
	for k := range b.others {
		b.others[k].age += showEvery.Seconds()
	}
	b.missed++
	if b.missed < missedOften && !errors.Is(err, state.ErrForbidden) {
		return
	}
	// A worker outside of its group is reported as such, a moment after its beginning.
	if !b.said && b.missed > 1 && b.opt.Source.Outside() == "" {
		b.said = true
		b.opt.Logger.Warn("workers cannot show themselves to each other; the page shows this worker alone", "error", err)
	}
	b.alone, b.others = "the store could not be asked for the others", nil
	if errors.Is(err, state.ErrForbidden) {
		b.alone = "the store's rights do not let workers show themselves to each other"
	}
}

func (b *Dashboard) exchange(ctx context.Context, own *Summary) ([]shown, error) {
	shows, err := own.encode()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, showTimeout)
	defer cancel()
	all, err := b.opt.Registry.Show(ctx, own.ID, shows)
	if err != nil {
		return nil, fmt.Errorf("show this worker to the others: %w", err)
	}
	if b.opt.Unserved {
		return nil, nil
	}
	return others(own.ID, all), nil
}

// head are the members of a stored summary that each form has.
type head struct {
	At      int64  `json:"at"` // by the store's clock
	Form    int    `json:"form"`
	ID      string `json:"id"`
	Version string `json:"version"`
	Started int64  `json:"started"`
}

// others decodes the workers' summaries, except self's. Of another form it keeps the head, and it ignores unreadable ones.
func others(self string, all [][]byte) []shown {
	var now int64
	var out []shown
	for _, one := range all {
		var h head
		if json.Unmarshal(one, &h) != nil || h.ID == "" {
			continue
		}
		if h.ID == self {
			now = h.At
			continue
		}
		s := Summary{ID: h.ID, Version: h.Version, Started: h.Started}
		if h.Form == form && json.Unmarshal(one, &s) != nil {
			continue
		}
		out = append(out, shown{s.trusted(), float64(now-h.At) / 1000})
	}
	return out
}

// trusted bounds another worker's summary: it may run another version, or somebody may have changed the store.
func (s Summary) trusted() Summary {
	s = s.bounded(1)
	known := new(partition.Account).Named()
	maps.DeleteFunc(s.Account, func(name string, _ int64) bool { _, ok := known[name]; return !ok })
	for k := range s.Learners {
		s.Learners[k].Windows = first(s.Learners[k].Windows, 64)
	}
	for k := range s.Rankings {
		s.Rankings[k].Shown = first(s.Rankings[k].Shown, 16)
	}
	return s
}

// Live returns the present page as served.
func (b *Dashboard) Live() body {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.watched = time.Now()
	return b.live.at(b.ticks, func() any {
		sums := b.history.sums()
		p := combine(b.all(), sums, time.Now().UnixMilli())
		p.Group, p.Worker, p.Alone, p.Simulated = b.opt.Source.Group(), b.own.ID, b.alone, b.opt.Simulated
		if points := b.history.points; len(points) > 0 {
			p.Seconds = (points[len(points)-1].at-points[0].at)/1000 + int64(pointTicks[b.history.level])
		}
		for k := range p.Learners {
			p.Learners[k].LastAt = cmp.Or(b.ranked[p.Learners[k].Name], b.started.UnixMilli())
		}
		p.expectFigures(sums)
		return p
	})
}

// History returns the history as served.
func (b *Dashboard) History() body {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.long.at(b.ticks, func() any {
		ranges := map[string][2]float64{}
		for _, s := range b.all() {
			for k := range s.Learners {
				ranges[s.Learners[k].Name] = s.Learners[k].PayoffRange
			}
		}
		h := b.history.show(ranges)
		h.Lifts = liftsOf(b.lifts.points)
		return h
	})
}

// at returns the document as of a tick.
func (d *document) at(tick uint64, create func() any) body {
	if d.tick != tick || d.body.plain == nil {
		d.tick, d.body = tick, newBody(create())
	}
	return d.body
}
