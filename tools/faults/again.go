package faults

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/ranker-worker/ranker-worker/internal/audit"
	"github.com/ranker-worker/ranker-worker/stream/replay"
)

// Replayed is the result of a replay of a group's topics.
type Replayed struct {
	Rankings, Identical int64
	NotExact            map[string]int64 // by reason
}

func (r *Replayed) String() string {
	text := fmt.Sprintf("%d rankings, %d identical", r.Rankings, r.Identical)
	for _, why := range slices.Sorted(maps.Keys(r.NotExact)) {
		text += fmt.Sprintf("; not exact %d: %s", r.NotExact[why], why)
	}
	return text
}

// Replay computes all rankings of the group again. Different ones without a reason to be not exact are violations.
func (g *Group) Replay(ctx context.Context) (r Replayed, violations []string, err error) {
	cfg, err := g.Config()
	if err != nil {
		return r, nil, err
	}
	topics, err := audit.Open(ctx, cfg)
	if err != nil {
		return r, nil, fmt.Errorf("replay: %w", err)
	}
	defer topics.Close()
	results, err := topics.Replay(ctx, &replay.Config{})
	if err != nil {
		return r, nil, fmt.Errorf("replay: %w", err)
	}
	r.NotExact = map[string]int64{}
	for p, one := range results {
		r.Rankings, r.Identical = r.Rankings+one.Rankings, r.Identical+one.Same
		for why, n := range one.NotExact {
			r.NotExact[why] += n
		}
		if d := one.First; d != nil {
			violations = append(violations, fmt.Sprintf("replay: %d rankings of partition %d come out different, the first at offset %d: it is %s, "+
				"and comes out %s", one.Different, p, d.Ranking.Offset, d.Ranking.Value, d.Again))
		}
	}
	return r, violations, nil
}
