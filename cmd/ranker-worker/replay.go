package main

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/ranker-worker/ranker-worker/internal/audit"
	"github.com/ranker-worker/ranker-worker/internal/plural"
	"github.com/ranker-worker/ranker-worker/stream/replay"
)

const notTheSame = shown("rankings come out different")

type replayReport struct {
	replay.Result
	Partitions []replayedPartition `json:"partitions"`
}

type replayedPartition struct {
	Partition int `json:"partition"`
	replay.Result
	Difference *difference `json:"first_difference,omitempty"`
}

// difference is a ranking that the replay made differently.
type difference struct {
	ID     string `json:"impression_id"`
	Offset int64  `json:"offset"` // in the rankings topic
	Is     string `json:"is"`
	Again  string `json:"again"`
}

func newReplayCommand() *cobra.Command {
	only, base := -1, ""
	cmd := verb(configFlag|jsonFlag, &cobra.Command{
		Use:   "replay [--config FILE] [--base DIR]",
		Short: "Compute all rankings again from the topics alone, and compare them byte by byte",
		Long: `Compute the rankings of a group again, from its topics and the headers of its rankings, and compare each with the logged one,
byte by byte. It only reads topics, in no group: workers go on undisturbed.

A ranking is identical, different, or not exact: then the topics lack some of its inputs, and the reason is given. Rankings
are not exact if they were made with other settings or on another kind of processor, if a state command has changed the state,
or if the topics have lost their beginning. A partition's are not exact from where Redis went back, or was rebuilt, up to the next
base behind. The last rankings of a log may depend on statistics of other partitions that no ranking has recorded yet.

All partitions are replayed, since they learn from each other. Exit code 1 if a ranking is different.`,
		Example: `  ranker-worker replay --config worker.yaml
  ranker-worker replay --config worker.yaml --base bases
  ranker-worker replay --config worker.yaml --partition 3 --json`,
	}, func(c *call) error {
		return c.withTopics(base, func(topics *audit.Topics) error {
			r, err := replayAll(c.ctx, topics, c.say)
			if err != nil {
				return err
			}
			if only >= len(r.Partitions) {
				return usageError{fmt.Errorf("--partition: the topics have %d", len(r.Partitions))}
			}
			if only >= 0 {
				r.Partitions = r.Partitions[only : only+1]
			}
			for _, p := range r.Partitions {
				r.Result = r.Result.Plus(p.Result)
			}
			if err := c.show(r, r.print); err != nil || r.Different == 0 {
				return err
			}
			return notTheSame
		})
	})
	cmd.Flags().IntVar(&only, "partition", -1, "report partition `N` alone (default: all)")
	baseFlag(cmd, &base)
	return cmd
}

func baseFlag(cmd *cobra.Command, base *string) {
	cmd.Flags().StringVar(base, "base", "", "begin with the first base in this `DIR`, and go on with the next behind rankings that are not exact; see \"state base\" (default: where the topics begin)")
	_ = cmd.MarkFlagDirname("base")
}

// withTopics calls do with the configuration's topics, from their beginning or from a base.
func (c *call) withTopics(base string, do func(*audit.Topics) error) error {
	cfg, err := c.load()
	if err != nil {
		return err
	}
	topics, err := audit.Open(c.ctx, cfg)
	if err != nil {
		return err
	}
	defer topics.Close()
	if base != "" {
		if err := topics.From(base); err != nil {
			return err
		}
	}
	return do(topics)
}

func replayAll(ctx context.Context, topics *audit.Topics, say func(string)) (*replayReport, error) {
	var rankings, different int64
	results, err := topics.Replay(ctx, &replay.Config{Made: func(m replay.Made) bool {
		if rankings++; !m.Same && m.NotExact == "" {
			different++
		}
		if rankings%1000 == 0 {
			say(fmt.Sprintf("%d rankings, %d different, up to %s", rankings, different, time.UnixMilli(m.Time).UTC().Format(time.RFC3339)))
		}
		return false
	}})
	if err != nil {
		return nil, err
	}
	r := &replayReport{}
	for i, one := range results {
		x := replayedPartition{Partition: i, Result: one}
		if d := one.First; d != nil {
			x.Difference = &difference{d.ID, d.Ranking.Offset, string(d.Ranking.Value), string(d.Again)}
		}
		r.Partitions = append(r.Partitions, x)
	}
	return r, nil
}

func (r *replayReport) print(w io.Writer) {
	notExact := int64(0)
	for _, n := range r.NotExact {
		notExact += n.Rankings
	}
	fmt.Fprintf(w, "%s: %d identical, %d different, %d not exact\n", plural.N(r.Rankings, "ranking"), r.Same, r.Different, notExact)
	for _, why := range slices.Sorted(maps.Keys(r.NotExact)) {
		n := r.NotExact[why]
		fmt.Fprintf(w, "  not exact: %d, since %s, rankings[%d] at offset %d: %s\n", n.Rankings, n.Since.Format(time.RFC3339), n.Partition, n.Offset, why)
	}
	for i := range r.Partitions {
		if d := r.Partitions[i].Difference; d != nil {
			fmt.Fprintf(w, "first difference of partition %d: %q, at offset %d of the rankings\n  is     %s\n  again  %s\n",
				r.Partitions[i].Partition, d.ID, d.Offset, d.Is, d.Again)
		}
	}
}
