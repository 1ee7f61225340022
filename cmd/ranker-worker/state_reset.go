package main

import (
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/ranker-worker/ranker-worker/internal/statetool"
)

func newResetCommand() *cobra.Command {
	var (
		flags   stateFlags
		learner string
		yes     bool
	)
	cmd := &cobra.Command{
		Use:   "reset --config FILE --learner L [--yes]",
		Short: "Make a learner forget everything and begin anew",
		Long: `Make a learner begin anew, with no items and no statistics, in all partitions. It is the way to take up settings
that do not fit what was learned, such as another payoff range.

Impressions that are pending are treated as those of a learner that was left out of the configuration: they expire, and
their selections and payoffs are dead letters (learner_gone). Their ids stay known. Other learners are not touched.

It refuses while the group has live members. Without --yes it only shows what would be given up. A copy can be kept
with state export.`,
		Example: `  ranker-worker state export --config worker.yaml --learner feed > feed.jsonl
  ranker-worker state reset --config worker.yaml --learner feed --yes`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return withTool(cmd, flags.file, func(tool *statetool.Tool) error {
				r, err := tool.Reset(cmd.Context(), learner, yes)
				if r == nil || err != nil && !errors.Is(err, statetool.ErrConfirm) {
					return err
				}
				if flags.json {
					return errors.Join(err, printJSON(cmd.OutOrStdout(), r))
				}
				return errors.Join(err, printReset(cmd.OutOrStdout(), r))
			})
		},
	}
	flags.add(cmd)
	cmd.Flags().StringVar(&learner, "learner", "", "the learner's `NAME`; it need not be configured any more")
	_ = cmd.MarkFlagRequired("learner") // cannot fail: the flag has just been made
	yesFlag(cmd, &yes)
	return cmd
}

func printReset(w io.Writer, r *statetool.ResetReport) error {
	verb := "would be forgotten"
	if r.Done {
		verb = "are forgotten"
	}
	for _, p := range r.Partitions {
		if _, err := fmt.Fprintf(w, "partition %d: %d payoffs of %d items %s; impressions pending end under the name %s\n",
			p.Partition, p.Payoffs, p.Items, verb, p.Was); err != nil {
			return err
		}
	}
	return nil
}
