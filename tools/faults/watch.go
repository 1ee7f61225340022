package faults

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/ranker-worker/ranker-worker/stream/event"
)

// Watch follows the rankings of a group as they are written.
type Watch struct {
	mu   sync.Mutex
	seen [][]seenRanking // by partition
}

// seenRanking is a ranking's write time, and how long its impression had waited. Both clocks are this machine's.
type seenRanking struct {
	at     time.Time
	waited time.Duration
}

func (g *Group) Watch(ctx context.Context) (*Watch, error) {
	w := &Watch{seen: make([][]seenRanking, g.Partitions)}
	c, err := g.client(event.Rankings)
	if err != nil {
		return nil, err
	}
	go func() {
		defer c.Close()
		dec := event.NewDecoder(event.Limits{})
		for {
			got := c.PollFetches(ctx)
			if ctx.Err() != nil {
				return
			}
			w.mu.Lock()
			got.EachRecord(func(rec *kgo.Record) {
				var r event.Ranking
				if rec.Attrs.IsControl() || dec.Ranking(&r, rec.Value) != nil {
					return
				}
				s := seenRanking{rec.Timestamp, time.Duration(rec.Timestamp.UnixMilli()-r.Time) * time.Millisecond}
				w.seen[rec.Partition] = append(w.seen[rec.Partition], s)
			})
			w.mu.Unlock()
		}
	}()
	return w, nil
}

// Pause returns the longest time without a ranking in any partition, from a moment on. Impressions must come all the time.
func (w *Watch) Pause(from time.Time) (longest time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, all := range w.seen {
		last := from
		for _, s := range all {
			if s.at.Before(from) {
				continue
			}
			longest, last = max(longest, s.at.Sub(last)), s.at
		}
	}
	return longest
}

// Resumed reports whether every partition has ranked impressions that came after a moment.
func (w *Watch) Resumed(after time.Time) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return !slices.ContainsFunc(w.seen, func(all []seenRanking) bool {
		return len(all) == 0 || !all[len(all)-1].at.Add(-all[len(all)-1].waited).After(after)
	})
}

var errNothingSeen = errors.New("no ranking was seen")

// Quantile returns the quantile q of the waits of impressions ranked between two moments, and their number.
func (w *Watch) Quantile(q float64, from, to time.Time) (time.Duration, int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	var waits []time.Duration
	for _, all := range w.seen {
		for _, s := range all {
			if s.at.After(from) && s.at.Before(to) {
				waits = append(waits, s.waited)
			}
		}
	}
	if len(waits) == 0 {
		return 0, 0, errNothingSeen
	}
	slices.Sort(waits)
	return waits[min(len(waits)-1, int(q*float64(len(waits))))], len(waits), nil
}

func (w *Watch) Count(from, to time.Time) int {
	_, n, _ := w.Quantile(0, from, to)
	return n
}
