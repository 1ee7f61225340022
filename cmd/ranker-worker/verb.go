package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/ranker-worker/ranker-worker/config"
	"github.com/ranker-worker/ranker-worker/internal/app"
)

// call is one run of a command. All commands share the configuration, --json, progress, and a context that ends at a signal.
type call struct {
	cmd  *cobra.Command
	args []string
	ctx  context.Context // done at the first SIGINT or SIGTERM, or with cmd's; a second signal ends the process
	file string          // of --config; load fills in its default
	json bool
	cfg  *config.Config // of load; nil before it

	began    time.Time
	mu       sync.Mutex // guards the rest: commands report progress from several goroutines
	reported time.Time
	open     bool // the line of progress has no end yet
}

// shared are flags that commands share.
type shared int

const (
	configFlag shared = 1 << iota // --config; the file may also be the argument of a command without others
	jsonFlag                      // --json
)

// verb completes a command: its shared flags, and do as its work.
func verb(flags shared, cmd *cobra.Command, do func(*call) error) *cobra.Command {
	c := &call{cmd: cmd}
	if flags&configFlag != 0 {
		c.addConfig("the configuration `FILE` (default: RANKER_CONFIG, else worker.yaml)")
		if cmd.Args == nil {
			cmd.Args = c.fileAsArgument
		}
	}
	if flags&jsonFlag != 0 {
		cmd.Flags().BoolVar(&c.json, "json", false, "print one JSON document on stdout")
	}
	if cmd.Args == nil {
		cmd.Args = without
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		ctx, stop := signal.NotifyContext(cmd.Context(), syscall.SIGINT, syscall.SIGTERM)
		defer stop()
		context.AfterFunc(ctx, stop)
		c.args, c.ctx, c.began = args, ctx, time.Now()
		defer c.endProgress()
		err := do(c)
		if err != nil && c.cfg != nil {
			err = app.Explain(ctx, c.cfg, err)
		}
		return err
	}
	return cmd
}

const configName = "config"

func (c *call) addConfig(usage string) {
	c.cmd.Flags().StringVarP(&c.file, configName, "c", "", usage)
	_ = c.cmd.MarkFlagFilename(configName, "yaml", "yml") // cannot fail: the flag has just been made
}

func (c *call) fileAsArgument(cmd *cobra.Command, args []string) error {
	if len(args) == 1 && !cmd.Flags().Changed(configName) {
		return cmd.Flags().Set(configName, args[0])
	}
	return without(cmd, args)
}

// help is the work of a command that only has commands of its own.
func (c *call) help() error { return c.cmd.Help() }

func (c *call) out() io.Writer { return c.cmd.OutOrStdout() }

func (c *call) errOut() io.Writer { return c.cmd.ErrOrStderr() }

// findFile sets the configuration's file to its default unless it is given.
func (c *call) findFile() error {
	const usual = "worker.yaml"
	if c.file == "" {
		c.file = os.Getenv("RANKER_CONFIG")
	}
	if c.file != "" {
		return nil
	}
	if _, err := os.Stat(usual); err != nil {
		return usageError{errors.New("no configuration: give --config FILE, or set RANKER_CONFIG; without both it is worker.yaml, which is not here")}
	}
	c.file = usual
	return nil
}

// load reads the configuration, and prints its warnings to stderr. Of the files that it names it checks those given: others may be missing
// while they are renewed, or belong to another machine. The error, if any, is a usageError or of type config.Faults.
func (c *call) load(files ...config.Files) (*config.Config, error) {
	if err := c.findFile(); err != nil {
		return nil, err
	}
	cfg, warnings, err := config.LoadFile(c.file, os.LookupEnv, files...)
	if err != nil {
		return nil, err
	}
	for _, w := range warnings {
		fmt.Fprintln(c.errOut(), w)
	}
	c.cfg = cfg
	return cfg, nil
}

// show prints a result on stdout, as a whole: with --json as a document, else by print.
func (c *call) show(result any, print func(io.Writer)) error {
	var b bytes.Buffer
	if c.json {
		enc := json.NewEncoder(&b)
		enc.SetIndent("", "  ")
		if err := enc.Encode(result); err != nil {
			return fmt.Errorf("encoding: %w", err)
		}
	} else {
		print(&b)
		b = *bytes.NewBufferString(visible(b.String()))
	}
	return c.write(b.Bytes())
}

