package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/ranker-worker/ranker-worker/internal/admin"
	"github.com/ranker-worker/ranker-worker/internal/platform"
)

// account is the account in Redis, summed over the partitions.
type account struct {
	counts map[string]int64 // by name: "payoffs.applied"
	fed    int64            // payoffs fed to the learner
	queued int64            // in QPM-D's queues
}

func readAccount(ctx context.Context, tool *admin.Tool) (account, error) {
	a := account{counts: map[string]int64{}}
	r, err := tool.Inspect(ctx, admin.InspectQuery{Learner: learner, Partition: -1})
	if err != nil {
		return a, fmt.Errorf("reading the account: %w", err)
	}
	for i := range r.Partitions {
		for name, n := range r.Partitions[i].Account {
			a.counts[name] += n
		}
	}
	for _, part := range r.Learners[0].Parts {
		a.fed += part.Payoffs
		a.queued += part.Waiting
	}
	return a, nil
}

const (
	settlePoll     = 200 * time.Millisecond
	settlePatience = time.Minute
)

// settle waits until the worker has stored an account of everything that was sent.
func settle(ctx context.Context, tool *admin.Tool, sent platform.Progress) error {
	tick := time.NewTicker(settlePoll)
	defer tick.Stop()
	read, moved := int64(-1), time.Now()
	for {
		a, err := readAccount(ctx, tool)
		if err != nil {
			return err
		}
		counts := a.counts
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
