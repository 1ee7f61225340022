package main

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/ranker-worker/ranker-worker/internal/audit"
	"github.com/ranker-worker/ranker-worker/internal/plural"
)

func newExplainCommand() *cobra.Command {
	var base string
	cmd := verb(configFlag|jsonFlag, &cobra.Command{
		Use:   "explain ID [--config FILE] [--base DIR]",
		Short: "Explain an impression's ranking by the statistics at that moment",
		Long: `Replay the topics up to the ranking of an impression, and show its learner's statistics at that moment and the reason for each
candidate's place. It only reads topics, in no group, from their beginning or from a base (--base); see replay.

If an id was used again after it was forgotten, the first ranking is shown.`,
		Example: `  ranker-worker explain i-77 --config worker.yaml
  ranker-worker explain i-77 --config worker.yaml --json`,
		Args: one("an impression's id"),
	}, func(c *call) error {
		return c.withTopics(base, func(topics *audit.Topics) error {
			rankings := 0
			x, err := topics.Explain(c.ctx, c.args[0], func(at int64) {
				if rankings++; rankings%1000 == 0 {
					c.say(fmt.Sprintf("%d rankings, up to %s", rankings, time.UnixMilli(at).UTC().Format(time.RFC3339)))
				}
			})
			if err != nil {
				return err
			}
			return c.show(x, func(w io.Writer) { printExplanation(w, x) })
		})
	})
	baseFlag(cmd, &base)
	return cmd
}

func printExplanation(w io.Writer, x *audit.Explanation) {
	how := "replayed identically"
	switch {
	case x.NotExact != "":
		how = "not exact: " + x.NotExact
	case !x.Identical:
		how = "it comes out different"
	}
	arm := ""
	if x.Experiment != "" {
		arm = fmt.Sprintf(", arm %s of experiment %s", x.Arm, x.Experiment)
	}
	fmt.Fprintf(w, "%s: partition %d, offset %d, %s, learner %s%s, %s\n  shown: %s\n", x.ID, x.Partition, x.Offset, x.Time, x.Learner, arm, how,
		strings.Join(x.Items, ", "))
	if x.Ranking == nil {
		fmt.Fprintln(w, "  the statistics at that moment are not known here")
		return
	}
	state := "  state: " + plural.N(x.Payoffs, "payoff")
	for k, s := range x.Sources {
		state += fmt.Sprintf("%s partition %d as of its checkpoint %d", [...]string{";", ","}[min(k, 1)], s.Partition, s.Checkpoint)
	}
	fmt.Fprintln(w, state)
	printRanking(w, x.Ranking)
}
