package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/ranker-worker/ranker-worker/internal/admin"
	"github.com/ranker-worker/ranker-worker/internal/plural"
)

func newResetCommand() *cobra.Command {
	var (
		learner, experiment string
		yes                 bool
	)
	cmd := verb(configFlag|jsonFlag, &cobra.Command{
		Use:   "reset [--config FILE] (--learner L | --experiment X) [--yes]",
		Short: "Reset a learner or an experiment",
		Long: `Reset a learner in all partitions: no items, no statistics. Use it for settings that do not fit the learned statistics,
such as another payoff range.

Pending impressions are treated like those of a learner that was removed from the configuration: they expire, and their
selections and payoffs are dead letters (learner_gone). Their ids stay known. Other learners are not touched.

With --experiment it resets an experiment: counts start at zero, and arms out of service rank again. Learners are not
touched. A state rebuilt from topics finds an old verdict there, unless the configuration has a higher run.

It refuses while the group has live members. Without --yes it only shows the losses. Keep a copy with state export.`,
		Example: `  ranker-worker state export --config worker.yaml --learner feed > feed.jsonl
  ranker-worker state reset --config worker.yaml --learner feed --yes
  ranker-worker state reset --config worker.yaml --experiment feed --yes`,
	}, func(c *call) error {
		return c.withTool(func(tool *admin.Tool) error {
			if experiment != "" {
				r, err := tool.ResetExperiment(c.ctx, experiment, yes)
				return showReport(c, r, err, printExperimentReset)
			}
			r, err := tool.Reset(c.ctx, learner, yes)
			return showReport(c, r, err, printReset)
		})
	})
	cmd.Flags().StringVar(&learner, "learner", "", "the learner's `NAME`; it need not be configured")
	cmd.Flags().StringVar(&experiment, "experiment", "", "the experiment's `NAME`; likewise")
	cmd.MarkFlagsOneRequired("learner", "experiment")
	cmd.MarkFlagsMutuallyExclusive("learner", "experiment")
	confirmFlag(cmd, &yes)
	return cmd
}

func printExperimentReset(w io.Writer, r *admin.ResetExperimentReport) {
	for _, p := range r.Partitions {
		arms := "no arm is out of service"
		if len(p.OutOfService) > 0 {
			arms = "back in service: " + strings.Join(p.OutOfService, ", ")
		}
		fmt.Fprintf(w, "partition %d: fields lost: %d; %s\n", p.Partition, p.Fields, arms)
	}
}

func printReset(w io.Writer, r *admin.ResetReport) {
	verb := "to be forgotten"
	if r.Done {
		verb = "forgotten"
	}
	for _, p := range r.Partitions {
		fmt.Fprintf(w, "partition %d: %s of %s %s; pending impressions end under the name %s\n",
			p.Partition, plural.N(p.Payoffs, "payoff"), plural.N(p.Items, "item"), verb, p.Was)
	}
}
