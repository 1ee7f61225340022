package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/ranker-worker/ranker-worker/internal/admin"
)

func newBaseCommand() *cobra.Command {
	var (
		flags stateFlags
		dir   string
	)
	cmd := &cobra.Command{
		Use:   "base --config FILE --out DIR",
		Short: "Write down the whole state, for replays that cannot begin where the topics began",
		Long: `Write all that is stored to a new directory, a file for each partition. replay and explain begin with it (--base DIR) where the topics
have lost what came before: take one every day, and keep those that are younger than the topics reach back.

It only reads, while workers run or not. Each partition is read at one instant, and meanwhile Redis does nothing else: below a second
for a million impressions that are pending. Where that is too long, name a replica under redis in a copy of the configuration.

What workers knew of other partitions at that instant does not stand in Redis. They tell it again within a minute or so; what they ranked
until then is not exact in a replay. Learners that do not share what a process knows of all partitions (with context, delay: qpmd or bold,
policies robust and egreedy, utilities: sorted or social, silence: waits) are exact only behind a base that was taken while no worker ran.`,
		Example: `  ranker-worker state base --config worker.yaml --out bases/2026-11-23
  ranker-worker replay --config worker.yaml --base bases/2026-11-23`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return withTool(cmd, flags.file, func(tool *admin.Tool) error {
				r, err := tool.TakeBase(cmd.Context(), dir)
				if err != nil {
					return err
				}
				if flags.json {
					return printJSON(cmd.OutOrStdout(), r)
				}
				entries := 0
				for i := range r.Partitions {
					entries += r.Partitions[i].Entries
				}
				_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s: %d partitions with %d entries.\n", r.Dir, len(r.Partitions), entries)
				return err
			})
		},
	}
	flags.add(cmd)
	cmd.Flags().StringVarP(&dir, "out", "o", "", "write to this new `DIR`")
	_ = cmd.MarkFlagRequired("out")
	_ = cmd.MarkFlagDirname("out")
	return cmd
}
