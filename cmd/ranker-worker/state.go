package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/ranker-worker/ranker-worker/internal/admin"
)

func newStateCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "state",
		Short: "Inspect, export, import and repair the stored state",
		Long: `Inspect the state that workers keep in Redis, carry statistics from one group to another, and repair the state after a
change that a worker cannot make by itself.

inspect, base and export only read, with or without running workers. The others change the state: they refuse while the group
has live members, and need --yes where something is lost.`,
		Example: `  ranker-worker state inspect --config worker.yaml --learner feed --candidates a:0.1,b:0.7
  ranker-worker state export --config worker.yaml > learned.jsonl`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newInspectCommand(), newBaseCommand(), newExportCommand(), newImportCommand(), newResetCommand(), newRebuildCommand(), newReshardCommand(), newSkipCommand())
	return cmd
}

type stateFlags struct {
	file string
	json bool
}

func (f *stateFlags) add(cmd *cobra.Command) {
	configFlag(cmd, &f.file)
	cmd.Flags().BoolVar(&f.json, "json", false, "print one JSON document")
}

// withTool opens the state that a configuration names, and calls do. Progress goes to stderr.
func withTool(cmd *cobra.Command, file string, do func(*admin.Tool) error) error {
	cfg, err := loadConfig(cmd, file)
	if err != nil {
		return err
	}
	p := &slowProgress{w: cmd.ErrOrStderr(), live: isTerminal(cmd.ErrOrStderr()), began: time.Now()}
	tool, err := admin.New(cfg, admin.Options{Progress: p.say})
	if err != nil {
		return err
	}
	err = do(tool)
	p.end()
	return errors.Join(err, tool.Close())
}

// slowProgress shows progress once a command has taken two seconds: one line that is overwritten on a terminal, else a line every two
// seconds.
type slowProgress struct {
	w     io.Writer
	live  bool
	began time.Time
	shown time.Time
	open  bool
}

const slow = 2 * time.Second

func (p *slowProgress) say(text string) {
	every := slow
	if p.live {
		every = 200 * time.Millisecond
	}
	if time.Since(p.began) < slow || time.Since(p.shown) < every {
		return
	}
	p.shown = time.Now()
	if p.live {
		p.open = true
		fmt.Fprintf(p.w, "\r\x1b[K%s", text)
		return
	}
	fmt.Fprintln(p.w, text)
}

func (p *slowProgress) end() {
	if p.open {
		fmt.Fprintln(p.w)
	}
}

func printJSON(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	return enc.Encode(v)
}

// yesFlag adds the confirmation that a destructive command requires.
func yesFlag(cmd *cobra.Command, yes *bool) {
	cmd.Flags().BoolVar(yes, "yes", false, "do it; without, only show what would be lost")
}
