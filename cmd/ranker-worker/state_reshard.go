package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/ranker-worker/ranker-worker/internal/admin"
)

func newReshardCommand() *cobra.Command {
	var (
		flags stateFlags
		q     admin.ReshardQuery
	)
	cmd := &cobra.Command{
		Use:   "reshard --config FILE [--recreated] --yes",
		Short: "Fold the state into another number of partitions, after the topics' was changed",
		Long: `Fold what is stored of the old partitions into new ones, after partitions were added to the topics: to all of them,
dead-letter topics included. Pending impressions, tombstones and parked records go where Kafka's default partitioner
puts their ids now. What learners know goes to partition p modulo the new number; new ones beyond that begin with copies
of BOLD's instances, and with the statistics that all partitions pool. Holds of QPM-D are released.

The order: stop the producers or accept that what they wrote to the old partitions by the old count after this command
has begun becomes orphans; stop the workers; add the partitions; give this command; start all. It first reads and ranks
what the old partitions had not read yet.

Fewer partitions: Kafka takes none away. Make topics of other names, rankings included, with as many as wanted; let the
producers write there; stop the workers; name the new topics in the configuration; give this command; start the workers.
It reads and ranks what is left in the old topics first; the new ones are read from their beginning.

The new state is put together beside the old one and then moved into its place. Cut off, the command can be given again.
With --recreated the topics were deleted and made anew under the same names, all of them, with whatever number, after all
that they held had been read: they are read from their beginning.

Without --yes it changes nothing, and refuses what it would refuse with it; also before the partitions are added.

It refuses while the group has live members.`,
		Example: `  kafka-topics.sh --bootstrap-server kafka:9092 --alter --topic impressions --partitions 6   # and all others
  ranker-worker state reshard --config worker.yaml --yes
  ranker-worker topics --config fewer.yaml --create   # names other topics
  ranker-worker state reshard --config fewer.yaml --yes`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return withTool(cmd, flags.file, func(tool *admin.Tool) error {
				r, err := tool.Reshard(cmd.Context(), q)
				if r == nil || err != nil && !errors.Is(err, admin.ErrConfirm) {
					return err
				}
				if flags.json {
					return errors.Join(err, printJSON(cmd.OutOrStdout(), r))
				}
				out := cmd.OutOrStdout()
				switch {
				case r.Done:
					_, err = fmt.Fprintf(out, "The state has %d partitions now; %d ids were carried over.\n", r.To, r.Entries)
					if r.Forgotten > 0 && err == nil {
						_, err = fmt.Fprintf(out, "%d impressions that had ended are remembered no longer: their ids are no UUIDs, so that nobody knows where they belong. What comes "+
							"for them again is an orphan, or ranked again.\n", r.Forgotten)
					}
				case err == nil:
					_, err = fmt.Fprintf(out, "The state is of these topics, with %d partitions: there is nothing to do.\n", r.To)
				default:
					fmt.Fprintf(out, "The state would be folded from %d into %d partitions.\n", r.From, r.To)
				}
				return err
			})
		},
	}
	flags.add(cmd)
	cmd.Flags().BoolVar(&q.Recreated, "recreated", false, "the topics were made anew")
	yesFlag(cmd, &q.Yes)
	return cmd
}
