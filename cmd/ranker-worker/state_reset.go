package main

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/ranker-worker/ranker-worker/internal/admin"
)

func newResetCommand() *cobra.Command {
	var (
		flags               stateFlags
		learner, experiment string
		yes                 bool
	)
	cmd := &cobra.Command{
		Use:   "reset --config FILE (--learner L | --experiment X) [--yes]",
		Short: "Make a learner forget everything and begin anew, or an experiment",
		Long: `Make a learner begin anew, with no items and no statistics, in all partitions. It is the way to take up settings
that do not fit what was learned, such as another payoff range.

Impressions that are pending are treated as those of a learner that was left out of the configuration: they expire, and
their selections and payoffs are dead letters (learner_gone). Their ids stay known. Other learners are not touched.

With --experiment an experiment begins anew: nothing is counted, and arms that a guard took out of service rank again. What learners
know is not touched. A state that is rebuilt from topics finds an old verdict there; a higher run in the configuration does not.

It refuses while the group has live members. Without --yes it only shows what would be given up. A copy can be kept
with state export.`,
		Example: `  ranker-worker state export --config worker.yaml --learner feed > feed.jsonl
  ranker-worker state reset --config worker.yaml --learner feed --yes
  ranker-worker state reset --config worker.yaml --experiment feed --yes`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return withTool(cmd, flags.file, func(tool *admin.Tool) error {
				if experiment != "" {
					return resetExperiment(cmd, tool, experiment, yes, flags.json)
				}
				r, err := tool.Reset(cmd.Context(), learner, yes)
				if err != nil && !errors.Is(err, admin.ErrConfirm) {
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
	cmd.Flags().StringVar(&experiment, "experiment", "", "the experiment's `NAME`; likewise")
	cmd.MarkFlagsOneRequired("learner", "experiment")
	cmd.MarkFlagsMutuallyExclusive("learner", "experiment")
	yesFlag(cmd, &yes)
	return cmd
}

func resetExperiment(cmd *cobra.Command, tool *admin.Tool, name string, yes, asJSON bool) error {
	r, err := tool.ResetExperiment(cmd.Context(), name, yes)
	if err != nil && !errors.Is(err, admin.ErrConfirm) {
		return err
	}
	if asJSON {
		return errors.Join(err, printJSON(cmd.OutOrStdout(), r))
	}
	for _, p := range r.Partitions {
		arms := "no arm is out of service"
		if len(p.OutOfService) > 0 {
			arms = "back in service: " + strings.Join(p.OutOfService, ", ")
		}
		if _, e := fmt.Fprintf(cmd.OutOrStdout(), "partition %d: %d fields are given up; %s\n", p.Partition, p.Fields, arms); e != nil {
			return errors.Join(err, e)
		}
	}
	return err
}

func printReset(w io.Writer, r *admin.ResetReport) error {
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
