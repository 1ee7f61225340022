package main

import (
	"errors"
	"io"

	"github.com/spf13/cobra"

	"github.com/ranker-worker/ranker-worker/config"
	"github.com/ranker-worker/ranker-worker/internal/admin"
)

func newStateCommand() *cobra.Command {
	cmd := verb(0, &cobra.Command{
		Use:   "state",
		Short: "Inspect, export, import, warm and repair the stored state",
		Long: `Inspect the state that workers keep in Redis, carry statistics from one group to another, and repair the state after a
change that a worker cannot make by itself.

inspect, base and export only read, with or without running workers. The others change the state: they refuse while the group
has live members, and need --yes where something is lost.`,
		Example: `  ranker-worker state inspect --config worker.yaml --learner feed --candidates a:0.1,b:0.7
  ranker-worker state export --config worker.yaml > learned.jsonl`,
	}, (*call).help)
	cmd.AddCommand(newInspectCommand(), newBaseCommand(), newExportCommand(), newImportCommand(), newWarmCommand(), newResetCommand(), newRebuildCommand(), newReshardCommand(), newSkipCommand())
	return cmd
}

// toolVerb completes a command that does work on the state which the configuration names, and prints its report.
func toolVerb[R any](cmd *cobra.Command, work func(*call, *admin.Tool) (*R, error), print func(io.Writer, *R)) *cobra.Command {
	return verb(configFlag|jsonFlag, cmd, func(c *call) error {
		return c.withTool(func(tool *admin.Tool) error {
			r, err := work(c, tool)
			return showReport(c, r, err, print)
		})
	})
}

// showReport shows a report, unless the work failed for another reason than a missing --yes.
func showReport[R any](c *call, r *R, err error, print func(io.Writer, *R)) error {
	if r == nil || err != nil && !errors.Is(err, admin.ErrConfirm) {
		return err
	}
	return errors.Join(err, c.show(r, func(w io.Writer) { print(w, r) }))
}

func (c *call) withTool(do func(*admin.Tool) error) error {
	cfg, err := c.load(config.KafkaFiles, config.RedisFiles)
	if err != nil {
		return err
	}
	tool, err := admin.New(cfg, admin.Options{Progress: c.say})
	if err != nil {
		return err
	}
	return errors.Join(do(tool), tool.Close())
}

// confirmFlag adds the confirmation of a command that loses something.
func confirmFlag(cmd *cobra.Command, yes *bool) {
	yesFlag(cmd, yes, "do it; without, only show the losses")
}
