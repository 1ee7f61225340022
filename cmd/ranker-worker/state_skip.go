package main

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/ranker-worker/ranker-worker/internal/admin"
	"github.com/ranker-worker/ranker-worker/internal/plural"
)

func newSkipCommand() *cobra.Command {
	var q admin.SkipQuery
	cmd := toolVerb(&cobra.Command{
		Use:   "skip [--config FILE] --partition P --topic T --offset N --why TEXT",
		Short: "Skip a record that no worker can read",
		Long: `Skip a record that no worker can ever read: bytes that a disk has damaged, or a batch in a format that this version does not
know. A partition waits at such a record for ever; /readyz and the log name its topic and offset.

Unreadable records behind it in the same batch are skipped with it. Each counts as rejected, and gets a dead letter with the
reason "skipped" and your TEXT; the first one's holds the batch as the broker sends it. The partition's history records the
skip, and state inspect shows it. Earlier records are read first, as by a worker. Skipped impressions are not ranked, skipped
payoffs not learned. The last record read, which workers compare with the state, can be skipped too: then it is not compared.

It refuses if a worker could read the record, and while the group has live members.`,
		Example: `  ranker-worker state skip --config worker.yaml --partition 3 --topic payoffs --offset 1042 --why "disk of broker 2, INC-77"`,
	}, func(c *call, tool *admin.Tool) (*admin.SkipReport, error) {
		return tool.Skip(c.ctx, q)
	}, func(w io.Writer, r *admin.SkipReport) {
		if r.Taken {
			fmt.Fprintf(w, "partition %d: offset %d of %s had been read, and is no longer compared (%s)\n", r.Partition, r.From, r.Topic, r.Fault)
			return
		}
		fmt.Fprintf(w, "partition %d: offsets %d to %d of %s are skipped (%s)\neach has a dead letter; the first one's keeps %s\n",
			r.Partition, r.From, r.Through, r.Topic, r.Fault, plural.N(r.Kept, "byte"))
	})
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
