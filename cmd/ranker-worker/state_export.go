package main

import (
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/ranker-worker/ranker-worker/internal/admin"
	"github.com/ranker-worker/ranker-worker/internal/plural"
)

func newExportCommand() *cobra.Command {
	var learner, file string
	cmd := verb(configFlag|jsonFlag, &cobra.Command{
		Use:   "export [--config FILE] [--learner L] [--output FILE]",
		Short: "Write learners' statistics as JSON lines, for an import elsewhere",
		Long: `Write learners' statistics as JSON lines: items with their payoffs, windows, BOLD's instances. It only reads, and can
run beside workers. Work in progress is left out: impressions, waiting payoffs, holds.

The lines go to stdout, or with --output to a file, which is written completely or not at all. With --json, a summary goes
to stdout and --output is needed.`,
		Example: `  ranker-worker state export --config worker.yaml > learned.jsonl
  ranker-worker state export --config worker.yaml --learner feed --output feed.jsonl --json`,
	}, func(c *call) error {
		if c.json && file == "" {
			return usageError{errors.New("--json needs --output: stdout cannot take both")}
		}
		return c.withTool(func(tool *admin.Tool) error {
			var r *admin.ExportReport
			err := writeOut(c.out(), file, func(w io.Writer) (err error) {
				r, err = tool.Export(c.ctx, learner, w)
				return err
			})
			if err != nil {
				return err
			}
			if c.json {
				return c.show(r, nil)
			}
			_, err = fmt.Fprintf(c.errOut(), "Exported %s of %s: %s, %s.\n", plural.N(len(r.Learners), "learner"),
				plural.N(r.Partitions, "partition"), plural.N(r.Items, "item"), plural.N(r.Lines, "line"))
			return err
		})
	})
	cmd.Flags().StringVar(&learner, "learner", "", "only the learner of this `NAME`")
	cmd.Flags().StringVarP(&file, "output", "o", "", "write to this `FILE` in place of stdout")
	return cmd
}

// writeOut calls write with stdout, or with a file that is renamed to its name when complete.
func writeOut(stdout io.Writer, file string, write func(io.Writer) error) error {
	if file == "" {
		return write(stdout)
	}
	part := file + ".part"
	f, err := os.OpenFile(part, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	err = write(f)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return errors.Join(err, os.Remove(part))
	}
	return os.Rename(part, file)
}

func newImportCommand() *cobra.Command {
	var (
		q    admin.ImportQuery
		file string
	)
	cmd := toolVerb(&cobra.Command{
		Use:   "import [--config FILE] [--input FILE] [--learner L] [--as M]",
		Short: "Add exported statistics to a learner",
		Long: `Add the statistics of a learner in an export to a learner of this group, as if its payoffs had been fed here.
Partition i of the export goes to partition i modulo the number of partitions here. The learner must have been
exported under the same fingerprint: payoffs, payoff range, aggregate, delay.

BOLD's instances keep their numbers; if several partitions go to one, instance i of the r-th of k becomes i·k+r. An
instance with statistics keeps them.

The state's history records the import, and the same export is refused a second time, until the learner is reset or
unless --again is given; an interrupted import is completed. It refuses while the group has live members.

A group that has never run begins here, so that its first ranking uses the import: kafka.start decides now where it
begins to read. A group that has run before and has lost its state is refused: see state rebuild.`,
		Example: `  ranker-worker state import --config worker.yaml --input learned.jsonl
  ranker-worker state import --config worker.yaml --learner feed --as feed-v2 < learned.jsonl`,
	}, func(c *call, tool *admin.Tool) (*admin.ImportReport, error) {
		if file == "" {
			return tool.Import(c.ctx, c.cmd.InOrStdin(), q)
		}
		f, err := os.Open(file)
		if err != nil {
			return nil, err
		}
		defer f.Close()
		return tool.Import(c.ctx, f, q)
	}, func(w io.Writer, r *admin.ImportReport) {
		for _, p := range r.Partitions {
			fmt.Fprintf(w, "partition %d: added to learner %s: %s of %s\n", p.Partition, r.Learner, plural.N(p.Payoffs, "payoff"), plural.N(p.Items, "item"))
		}
	})
	f := cmd.Flags()
	f.StringVarP(&file, "input", "i", "", "read this `FILE` in place of stdin")
	f.StringVar(&q.Learner, "learner", "", "the learner's `NAME` in the export; not needed where it has one only")
	f.StringVar(&q.As, "as", "", "add to the learner of this `NAME`, in place of that of the same name")
	f.BoolVar(&q.Again, "again", false, "also if it was imported before: it then counts twice")
	return cmd
}