// visible escapes characters that control a terminal, except line feeds and tabs: names in reports are those that producers have sent.
func visible(text string) string {
	var b strings.Builder
	for _, r := range text {
		if r != '\n' && r != '\t' && unicode.In(r, unicode.Cc, unicode.Cf) {
			b.WriteString(strings.Trim(strconv.QuoteRune(r), "'"))
		} else {
			b.WriteRune(r)
		}
	}
	return b.String()
}

func (c *call) write(text []byte) error {
	c.endProgress()
	if _, err := c.out().Write(text); err != nil {
		return fmt.Errorf("writing: %w", err)
	}
	return nil
}

// ended returns nil for a command that its user ended.
func (c *call) ended(err error) error {
	if c.ctx.Err() != nil && errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

// slow is the time from which a command shows its progress.
const slow = 2 * time.Second

// say shows progress on stderr: one line that is overwritten on a terminal, else a line every two seconds.
func (c *call) say(text string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	const often = 200 * time.Millisecond
	if time.Since(c.began) < slow || time.Since(c.reported) < often {
		return
	}
	live := isTerminal(c.errOut())
	if !live && time.Since(c.reported) < slow {
		return
	}
	c.reported = time.Now()
	if c.open = live; live {
		fmt.Fprintf(c.errOut(), "\r\x1b[K%s", text)
		return
	}
	fmt.Fprintln(c.errOut(), text)
}

// sayShare is say with the share that is done and the time left, since began, if they are known.
func (c *call) sayShare(text string, share float64, began time.Time) {
	if share > 0 {
		left := time.Duration(float64(time.Since(began)) * (1 - share) / share)
		text = fmt.Sprintf("%s, %.0f%%, %v left", text, 100*share, left.Round(time.Second))
	}
	c.say(text)
}

func (c *call) endProgress() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.open {
		fmt.Fprintln(c.errOut())
	}
	c.open = false
}

// isTerminal reports whether a reader or writer is a terminal.
func isTerminal(stream any) bool {
	f, ok := stream.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	if err != nil || info.Mode()&os.ModeCharDevice == 0 {
		return false
	}
	null, err := os.Stat(os.DevNull) // a character device, too
	return err != nil || !os.SameFile(info, null)
}

// yesFlag adds the confirmation that a destructive command requires.
func yesFlag(cmd *cobra.Command, yes *bool, usage string) {
	cmd.Flags().BoolVar(yes, "yes", false, usage)
}

// table prints rows in aligned columns: numbers to the right, the first column and other texts to the left. The first row is the head.
type table struct{ rows [][]string }

// row adds a row. Tabs separate its cells. A line feed in a name does not begin another row.
func (t *table) row(format string, args ...any) {
	t.rows = append(t.rows, strings.Split(strings.ReplaceAll(fmt.Sprintf(format, args...), "\n", `\n`), "\t"))
}

// isNumber matches numbers, intervals, and the signs of missing ones.
var isNumber = regexp.MustCompile(`^([-+−±]?[0-9.∞][^ ]*|\[.*\]|[-–]|)$`)

// write writes the rows behind an indent, without spaces at the ends of lines.
func (t *table) write(w io.Writer, indent string) {
	var widths []int
	var texts []bool
	for k, row := range t.rows {
		for i, cell := range row {
			if i == len(widths) {
				widths, texts = append(widths, 0), append(texts, i == 0)
			}
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
			texts[i] = texts[i] || k > 0 && !isNumber.MatchString(cell)
		}
	}
	for _, row := range t.rows {
		line := ""
		for i, cell := range row {
			pad := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell))
			if texts[i] {
				line += cell + pad + "  "
			} else {
				line += pad + cell + "  "
			}
		}
		fmt.Fprintln(w, strings.TrimRight(indent+line, " "))
	}
}

// figure formats a number; "-" without one.
func figure(format string, x *float64) string {
	if x == nil {
		return "-"
	}
	return fmt.Sprintf(format, *x)
}
