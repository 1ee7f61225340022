package faults

import (
	"context"
	"fmt"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/ranker-worker/ranker-worker/stream/event"
)

const (
	stormIDs      = 100_000 // impressions that a storm's payoffs are for
	stormPayoffs  = 1_000_000
	stormPatience = 3 * time.Minute
	// livePace is the tidy traffic's rate that gives 800 impressions a second.
	livePace = 1600
)

// storm is a producer beside the traffic, at full speed or at its own pace.
type storm struct {
	g      *Group
	client *kgo.Client
	sent   [event.Inputs]atomic.Int64
	failed atomic.Pointer[error]
}

// send sends a record, and waits while too many are in flight. A zero time is now.
func (s *storm) send(ctx context.Context, topic event.Topic, id, value []byte, at time.Time) {
	r := &kgo.Record{Topic: s.g.Topics[topic], Key: id, Value: value, Timestamp: at}
	s.client.Produce(ctx, r, func(_ *kgo.Record, err error) {
		if err != nil {
			s.failed.CompareAndSwap(nil, &err)
			return
		}
		s.sent[topic].Add(1)
	})
}

func (s *storm) flush(ctx context.Context) {
	try(s.client.Flush(ctx))
	if failed := s.failed.Load(); failed != nil {
		fail(*failed)
	}
}

func stormID(prefix string, k int) []byte { return strconv.AppendInt([]byte(prefix), int64(k), 10) }

func (s *storm) impression(ctx context.Context, id []byte) {
	im := event.Impression{ID: id, HasUtilities: true}
	for i := range 5 {
		im.Candidates = append(im.Candidates, event.Candidate{Item: stormID("item-", i), Utility: float64(i)})
	}
	s.send(ctx, event.Impressions, id, event.AppendImpression(nil, &im), time.Time{})
}

func (s *storm) payoff(ctx context.Context, id []byte, at time.Time) {
	s.send(ctx, event.Payoffs, id, event.AppendPayoff(nil, &event.Payoff{ID: id, Payoff: 0.5}), at)
}

// prepare makes ranked impressions with selections, for payoffs to come.
func (t *trial) prepare(ctx context.Context) *storm {
	s := &storm{g: t.Group, client: get(t.c.client(kgo.ProducerLinger(5*time.Millisecond), kgo.MaxBufferedRecords(20_000)))}
	before := get(t.Account(ctx))
	for k := range stormIDs {
		id := stormID("storm-", k)
		s.impression(ctx, id)
		s.send(ctx, event.Selections, id, event.AppendSelection(nil, &event.Selection{ID: id, Item: []byte("item-0")}), time.Time{})
	}
	s.flush(ctx)
	try(until(ctx, stormPatience, "impressions are ranked that a storm is for", func() (bool, error) {
		now, err := t.Account(ctx)
		return now["selections.joined"] >= before["selections.joined"]+stormIDs, err
	}))
	return s
}

// payoffStorm sends a million payoffs at once, dated an hour back like a nightly load: first ones
// and repetitions for ranked impressions, and one in ten for an unknown one. Impressions go on.
func payoffStorm(ctx context.Context, t *trial) []Measurement {
	t.Traffic.rate.Store(livePace)
	s := t.prepare(ctx)
	defer s.client.Close()
	before := t.p99(ctx)
	had := get(t.Account(ctx))
	from := time.Now()
	for k := range stormPayoffs {
		id := stormID("storm-", k%stormIDs)
		if k%10 == 9 {
			id = stormID("nobody-", k)
		}
		s.payoff(ctx, id, from.Add(-time.Hour))
	}
	s.flush(ctx)
	sent := time.Since(from)
	try(until(ctx, stormPatience, "a storm of payoffs is over", func() (bool, error) {
		now, err := t.Account(ctx)
		return now["payoffs.read"] >= had["payoffs.read"]+stormPayoffs, err
	}))
	over := time.Now()
	during, n, err := t.watch.Quantile(0.99, from, over)
	try(err)
	after := t.p99(ctx)
	took := over.Sub(from)
	return []Measurement{{What: "p99 from impression to ranking, in a storm of a million older payoffs",
		Found: fmt.Sprintf("%v of %d in %v (sent in %v); undisturbed %v and %v", during, n, took.Round(time.Second), sent.Round(time.Second), before, after),
		Aim:   "a tenth of the storm's length at most", Met: during < took/10}}
}

// impressionStorm sends more impressions than the workers take, with payoffs of earlier impressions,
// both at a steady pace. In order of time, the same share of both has been read at any moment.
func impressionStorm(ctx context.Context, t *trial) []Measurement {
	t.Traffic.rate.Store(0)
	s := t.prepare(ctx)
	defer s.client.Close()
	had := get(t.Account(ctx))
	sent := [event.Inputs]int64{s.sent[0].Load(), s.sent[1].Load(), s.sent[2].Load()}
	const perTick, tick, length = 400, 10 * time.Millisecond, 20 * time.Second
	k, paid := 0, 0
	for from := time.Now(); time.Since(from) < length && ctx.Err() == nil; {
		for due := int(time.Since(from)/tick) * perTick; k < due; k++ {
			s.impression(ctx, stormID("more-", k))
			if k%perTick < perTick/20 {
				s.payoff(ctx, stormID("storm-", paid%stormIDs), time.Time{})
				paid++
			}
		}
		pause(ctx, tick)
	}
	s.flush(ctx)
	now := get(t.Account(ctx))
	share := func(read string, topic event.Topic) float64 {
		return float64(now[read]-had[read]) / float64(max(1, s.sent[topic].Load()-sent[topic]))
	}
	impressions, payoffs := share("impressions.read", event.Impressions), share("payoffs.applied", event.Payoffs)
	return []Measurement{{What: "storm of impressions: share of payoffs applied when the last was sent",
		Found: fmt.Sprintf("%.0f%% of %d, while %.0f%% of %d impressions were read", 100*payoffs, s.sent[event.Payoffs].Load()-sent[event.Payoffs],
			100*impressions, s.sent[event.Impressions].Load()-sent[event.Impressions]),
		Aim: "at least that of impressions, less a tenth", Met: impressions < 0.9 && payoffs > 0.9*impressions}}
}
