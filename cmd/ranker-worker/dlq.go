package main

import (
	"cmp"
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/ranker-worker/ranker-worker/internal/dlq"
)

func newDLQCommand() *cobra.Command {
	cmd := verb(0, &cobra.Command{
		Use:   "dlq",
		Short: "Look at dead letters, and send their records again",
		Long: `Look at the group's dead letters: records that workers have refused, with the reason. tail shows them as they come, show
prints one in full, replay sends their records again once the cause is mended. None of these joins the group.`,
		Example: `  ranker-worker dlq tail --config worker.yaml
  ranker-worker dlq show --config worker.yaml payoffs/3/1042
  ranker-worker dlq replay --config worker.yaml --reason unknown_learner --yes`,
	}, (*call).help)
	cmd.AddCommand(newDLQTailCommand(), newDLQShowCommand(), newDLQReplayCommand())
	return cmd
}

// withBox calls do with the dead letters of the configuration.
func (c *call) withBox(do func(*dlq.Box) error) error {
	cfg, err := c.load()
	if err != nil {
		return err
	}
	b, err := dlq.Open(cfg)
	if err != nil {
		return err
	}
	defer b.Close()
	return do(b)
}

func topicsFlag(cmd *cobra.Command, topics *[]string) {
	cmd.Flags().StringSliceVar(topics, "topic", nil, "only of this `TOPIC`: impressions, selections, payoffs, or a topic's name; can be repeated")
}

// letterJSON is a dead letter in --json. Key and value are text if they are UTF-8, else base64 under the other name.
type letterJSON struct {
	*dlq.Letter
	KeyText   *string `json:"key_text,omitempty"`
	ValueText *string `json:"value_text,omitempty"`
	Hint      string  `json:"hint,omitempty"`
}

func asJSON(l *dlq.Letter) letterJSON {
	return letterJSON{l, validText(l.Key), validText(l.Value), dlq.Hint(l)}
}

func parseAt(text string) (at dlq.At, err error) {
	parts := strings.Split(text, "/")
	if len(parts) == 3 {
		at.Topic = parts[0]
		if at.Partition, err = strconv.Atoi(parts[1]); err == nil {
			at.Offset, err = strconv.ParseInt(parts[2], 10, 64)
		}
	}
	if len(parts) != 3 || err != nil || at.Partition < 0 || at.Offset < 0 {
		return at, usageError{fmt.Errorf("%q is not TOPIC/PARTITION/OFFSET, such as payoffs/3/1042", text)}
	}
	return at, nil
}

// parseMoment reads an RFC 3339 time, or a duration before now; the zero time for "".
func parseMoment(text string, now time.Time) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	if at, err := time.Parse(time.RFC3339, text); err == nil {
		return at, nil
	}
	d, err := time.ParseDuration(text)
	if err != nil || d < 0 {
		return time.Time{}, usageError{fmt.Errorf("%q is neither a time such as 2026-11-21T10:00:00Z nor how long ago, such as 2h", text)}
	}
	return now.Add(-d), nil
}

func newDLQShowCommand() *cobra.Command {
	return verb(configFlag|jsonFlag, &cobra.Command{
		Use:   "show [--config FILE] TOPIC/PARTITION/OFFSET",
		Short: "Show one dead letter in full, with its likely cause",
		Long: `Show one dead letter: reason, headers, key, value, and a hint if its bytes suggest the cause, such as a serializer with
a schema registry, a tombstone, or times written as numbers. TOPIC/PARTITION/OFFSET is the place of the refused record, as
dlq tail prints it; with a dead-letter topic's name it is the place of the dead letter.`,
		Example: `  ranker-worker dlq show --config worker.yaml payoffs/3/1042
  ranker-worker dlq show --config worker.yaml payoffs.dlq/3/17 --json`,
		Args: one("a dead letter"),
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
	fmt.Fprintf(out, "record   %s\nletter   %s\nrefused  %s\nreason   %s\ndetail   %s\n", printable(l.Of.String()), l.Letter,
		l.Time.UTC().Format(time.RFC3339Nano), printable(l.Reason), printable(l.Detail))
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
		fmt.Fprintf(out, "header   %s: %s\n", printable(h.Key), abridged(h.Value, 1000))
	}
	fmt.Fprintf(out, "key      %s\n", abridged(l.Key, len(l.Key)))
	switch {
	case l.Value == nil:
		fmt.Fprintln(out, "value    null")
	case utf8.Valid(l.Value):
		fmt.Fprintf(out, "value    %d bytes\n%s\n", len(l.Value), printable(string(l.Value)))
	default:
		fmt.Fprintf(out, "value    %d bytes\n%s", len(l.Value), hex.Dump(l.Value))
	}
}

func newDLQTailCommand() *cobra.Command {
	var (
		topics []string
		last   int
		once   bool
	)
	cmd := verb(configFlag|jsonFlag, &cobra.Command{
		Use:   "tail [--config FILE] [--topic T] [--last N] [--once]",
		Short: "Show the last dead letters, and new ones as they come",
		Long: `Show the group's last dead letters, and then each that comes, until it is ended. Each is one line: when it was refused,
topic/partition/offset of the record, the reason, its key, and the beginning of its value. dlq show has the rest.`,
		Example: `  ranker-worker dlq tail --config worker.yaml
  ranker-worker dlq tail --config worker.yaml --topic payoffs --last 100 --once
  ranker-worker dlq tail --config worker.yaml --json | jq .reason`,
	}, func(c *call) error {
		if last < 0 {
			return usageError{fmt.Errorf("--last cannot be negative")}
		}
		enc := json.NewEncoder(c.out())
		return c.withBox(func(b *dlq.Box) error {
			return c.ended(b.Tail(c.ctx, topics, last, !once, func(l *dlq.Letter) error {
				if c.json {
					return enc.Encode(asJSON(l))
				}
				_, err := fmt.Fprintf(c.out(), "%s  %s  %s  key %s  %s\n", l.Time.UTC().Format(time.RFC3339), printable(l.Of.String()),
					printable(l.Reason), abridged(l.Key, 64), abridged(l.Value, 100))
				return err
			}))
		})
	})
	topicsFlag(cmd, &topics)
	cmd.Flags().IntVar(&last, "last", 10, "begin with this many existing ones")
	cmd.Flags().BoolVar(&once, "once", false, "end with those that are there")
	cmd.Flags().Lookup("json").Usage = "print each as one line of JSON"
	return cmd
}

// printable returns text, quoted if it has characters that control a terminal.
func printable(text string) string {
	controls := func(r rune) bool { return !unicode.IsPrint(r) && r != '\n' && r != '\t' }
	if !utf8.ValidString(text) || strings.ContainsFunc(text, controls) {
		return strconv.Quote(text)
	}
	return text
}

// abridged returns the beginning of a key or value, quoted.
func abridged(b []byte, most int) string {
	switch {
	case b == nil:
		return "null"
	case len(b) > most:
		return strconv.Quote(string(b[:most])) + "…"
	}
	return strconv.Quote(string(b))
}

// validText returns a key or value as text; nil if it is no UTF-8.
func validText(b []byte) *string {
	if b == nil || !utf8.Valid(b) {
		return nil
	}
	text := string(b)
	return &text
}
