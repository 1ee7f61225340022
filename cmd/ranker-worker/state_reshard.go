package main

import (
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/ranker-worker/ranker-worker/internal/admin"
	"github.com/ranker-worker/ranker-worker/internal/plural"
)

func newReshardCommand() *cobra.Command {
	var (
		q     admin.ReshardQuery
		would bool // without --yes
	)
	cmd := toolVerb(&cobra.Command{
		Use:   "reshard [--config FILE] [--recreated] --yes",
		Short: "Fold the state into another number of partitions, after the topics' was changed",
		Long: `Fold the state of the old partitions into new ones, after partitions were added to all topics, dead-letter topics included.
Pending impressions, tombstones and parked records go where Kafka's default partitioner puts their ids now. Statistics go to
partition p modulo the new number; further new partitions begin with copies of BOLD's instances, and with the pooled
statistics. Holds of QPM-D are released.

The order: stop the producers (records that they write to the old partitions by the old count after this command has begun
become orphans); stop the workers; add the partitions; run this command; start all. It first reads and ranks the unread
records of the old partitions.

Fewer partitions: Kafka cannot remove any. Create topics with other names, rankings included, and the wanted number; let the
producers write there; stop the workers; name the new topics in the configuration; run this command; start the workers.
It reads and ranks the rest of the old topics first; the new ones are read from their beginning.

The new state is built beside the old one and then moved into its place. After an interruption run the command again.
With --recreated all topics were deleted and created again under the same names, with any number of partitions, after all
their records had been read: they are read from their beginning.

Without --yes it changes nothing, and reports the same refusals; also before the partitions are added.

It refuses while the group has live members.`,
		Example: `  kafka-topics.sh --bootstrap-server kafka:9092 --alter --topic impressions --partitions 6   # and all others
  ranker-worker state reshard --config worker.yaml --yes
  ranker-worker topics --config fewer.yaml --create   # names other topics
  ranker-worker state reshard --config fewer.yaml --yes`,
	}, func(c *call, tool *admin.Tool) (*admin.ReshardReport, error) {
		r, err := tool.Reshard(c.ctx, q)
		would = errors.Is(err, admin.ErrConfirm)
		return r, err
	}, func(w io.Writer, r *admin.ReshardReport) {
		switch {
		case r.Done:
			fmt.Fprintf(w, "The state has %s now; ids carried over: %d.\n", plural.N(r.To, "partition"), r.Entries)
			if r.Forgotten > 0 {
				fmt.Fprintf(w, "Tombstones dropped, because their ids are no UUIDs and their new partitions are unknown: %d. Their "+
					"later records are orphans, or ranked again.\n", r.Forgotten)
			}
		case would:
			fmt.Fprintf(w, "The state would be folded from %s into %s.\n", plural.N(r.From, "partition"), plural.N(r.To, "partition"))
		default:
			fmt.Fprintf(w, "The state belongs to these topics, with %s: nothing to do.\n", plural.N(r.To, "partition"))
		}
	})
	cmd.Flags().BoolVar(&q.Recreated, "recreated", false, "the topics were created again")
	confirmFlag(cmd, &q.Yes)
	return cmd
}
