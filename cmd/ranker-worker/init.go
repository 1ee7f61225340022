package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"text/template"

	"github.com/spf13/cobra"

	"github.com/ranker-worker/ranker-worker/config"
)

// answers are the inputs of a first configuration.
type answers struct {
	Brokers, Group, Redis, Horizon, Range, Expiry string
}

// question is one of the answers: its flag, its default, and the question in an interactive run.
type question struct {
	flag, value, ask string
	of               func(*answers) *string
}

var questions = []question{
	{"brokers", "127.0.0.1:9092", "Kafka brokers, host:port with commas between", func(a *answers) *string { return &a.Brokers }},
	{"group", "ranker", "name of the consumer group", func(a *answers) *string { return &a.Group }},
	{"redis", "redis://127.0.0.1:6379/0", "URL of Redis", func(a *answers) *string { return &a.Redis }},
	{"horizon", "720h", "time after a selection within which its payoff comes, such as 168h", func(a *answers) *string { return &a.Horizon }},
	{"range", "0,1", "least and greatest payoff", func(a *answers) *string { return &a.Range }},
	{"unpaid", "0", "payoff of a selection for which no payoff comes; none: such a selection teaches nothing", func(a *answers) *string { return &a.Expiry }},
}

var firstConfig = template.Must(template.New("").Parse(`# Every key is in docs/configuration.md. ${NAME:default} is an environment variable with its default.
kafka:
  brokers: ${KAFKA_BROKERS:{{.Brokers}}}
  group: {{.Group}}
redis:
  url: ${REDIS_URL:{{.Redis}}}
learners:
  feed:
    payoff_range: [{{.Range}}] # payoffs beyond it count as its ends
    payoff_horizon: {{.Horizon}} # time from the selection until which a payoff counts
    on_expiry: {{.Expiry}}
`))

func newInitCommand() *cobra.Command {
	var (
		file  string
		force bool
		given answers
	)
	cmd := &cobra.Command{
		Use:   "init [--output FILE]",
		Short: "Write a first configuration",
		Long: `Write a configuration with comments, which lint accepts. On a terminal, each value without a flag is asked for.
Elsewhere it has its default. An existing file stays as it is, unless --force is given.`,
		Example: `  ranker-worker init
  ranker-worker init --brokers kafka:9092 --redis redis://redis:6379/0 --horizon 168h --range 0,100 --output worker.yaml`,
		Args: without,
		// Not a verb, which would wait at a signal: Ctrl-C at a question ends the process.
		RunE: func(cmd *cobra.Command, _ []string) error { return runInit(cmd, file, force, &given) },
	}
	f := cmd.Flags()
	f.StringVarP(&file, "output", "o", "worker.yaml", "the `FILE` to write")
	f.BoolVar(&force, "force", false, "replace an existing file")
	for _, q := range questions {
		f.StringVar(q.of(&given), q.flag, q.value, q.ask)
	}
	_ = cmd.MarkFlagFilename("output", "yaml", "yml") // cannot fail: the flag has just been made
	return cmd
}

func runInit(cmd *cobra.Command, file string, force bool, a *answers) error {
	if _, err := os.Stat(file); !force && !errors.Is(err, fs.ErrNotExist) {
		return errors.Join(err, fmt.Errorf("%s exists: name another file by --output, or replace it by --force", file))
	}
	if in := cmd.InOrStdin(); isTerminal(in) {
		if err := ask(cmd, in, a); err != nil {
			return err
		}
	}
	text, err := a.text()
	if err != nil {
		return usageError{err}
	}
	if _, _, err := config.Load(file, text, func(string) (string, bool) { return "", false }); err != nil {
		return usageError{fmt.Errorf("the values make no configuration:\n%w", err)}
	}
	if err := os.WriteFile(file, text, 0o644); err != nil {
		return fmt.Errorf("write the configuration: %w", err)
	}
	fmt.Fprintf(cmd.OutOrStdout(), "%s is written. Next:\n  ranker-worker topics --config %[1]s --create\n  ranker-worker doctor --config %[1]s\n  ranker-worker run --config %[1]s\n", file)
	return nil
}

// ask asks for each value without a flag. An empty answer is the default.
func ask(cmd *cobra.Command, from io.Reader, a *answers) error {
	lines := bufio.NewScanner(from)
	for _, q := range questions {
		if cmd.Flags().Changed(q.flag) {
			continue
		}
		fmt.Fprintf(cmd.ErrOrStderr(), "%s [%s]: ", q.ask, q.value)
		if !lines.Scan() {
			return errors.Join(lines.Err(), errors.New("no answer: nothing is written"))
		}
		if text := strings.TrimSpace(lines.Text()); text != "" {
			*q.of(a) = text
		}
	}
	return nil
}

// text returns the configuration. It fails on values that YAML would read as something else.
func (a *answers) text() ([]byte, error) {
	for _, q := range questions {
		if strings.ContainsAny(*q.of(a), "\n\"'#{}$") {
			return nil, fmt.Errorf("--%s: %q has a character that cannot stand there", q.flag, *q.of(a))
		}
	}
	b := *a
	if b.Expiry == "none" {
		b.Expiry = "drop # an unpaid selection teaches nothing"
	} else if _, err := strconv.ParseFloat(b.Expiry, 64); err != nil {
		return nil, fmt.Errorf("--unpaid: %q is neither a number nor none", b.Expiry)
	} else {
		b.Expiry = "{default: " + b.Expiry + "} # payoff of a selection for which none comes"
	}
	var out bytes.Buffer
	if err := firstConfig.Execute(&out, b); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}
