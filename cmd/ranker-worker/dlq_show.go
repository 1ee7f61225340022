package main

import (
	"cmp"
	"context"
	"encoding/hex"
	"fmt"
	"io"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/ranker-worker/ranker-worker/internal/dlq"
)

func newDLQShowCommand() *cobra.Command {
	return verb(configFlag|jsonFlag, &cobra.Command{
		Use:   "show [--config FILE] TOPIC/PARTITION/OFFSET",
		Short: "Show one dead letter in full, with its likely cause",
		Long: `Show one dead letter: reason, headers, key, value, and a hint if its bytes suggest the cause, such as a serializer with
a schema registry, a tombstone, or times written as numbers. TOPIC/PARTITION/OFFSET is the place of the refused record, as
dlq tail prints it; with a dead-letter topic's name it is the place of the dead letter.`,
		Example: `  ranker-worker dlq show --config worker.yaml payoffs/3/1042
  ranker-worker dlq show --config worker.yaml payoffs.dlq/3/17 --json`,
		Args: cobra.ExactArgs(1),
	}, func(c *call) error {
		at, err := parseAt(c.args[0])
		if err != nil {
			return err
		}
		return c.withBox(func(b *dlq.Box) error {
			l, err := b.Find(c.ctx, at)
			if err != nil {
				return c.ended(err)
			}
			return c.show(asJSON(l), func(w io.Writer) { showLetter(c.ctx, w, b, l) })
		})
	})
}

func showLetter(ctx context.Context, out io.Writer, b *dlq.Box, l *dlq.Letter) {
	fmt.Fprintf(out, "record   %s\nletter   %s\nrefused  %s\nreason   %s\ndetail   %s\n", l.Of, l.Letter, l.Time.UTC().Format(time.RFC3339Nano), l.Reason, l.Detail)
	stamped, replayOf, found, err := b.Original(ctx, l)
	switch {
	case err != nil:
		fmt.Fprintf(out, "original cannot be read: %v\n", err)
	case !found:
		fmt.Fprintln(out, "original is no longer in its topic")
	default:
		fmt.Fprintf(out, "original is in its topic, with the Kafka timestamp %s\n", stamped.UTC().Format(time.RFC3339Nano))
		if replayOf != "" {
			fmt.Fprintf(out, "         it had been sent again from dead letter %s, and was refused a second time\n", replayOf)
		}
	}
	if l.Size > 0 {
		fmt.Fprintf(out, "cut off  key and value had %d bytes\n", l.Size)
	}
	hint := dlq.Hint(l)
	if found {
		hint = cmp.Or(hint, dlq.TimestampHint(stamped))
	}
	if hint != "" {
		fmt.Fprintf(out, "hint     %s\n", hint)
	}
	for _, h := range l.Headers {
		fmt.Fprintf(out, "header   %s: %s\n", h.Key, abridged(h.Value, 1000))
	}
	fmt.Fprintf(out, "key      %s\n", abridged(l.Key, len(l.Key)))
	switch {
	case l.Value == nil:
		fmt.Fprintln(out, "value    null")
	case utf8.Valid(l.Value):
		fmt.Fprintf(out, "value    %d bytes\n%s\n", len(l.Value), l.Value)
	default:
		fmt.Fprintf(out, "value    %d bytes\n%s", len(l.Value), hex.Dump(l.Value))
	}
}
