package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/ranker-worker/ranker-worker/internal/admin"
)

func newSkipCommand() *cobra.Command {
	var (
		flags stateFlags
		q     admin.SkipQuery
	)
	cmd := &cobra.Command{
		Use:   "skip --config FILE --partition P --topic T --offset N --why TEXT",
		Short: "Pass over a record that no worker can read",
		Long: `Pass over a record that no worker can read, and that nothing will make readable again: bytes that a disk has damaged, or
a batch in a form that this version does not know. A partition waits at such a record for ever; /readyz and the log name its
topic and offset.

It goes with the records behind it that are packed into the same batch and cannot be read either. Each is counted as
rejected, and gets a dead letter with the reason "skipped" and your TEXT; that of the first holds the batch as the broker
sends it. What was done stands in the partition's history, which state inspect shows. What comes before is read first, as
a worker would. Impressions that are passed over are not ranked, payoffs not learned. The last record that was taken in, which
workers compare with what they know, can be given too: then it is not compared any more.

It refuses where a worker could read the record, and while the group has live members.`,
		Example: `  ranker-worker state skip --config worker.yaml --partition 3 --topic payoffs --offset 1042 --why "disk of broker 2, INC-77"`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return withTool(cmd, flags.file, func(tool *admin.Tool) error {
				r, err := tool.Skip(cmd.Context(), q)
				if err != nil {
					return err
				}
				if flags.json {
					return printJSON(cmd.OutOrStdout(), r)
				}
				if r.Taken {
					_, err = fmt.Fprintf(cmd.OutOrStdout(), "partition %d: offset %d of %s had been taken in, and is not compared any more (%s)\n",
						r.Partition, r.From, r.Topic, r.Fault)
					return err
				}
				_, err = fmt.Fprintf(cmd.OutOrStdout(), "partition %d: offsets %d to %d of %s are passed over (%s)\n"+
					"each has a dead letter; that of the first keeps %d bytes\n", r.Partition, r.From, r.Through, r.Topic, r.Fault, r.Kept)
				return err
			})
		},
	}
	flags.add(cmd)
	f := cmd.Flags()
	f.Int32Var(&q.Partition, "partition", 0, "the record's `PARTITION`")
	f.StringVar(&q.Topic, "topic", "", "impressions, selections or payoffs, or the `TOPIC`'s name")
	f.Int64Var(&q.Offset, "offset", 0, "the record's `OFFSET`")
	f.StringVar(&q.Why, "why", "", "`TEXT` that is kept with the dead letter and the state")
	for _, name := range []string{"partition", "topic", "offset", "why"} {
		_ = cmd.MarkFlagRequired(name) // cannot fail: the flag has just been made
	}
	return cmd
}
