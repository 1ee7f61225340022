package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/ranker-worker/ranker-worker/internal/app"
	"github.com/ranker-worker/ranker-worker/stream/broker"
)

func newTopicsCommand() *cobra.Command {
	var (
		create  bool
		spec    broker.Spec
		timeout = 30 * time.Second
	)
	cmd := verb(configFlag, &cobra.Command{
		Use:   "topics [--config FILE] [--create]",
		Short: "Check that the topics exist, are co-partitioned and set up right, or create them",
		Long: `Check the topics that the configuration names: they and their dead-letter topics exist, all have the same number of
partitions, none is compacted, the broker timestamps rankings and keeps them as long as impressions. Each problem is listed
with its remedy, and the exit code is 1.

With --create, missing topics are created first; the command then waits until every broker shows them
and their leaders host them. Existing topics are never changed.`,
		Example: `  ranker-worker topics --config worker.yaml
  ranker-worker topics --config worker.yaml --create --partitions 12 --replication 3 --retention 720h`,
	}, func(c *call) error {
		ctx, cancel := context.WithTimeout(c.ctx, timeout)
		defer cancel()
		return runTopics(ctx, c, create, spec)
	})
	f := cmd.Flags()
	f.BoolVar(&create, "create", false, "make the topics that are missing")
	f.IntVar(&spec.Partitions, "partitions", 0, "of topics that are made; 0: as many as the others have, else 6")
	f.IntVar(&spec.Replication, "replication", 0, "copies of topics that are made; 0: the broker's default")
	f.Var((*duration)(&spec.Retention), "retention", "of topics that are made; 0: the broker's default")
	f.Var((*duration)(&timeout), "timeout", "give up after this long")
	return cmd
}

func runTopics(ctx context.Context, c *call, create bool, spec broker.Spec) error {
	if spec.Partitions < 0 || spec.Replication < 0 || spec.Retention < 0 {
		return usageError{fmt.Errorf("--partitions, --replication and --retention cannot be negative")}
	}
	cfg, err := c.load()
	if err != nil {
		return err
	}
	b, err := app.NewBroker(cfg)
	if err != nil {
		return err
	}
	defer b.Close()
	out := c.out()
	if create {
		spec.Say = func(text string) { fmt.Fprintln(c.errOut(), text) }
		created, err := b.Create(ctx, spec)
		for _, name := range created {
			fmt.Fprintf(out, "created %s\n", name)
		}
		if err != nil {
			return fmt.Errorf("creating topics: %w", err)
		}
	}
	problems, err := b.Check(ctx)
	if err != nil {
		return fmt.Errorf("checking topics: %w", err)
	}
	for _, p := range problems {
		fmt.Fprintln(out, p)
	}
	if len(problems) > 0 {
		return faultsFound
	}
	fmt.Fprintln(out, "topics are fit")
	return nil
}
