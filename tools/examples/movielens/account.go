package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/ranker-worker/ranker-worker/internal/platform"
)

// account is the account in Redis, summed over the partitions.
type account struct {
	counts map[string]int64 // by name: "payoffs.applied"
	fed    int64            // payoffs fed to the learner
	queued int64            // in QPM-D's queues
	onHold int64            // partitions whose learner is on hold
}

func readCounts(ctx context.Context, db *redis.Client, group string, partitions int) (map[string]int64, error) {
	counts := map[string]int64{}
	for p := range partitions {
		key := fmt.Sprintf("{%s:%d}:meta", group, p)
		meta, err := db.HGetAll(ctx, key).Result()
		if err != nil {
			return nil, fmt.Errorf("reading %s: %w", key, err)
		}
		for field, value := range meta {
			name, ok := strings.CutPrefix(field, "account.")
			if !ok {
				continue
			}
			n, err := strconv.ParseInt(value, 10, 64)
			if err != nil {
				return nil, fmt.Errorf("reading %s of %s: %w", field, key, err)
			}
			counts[name] += n
		}
	}
	return counts, nil
}

// readAccount reads the account and the learner's counts.
func readAccount(ctx context.Context, db *redis.Client, group string, partitions int) (account, error) {
	var a account
	var err error
	if a.counts, err = readCounts(ctx, db, group, partitions); err != nil {
		return a, err
	}
	for p := range partitions {
		if err := a.addLearner(ctx, db, fmt.Sprintf("{%s:%d}:%s:", group, p, learner)); err != nil {
			return a, err
		}
	}
	return a, nil
}

// addLearner adds a partition's items, queues and hold, in package delay's format.
func (a *account) addLearner(ctx context.Context, db *redis.Client, prefix string) error {
	items, err := db.HGetAll(ctx, prefix+"items").Result()
	if err != nil {
		return fmt.Errorf("reading %sitems: %w", prefix, err)
	}
	for item, text := range items {
		var sums struct {
			N int64 `json:"n"`
		}
		if err := json.Unmarshal([]byte(text), &sums); err != nil {
			return fmt.Errorf("reading item %s of %sitems: %w", item, prefix, err)
		}
		a.fed += sums.N
	}
	queues, err := db.HGetAll(ctx, prefix+"queues").Result()
	if err != nil {
		return fmt.Errorf("reading %squeues: %w", prefix, err)
	}
	for item, text := range queues {
		var head, tail int64
		if _, err := fmt.Sscanf(text, "%d %d", &head, &tail); err != nil {
			return fmt.Errorf("reading item %s of %squeues: %w", item, prefix, err)
		}
		a.queued += tail - head
	}
	hold, err := db.HExists(ctx, prefix+"learner", "hold").Result()
	if err != nil {
		return fmt.Errorf("reading %slearner: %w", prefix, err)
	}
	if hold {
		a.onHold++
	}
	return nil
}

const (
	settlePoll     = 50 * time.Millisecond
	settlePatience = time.Minute
)

// settle waits until the worker has stored an account of everything that was sent.
func settle(ctx context.Context, db *redis.Client, group string, partitions int, sent platform.Progress) error {
	tick := time.NewTicker(settlePoll)
	defer tick.Stop()
	read, moved := int64(-1), time.Now()
	for {
		counts, err := readCounts(ctx, db, group, partitions)
		if err != nil {
			return err
		}
		now := counts["impressions.read"] + counts["selections.read"] + counts["payoffs.read"]
		if now == int64(sent.Impressions+sent.Selections+sent.Payoffs) {
			return nil
		}
		if now != read {
			read, moved = now, time.Now()
		} else if time.Since(moved) > settlePatience {
			return fmt.Errorf("the worker has read nothing more for %v: sent %+v, accounted for %v", settlePatience, sent, counts)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// check compares the account with the records sent. Each user selects and pays, no record is faulty, and nothing expires: so every
// impression ends as paid, every selection as joined and every payoff as applied. An applied payoff was fed to the learner or is queued.
func (a *account) check(sent platform.Progress) error {
	var faults []error
	equal := func(what string, got int64, want int) {
		if got != int64(want) {
			faults = append(faults, fmt.Errorf("%s: %d instead of %d", what, got, want))
		}
	}
	equal("rankings", int64(sent.Rankings), sent.Impressions)
	equal("selections sent", int64(sent.Selections), sent.Impressions)
	equal("payoffs sent", int64(sent.Payoffs), sent.Impressions)
	for name, want := range map[string]int{
		"impressions.read": sent.Impressions, "impressions.paid": sent.Impressions,
		"selections.read": sent.Selections, "selections.joined": sent.Selections,
		"payoffs.read": sent.Payoffs, "payoffs.applied": sent.Payoffs,
	} {
		equal(name, a.counts[name], want)
	}
	equal("payoffs fed and payoffs in queues", a.fed+a.queued, sent.Payoffs)
	if len(faults) > 0 {
		return fmt.Errorf("the account does not add up: %w; in full: %v", errors.Join(faults...), a.counts)
	}
	return nil
}

// heldSelections returns the share of selections that taught nothing, because the learner was on hold. A selection falls into a hold or
// begins a step. Without expiry, an ended step has fed one payoff, and another one is a hold that lasts.
func (a *account) heldSelections() float64 {
	joined := a.counts["selections.joined"]
	return 1 - float64(a.fed+a.onHold)/float64(max(1, joined))
}
