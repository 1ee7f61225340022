package main

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/ranker-worker/ranker-worker/internal/audit"
	"github.com/ranker-worker/ranker-worker/internal/plural"
)

func newExplainCommand() *cobra.Command {
	var file string
	asJSON := false
	var base string
	cmd := &cobra.Command{
		Use:   "explain ID --config FILE [--base DIR]",
		Short: "Explain an impression's ranking by the statistics at that moment",
		Long: `Replay the topics up to the ranking of an impression, and show its learner's statistics at that moment and the reason for each
candidate's place. It only reads topics, in no group, from their beginning or from a base (--base); see replay.

If an id was used again after it was forgotten, the first ranking is shown.`,
		Example: `  ranker-worker explain i-77 --config worker.yaml
  ranker-worker explain i-77 --config worker.yaml --json`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			x, err := runExplain(cmd, file, base, args[0])
			if err != nil {
				return err
			}
			if asJSON {
				return printJSON(cmd.OutOrStdout(), x)
			}
			return printExplanation(cmd.OutOrStdout(), x)
		},
	}
	f := cmd.Flags()
	f.StringVarP(&file, "config", "c", "", "the configuration `FILE`, as the workers have it")
	_ = cmd.MarkFlagRequired("config")
	_ = cmd.MarkFlagFilename("config", "yaml", "yml")
	baseFlag(cmd, &base)
	f.BoolVar(&asJSON, "json", false, "print one JSON document on stdout")
	return cmd
}

func runExplain(cmd *cobra.Command, file, base, id string) (x *audit.Explanation, err error) {
	err = withTopics(cmd, file, base, func(ctx context.Context, topics *audit.Topics, say func(string)) error {
		rankings := 0
		x, err = topics.Explain(ctx, id, func(at int64) {
			if rankings++; rankings%1000 == 0 {
				say(fmt.Sprintf("%d rankings, up to %s", rankings, time.UnixMilli(at).UTC().Format(time.RFC3339)))
			}
		})
		return err
	})
	return x, err
}

func printExplanation(w io.Writer, x *audit.Explanation) error {
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
	if _, err := fmt.Fprintf(w, "%s: partition %d, offset %d, %s, learner %s%s, %s\n  shown: %s\n", x.ID, x.Partition, x.Offset, x.Time, x.Learner, arm, how,
		strings.Join(x.Items, ", ")); err != nil {
		return err
	}
	if x.Ranking == nil {
		_, err := fmt.Fprintln(w, "  the statistics at that moment are not known here")
		return err
	}
	state := "  state: " + plural.N(x.Payoffs, "payoff")
	for k, s := range x.Sources {
		state += fmt.Sprintf("%s partition %d as of its checkpoint %d", [...]string{";", ","}[min(k, 1)], s.Partition, s.Checkpoint)
	}
	_, err := fmt.Fprintln(w, state)
	printRanking(w, x.Ranking)
	return err
}
