package main

import (
	"encoding/json"
	"fmt"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/ranker-worker/ranker-worker/internal/dlq"
)

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
				_, err := fmt.Fprintf(c.out(), "%s  %s  %s  key %s  %s\n", l.Time.UTC().Format(time.RFC3339), l.Of, l.Reason,
					abridged(l.Key, 64), abridged(l.Value, 100))
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
