package redisstore

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/ranker-worker/ranker-worker/state"
)

// atBytes is the length of the time that the script prepends.
const atBytes = len(`"at":1732183200123,`)

func (s *Store) workersKey() string { return "{" + s.opts.Group + ":workers}" }

// shownKey is in the slot of workersKey.
func (s *Store) shownKey() string { return s.workersKey() + ":shown" }

// Announce implements state.Registry by one script. Malformed entries are skipped.
func (s *Store) Announce(ctx context.Context, self state.WorkerInfo) ([]state.WorkerInfo, error) {
	const doing = "workers in Redis: announce"
	self.At = 0
	says, err := self.Encode()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", doing, err)
	}
	reply, err := s.run(ctx, s.announce, []any{nil, nil, 1, s.workersKey(), self.ID, says,
		strconv.FormatInt(state.WorkerKept.Milliseconds(), 10), state.MaxWorkers, state.MaxWorkerBytes + atBytes,
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
	return byID(all), nil
}

func byID(all []state.WorkerInfo) []state.WorkerInfo {
	slices.SortFunc(all, func(a, b state.WorkerInfo) int { return cmp.Compare(a.ID, b.ID) })
	return all
}

// MemoryUsed implements state.Registry. A server's memory is its maxmemory, or its machine's without one.
func (s *Store) MemoryUsed(ctx context.Context) (share float64, err error) {
	var mu sync.Mutex
	err = s.eachMaster(ctx, func(ctx context.Context, node *redis.Client) error {
		info, err := readInfo(ctx, node)
		if err != nil {
			return fmt.Errorf("memory of Redis: %w", err)
		}
		mu.Lock()
		defer mu.Unlock()
		share = max(share, memoryUsed(info))
		return nil
	})
	return share, err
}

func memoryUsed(info map[string]string) float64 {
	number := func(key string) float64 {
		v, _ := strconv.ParseFloat(info[key], 64) // 0: not known
		return v
	}
	most := number("maxmemory")
	if most == 0 {
		most = number("total_system_memory")
	}
	if most == 0 {
		return 0
	}
	return number("used_memory") / most
}

// Workers implements state.Registry. The last Announce has bounded the hash's size.
func (s *Store) Workers(ctx context.Context) ([]state.WorkerInfo, error) {
	const doing = "workers in Redis: read"
	key := s.workersKey()
	node, err := s.node(ctx, key)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", doing, err)
	}
	now, err := node.Time(ctx).Result()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", doing, forbidden(err))
	}
	says, err := node.HGetAll(ctx, key).Result()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", doing, forbidden(err))
	}
	all := make([]state.WorkerInfo, 0, len(says))
	for _, one := range says {
		w, err := state.DecodeWorker([]byte(one))
		if err == nil && now.Sub(time.UnixMilli(w.At)).Abs() <= state.WorkerCounts {
			all = append(all, w)
		}
	}
	return byID(all), nil
}

func (s *Store) Withdraw(ctx context.Context, id string) error {
	for _, key := range []string{s.workersKey(), s.shownKey()} {
		if err := s.client.HDel(ctx, key, id).Err(); err != nil {
			return fmt.Errorf("workers in Redis: withdraw: %w", forbidden(err))
		}
	}
	return nil
}

// Show implements state.Registry, by the script of Announce.
func (s *Store) Show(ctx context.Context, id string, shows []byte) ([][]byte, error) {
	const doing = "workers in Redis: show"
	if err := state.CheckShown(id, shows); err != nil {
		return nil, fmt.Errorf("%s: %w", doing, err)
	}
	reply, err := s.run(ctx, s.announce, []any{nil, nil, 1, s.shownKey(), id, shows,
		strconv.FormatInt(state.WorkerCounts.Milliseconds(), 10), state.MaxShown, state.MaxShownBytes + atBytes, state.MaxAllShown})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", doing, forbidden(err))
	}
	all := make([][]byte, 0, len(reply))
	for _, r := range reply {
		if text, ok := r.(string); ok {
			all = append(all, []byte(text))
		}
	}
	return all, nil
}

// forbidden explains an error for a missing right.
func forbidden(err error) error {
	if redis.HasErrorPrefix(err, "NOPERM") {
		return fmt.Errorf("%w: %w", state.ErrForbidden, err)
	}
	return err
}
