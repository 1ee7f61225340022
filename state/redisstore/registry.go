package redisstore

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"

	"github.com/redis/go-redis/v9"

	"github.com/ranker-worker/ranker-worker/state"
)

// atBytes are those that the time takes which the script puts in front.
const atBytes = len(`"at":1732183200123,`)

func (s *Store) workersKey() string { return "{" + s.opts.Group + ":workers}" }

// Announce implements state.Registry, by one script. What cannot be read as a worker is passed over.
func (s *Store) Announce(ctx context.Context, self state.WorkerInfo) ([]state.WorkerInfo, error) {
	const doing = "workers in Redis: announce"
	says, err := self.Encode()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", doing, err)
	}
	reply, err := s.run(ctx, s.announce, []any{nil, nil, 1, s.workersKey(), self.ID, says,
		strconv.FormatInt(state.WorkerCounts.Milliseconds(), 10), state.MaxWorkers, state.MaxWorkerBytes + atBytes,
		state.MaxWorkersBytes})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", doing, forbidden(err))
	}
	all := make([]state.WorkerInfo, 0, len(reply))
	for _, r := range reply {
		text, _ := r.(string)
		if w, err := state.DecodeWorker([]byte(text)); err == nil {
			all = append(all, w)
		}
	}
	slices.SortFunc(all, func(a, b state.WorkerInfo) int { return cmp.Compare(a.ID, b.ID) })
	return all, nil
}

// Withdraw implements state.Registry.
func (s *Store) Withdraw(ctx context.Context, id string) error {
	if err := s.client.HDel(ctx, s.workersKey(), id).Err(); err != nil {
		return fmt.Errorf("workers in Redis: withdraw: %w", forbidden(err))
	}
	return nil
}

// forbidden says so where the user lacks a right.
func forbidden(err error) error {
	if redis.HasErrorPrefix(err, "NOPERM") {
		return fmt.Errorf("%w: %w", state.ErrForbidden, err)
	}
	return err
}
