package main

import (
	"fmt"
	"strconv"
	"strings"
	"time"

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
	_ = cmd.RegisterFlagCompletionFunc("topic", cobra.FixedCompletions([]string{"impressions", "selections", "payoffs"}, cobra.ShellCompDirectiveNoFileComp))
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
