package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/ranker-worker/ranker-worker/internal/admin"
)

func newRebuildCommand() *cobra.Command {
	var (
		flags stateFlags
		q     admin.RebuildQuery
	)
	cmd := &cobra.Command{
		Use:   "rebuild --config FILE [--partial] [--replace --yes]",
		Short: "Make the state anew from the topics, after Redis has lost it",
		Long: `Make the state of partitions that have none anew: all inputs since the group's first decision are read again by the
code that workers run, and the decisions that stand in the rankings topic are taken over. No impression is ranked. It
ends when all decisions are taken over; workers read what is left.

Where retention has deleted what is needed, or the rankings name learners that are not configured, it refuses, and lists
what that is; --partial rebuilds what there is. What
was imported or reset before the loss is not in the topics: do it again.

Partitions that have state are left alone. With --replace --yes theirs is dropped first, which is the way out where a
checkpoint is half-written and its writer gone. Should the command be cut off, workers go on from where it was.

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
					fmt.Fprintf(out, "partition %d: %d decisions taken over, %d payoffs applied, %d impressions pending\n", p.Partition,
						p.Adopted, a["payoffs.applied"], a["impressions.pending"])
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
	f.BoolVar(&q.Partial, "partial", false, "rebuild what there is, although retention has deleted some, or learners are not configured")
	f.BoolVar(&q.Replace, "replace", false, "also partitions that have state")
	yesFlag(cmd, &q.Yes)
	return cmd
}
