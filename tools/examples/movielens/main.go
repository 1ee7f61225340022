// Command movielens plays the users of MovieLens-100k with the worker, over a real Kafka and a real Redis. It publishes impressions of
// films that their users have rated, and reads the worker's rankings. It publishes the users' selections and, after delays taken from the
// data, their own ratings as payoffs. It compares policies by the mean payoff per impression; README.md defines every number.
//
// Each policy gets its own worker process, topics, group and learners, and the same users in the same order with the same windows.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/ranker-worker/ranker-worker/tools/examples/movielens/data"
)

func main() {
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	cancel()
	switch {
	case err == nil || errors.Is(err, flag.ErrHelp):
	case errors.Is(err, errUsage):
		os.Exit(2)
	default:
		fmt.Fprintln(os.Stderr, "movielens:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, out, errOut io.Writer) (err error) {
	opt, err := parseOptions(args, errOut)
	if err != nil {
		return err
	}
	ratings, err := load(ctx, &opt, errOut)
	if err != nil {
		return err
	}
	var films map[string]data.Film
	if opt.personal {
		if films, err = data.LoadFilms(ctx, opt.cache); err != nil {
			return err
		}
	}
	dir, err := os.MkdirTemp("", "movielens-")
	if err != nil {
		return fmt.Errorf("making a directory for the worker: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	binary, err := build(ctx, dir)
	if err != nil {
		return err
	}
	report := newReport(&opt)
	for _, policy := range opt.policies {
		stream, err := data.NewStream(ratings, data.Config{Seed: opt.seed, Impressions: opt.impressions, Once: opt.once})
		if err != nil {
			return err
		}
		report.describe(stream)
		p, err := newPlay(&opt, policy, dir, binary, stream, data.Means(ratings), films, errOut)
		if err != nil {
			return err
		}
		row, err := p.run(ctx)
		if err != nil {
			return fmt.Errorf("policy %s: %w", policy, err)
		}
		report.Policies = append(report.Policies, row)
	}
	if opt.json {
		return report.writeJSON(out)
	}
	return report.writeTable(out)
}

func load(ctx context.Context, opt *options, errOut io.Writer) ([]data.Rating, error) {
	if opt.ratings == "" {
		fmt.Fprintf(errOut, "Reading MovieLens-100k; files that are not in %s are downloaded once.\n", opt.cache)
		return data.Load(ctx, opt.cache)
	}
	f, err := os.Open(opt.ratings)
	if err != nil {
		return nil, fmt.Errorf("-ratings: %w", err)
	}
	defer func() { _ = f.Close() }()
	ratings, err := data.ParseRatings(f)
	if err != nil {
		return nil, fmt.Errorf("-ratings: %s: %w", opt.ratings, err)
	}
	return ratings, nil
}
