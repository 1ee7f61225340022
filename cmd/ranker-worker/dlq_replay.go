package main

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/ranker-worker/ranker-worker/internal/dlq"
	"github.com/ranker-worker/ranker-worker/internal/plural"
	"github.com/ranker-worker/ranker-worker/stream/event"
)

func newDLQReplayCommand() *cobra.Command {
	var (
		from, to, offsets string
		q                 dlq.Query
	)
	cmd := verb(configFlag|jsonFlag, &cobra.Command{
		Use:   "replay [--config FILE] [--topic T] [--reason R] [--from T] [--to T] [--partition P] [--offsets A-B] --yes",
		Short: "Send the records of dead letters again",
		Long: `Send the records of dead letters again, with the same key and bytes, to the topic and partition where they were refused, once
the cause is mended: a learner that was not configured, a bound that was too low. Without --yes it only counts them.

Each record sent carries the header ranker.replay.of with the place of its dead letter. A repeated command, also after
an interruption, uses it to leave out records that were sent before, as far back as the input topics are kept. Records that
were refused a second time are left out unless --again is given. Two commands at the same time can send twice.
Records that were cut off, or skipped by state skip, cannot be sent: their bytes are incomplete.`,
		Example: `  ranker-worker dlq replay --config worker.yaml --reason unknown_learner
  ranker-worker dlq replay --config worker.yaml --reason unknown_learner --from 2h --yes
  ranker-worker dlq replay --config worker.yaml --topic payoffs --partition 3 --offsets 1042-1100 --yes`,
	}, func(c *call) error {
		var err error
		now := time.Now()
		if q.From, err = parseMoment(from, now); err != nil {
			return err
		}
		if q.To, err = parseMoment(to, now); err != nil {
			return err
		}
		if q.First, q.Last, err = parseOffsets(offsets); err != nil {
			return err
		}
		for _, r := range q.Reasons {
			if !slices.Contains(event.Reasons(), event.Reason(r)) {
				return usageError{fmt.Errorf("no such reason %q; docs/reference/dead-letters.md has them", r)}
			}
		}
		return c.withBox(func(b *dlq.Box) error {
			r, err := b.Replay(c.ctx, q, c.say)
			if r == nil {
				return err
			}
			return errors.Join(err, c.show(r, func(w io.Writer) { showReplay(w, r) }))
		})
	})
	topicsFlag(cmd, &q.Topics)
	f := cmd.Flags()
	f.StringSliceVar(&q.Reasons, "reason", nil, "only those refused for this `REASON`; can be repeated")
	f.StringVar(&from, "from", "", "only those refused from this `TIME` on: RFC 3339, or how long ago, such as 2h")
	f.StringVar(&to, "to", "", "only those refused before this `TIME`")
	f.IntVar(&q.Partition, "partition", -1, "only those of this partition")
	f.StringVar(&offsets, "offsets", "", "only records from offset `A-B` of their topics, both included; A- has no end")
	f.BoolVar(&q.ByKey, "by-key", false, "send to the key's partition by murmur2, instead of the record's")
	f.BoolVar(&q.Again, "again", false, "also records that were sent before, and refused a second time")
	yesFlag(cmd, &q.Do, "send; without, only count the records")
	return cmd
}

// parseOffsets reads A-B, A- or A; empty: all.
func parseOffsets(text string) (first, last int64, err error) {
	if text == "" {
		return 0, -1, nil
	}
	from, to, ranged := strings.Cut(text, "-")
	first, err = strconv.ParseInt(from, 10, 64)
	last = first
	if err == nil && ranged {
		if last = -1; to != "" {
			last, err = strconv.ParseInt(to, 10, 64)
		}
	}
	if err != nil || last >= 0 && last < first {
		return 0, 0, usageError{fmt.Errorf("--offsets %q is not A-B, such as 1042-1100", text)}
	}
	return first, last, nil
}

func showReplay(out io.Writer, r *dlq.Replayed) {
	did := "sent again"
	if !r.Done {
		did = "would be sent again; use --yes"
	}
	fmt.Fprintf(out, "%s %s\n", plural.N(r.Sent, "record"), did)
	for _, reason := range slices.Sorted(maps.Keys(r.ByReason)) {
		fmt.Fprintf(out, "  %-24s %d\n", printable(reason), r.ByReason[reason])
	}
	for _, left := range []struct {
		n   int
		why string
	}{{r.Before, "were sent again before"}, {r.Refused, "were refused a second time: --again includes them"},
		{r.Cut, "are cut off or were skipped: their bytes are not all there"}, {r.Duplicate, "are further dead letters of the same record"}} {
		if left.n > 0 {
			fmt.Fprintf(out, "left out: %d %s\n", left.n, left.why)
		}
	}
}
