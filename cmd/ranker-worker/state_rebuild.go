package main

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/ranker-worker/ranker-worker/internal/admin"
	"github.com/ranker-worker/ranker-worker/internal/plural"
)

func newRebuildCommand() *cobra.Command {
	var q admin.RebuildQuery
	cmd := toolVerb(&cobra.Command{
		Use:   "rebuild [--config FILE] [--partial] [--replace --yes]",
		Short: "Rebuild the state from the topics, after Redis has lost it",
		Long: `Rebuild the state of partitions that have none: read all inputs since the group's first decision again, with the worker's
code, and take over the decisions in the rankings topic. No impression is ranked. It ends when all decisions are taken over;
workers read the rest.

If retention has deleted required records, or the rankings name learners that are not configured, it refuses and lists
them; --partial rebuilds without them. Imports and resets before the loss are not in the topics: repeat them.

Partitions with state are left alone. With --replace --yes theirs is dropped first: the way out if a checkpoint is
half-written and its writer is gone. After an interruption workers continue from there.

It refuses while the group has live members.`,
		Example: `  ranker-worker state rebuild --config worker.yaml
  ranker-worker state rebuild --config worker.yaml --partial --json`,
	}, func(c *call, tool *admin.Tool) (*admin.RebuildReport, error) {
		return tool.Rebuild(c.ctx, q)
	}, func(w io.Writer, r *admin.RebuildReport) {
		for _, p := range r.Partitions {
			if p.Kept {
				fmt.Fprintf(w, "partition %d has state, and was left alone\n", p.Partition)
				continue
			}
			a := p.Account
			fmt.Fprintf(w, "partition %d: %s taken over, %s applied, %s pending\n", p.Partition, plural.N(p.Adopted, "decision"),
				plural.N(a["payoffs.applied"], "payoff"), plural.N(a["impressions.pending"], "impression"))
			for _, m := range p.Missing {
				fmt.Fprintf(w, "  not rebuilt: %s\n", m)
			}
		}
	})
	f := cmd.Flags()
	f.BoolVar(&q.Partial, "partial", false, "rebuild although retention has deleted records, or learners are not configured")
	f.BoolVar(&q.Replace, "replace", false, "also partitions that have state")
	confirmFlag(cmd, &q.Yes)
	return cmd
}
