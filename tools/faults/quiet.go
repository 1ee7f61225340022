package faults

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/ranker-worker/ranker-worker/stream/event"
)

// quiet is a pause of impressions during which payoffs and selections go on. Then Redis is restored from a backup of its beginning.
type quiet struct {
	store *Store
	lasts time.Duration
}

// The pause lasts longestQuiet, or the rest of a shorter soak without aroundQuiet,
// the time before and after it. The shortest fills several order records.
const (
	longestQuiet  = 10 * time.Minute
	shortestQuiet = 40 * time.Second
	aroundQuiet   = 90 * time.Second
)

// A quiet group's impressions end within quietHorizon, and are remembered for longer than the pause.
// So payoffs dated in time that are sent after the end are late by the order of records alone.
const (
	quietHorizon  = 8 * time.Second
	quietRemember = time.Hour
	quietPatience = 3 * time.Minute // of each wait, with other faults
)

func quietImpressions() Fault {
	return Fault{Kind: "impressions pause, then redis restored from before", Uses: aPause,
		Takes: longestQuiet + aroundQuiet, Least: shortestQuiet + aroundQuiet,
		Inject: func(ctx context.Context, scene *Scene) {
			q := quiet{store: scene.store(ctx), lasts: max(shortestQuiet, scene.takes-aroundQuiet)}
			defer undo(q.store.Close)
			if scene.quick {
				q.lasts = shortestQuiet
			}
			isolatedRun{begin: startWith(fmt.Sprintf("remember: %v}", remember), fmt.Sprintf("remember: %v}", quietRemember)), do: q.restore,
				Settings: Settings{Redis: q.store, Learners: fmt.Sprintf(
					"\n  feed: {payoffs: stochastic, policy: greedy, payoff_horizon: %v, selection_timeout: 4s}\n", quietHorizon)}}.runOn(ctx, scene)
		}}
}

// restore restores Redis after a pause of impressions, and compares the group's
// account with the first run's: late payoffs must stay late, and applied ones applied.
func (q *quiet) restore(ctx context.Context, s *isolated) {
	q.pause(ctx, s)
	before := s.ended(ctx, nil)
	s.seal(ctx) // the order of all that has ended
	first := s.ended(ctx, before)
	s.meanwhile(func() { try(q.store.RollBack(ctx)) })
	second := s.ended(ctx, first)
	adopted := second["impressions.adopted"]
	delete(first, "impressions.adopted") // a replay adopts
	delete(second, "impressions.adopted")
	if !maps.Equal(first, second) {
		fail(violated("outcomes are others after a restore: %s", differences(first, second)))
	}
	orders := 0
	try(s.readAll(ctx, event.Rankings, func(r *kgo.Record) {
		if r.Value == nil {
			orders++
		}
	}))
	s.c.say("impressions paused for %v: %d order records, %d payoffs late, %d orphans; all of them again after the restore, which adopted %d rankings",
		q.lasts.Round(time.Second), orders, first["payoffs.late"], first["payoffs.orphan"], adopted)
	if orders == 0 || first["payoffs.late"] == 0 || adopted == 0 {
		fail(fmt.Errorf("%w: the pause was too small to measure", errNotNow))
	}
}

// pause takes a backup, and sends payoffs and selections without impressions; then impressions go on for a while.
func (q *quiet) pause(ctx context.Context, s *isolated) {
	s.Traffic.quiet.Store(true)
	defer s.Traffic.quiet.Store(false)
	try(q.store.Backup(ctx))
	began := time.Now()
	for time.Since(began) < q.lasts && ctx.Err() == nil {
		behind := time.Since(began) > quietHorizon
		try(s.Traffic.instruct(ctx, 0, instruction{make: func(rng *rand.Rand, p *producer) (batch []*kgo.Record) {
			for range 4 {
				// Of a producer whose clock is ahead: the order of records has their effective times.
				orphan, early := badRecords["orphans"](rng, p), badRecords["early payoffs"](rng, p)
				orphan.Timestamp = time.Now().Add(10 * time.Minute)
				early.Timestamp = orphan.Timestamp
				batch = append(batch, orphan, early)
				if behind { // most have expired
					batch = append(batch, p.payoff(rng, 500, began.UnixMilli()))
				}
			}
			return batch
		}}))
		pause(ctx, 10*time.Millisecond)
	}
	s.Traffic.quiet.Store(false)
	pause(ctx, 3*time.Second)
}

// ended holds the traffic, waits until all records are stored and have ended, and returns the account. A failure compares it with an earlier one.
func (s *isolated) ended(ctx context.Context, earlier map[string]int64) (account map[string]int64) {
	try(s.Traffic.Hold(ctx))
	expect(ctx, s.Settle(ctx, quietPatience))
	open := int64(0)
	err := until(ctx, quietPatience, "all that was sent has ended", func() (_ bool, err error) {
		account, err = s.Account(ctx)
		open = account["impressions.pending"] + account["selections.parked"] + account["payoffs.parked"]
		return open == 0, err
	})
	if err != nil {
		expect(ctx, fmt.Errorf("%d records still wait, with %s: %w", open, differences(earlier, account), err))
	}
	return account
}

// seal sends impressions without selections to all partitions. Their rankings carry the order of all records before.
func (s *isolated) seal(ctx context.Context) {
	try(s.Traffic.instruct(ctx, 0, instruction{make: func(_ *rand.Rand, p *producer) (batch []*kgo.Record) {
		for i := range 40 {
			im := event.Impression{ID: fmt.Appendf(nil, "sealing-%d", i), HasUtilities: true,
				Candidates: []event.Candidate{{Item: []byte("a"), Utility: 1}}}
			batch = append(batch, p.record(event.Impressions, im.ID, event.AppendImpression(nil, &im)))
		}
		return batch
	}}))
}

// differences lists the counts in which two accounts differ, as name:before->after.
func differences(before, after map[string]int64) string {
	var all []string
	names := maps.Clone(after)
	maps.Copy(names, before)
	for _, name := range slices.Sorted(maps.Keys(names)) {
		if before[name] != after[name] {
			all = append(all, fmt.Sprintf("%s:%d->%d", name, before[name], after[name]))
		}
	}
	return strings.Join(all, " ")
}
