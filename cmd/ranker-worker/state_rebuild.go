package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/ranker-worker/ranker-worker/internal/admin"
	"github.com/ranker-worker/ranker-worker/internal/plural"
)

func newRebuildCommand() *cobra.Command {
	var (
		flags stateFlags
		q     admin.RebuildQuery
	)
	cmd := &cobra.Command{
		Use:   "rebuild --config FILE [--partial] [--replace --yes]",
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
		RunE: func(cmd *cobra.Command, _ []string) error {
			return withTool(cmd, flags.file, func(tool *admin.Tool) error {
				r, err := tool.Rebuild(cmd.Context(), q)
				if err != nil {
					return err
				}
				if flags.json {
					return printJSON(cmd.OutOrStdout(), r)
				}
				out := cmd.OutOrStdout()
				for _, p := range r.Partitions {
					if p.Kept {
						fmt.Fprintf(out, "partition %d has state, and was left alone\n", p.Partition)
						continue
					}
					a := p.Account
					fmt.Fprintf(out, "partition %d: %s taken over, %s applied, %s pending\n", p.Partition, plural.N(p.Adopted, "decision"),
						plural.N(a["payoffs.applied"], "payoff"), plural.N(a["impressions.pending"], "impression"))
					for _, m := range p.Missing {
						fmt.Fprintf(out, "  not rebuilt: %s\n", m)
					}
				}
				return nil
			})
		},
	}
	flags.add(cmd)
	f := cmd.Flags()
	f.BoolVar(&q.Partial, "partial", false, "rebuild although retention has deleted records, or learners are not configured")
	f.BoolVar(&q.Replace, "replace", false, "also partitions that have state")
	yesFlag(cmd, &q.Yes)
	return cmd
}
