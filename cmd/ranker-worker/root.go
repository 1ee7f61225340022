package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"

	"github.com/spf13/cobra"

	"github.com/ranker-worker/ranker-worker/config"
)

const (
	exitOK    = 0
	exitFault = 1 // the command failed, or faults were found
	exitUsage = 2 // wrong usage
	exitNone  = 3 // there is no answer: evaluate, lift
)

type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

// shown is an error that has been printed already.
type shown string

func (e shown) Error() string { return string(e) }

const faultsFound = shown("faults were found")

// execute runs one command line and returns the exit code.
func execute(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	root, began := newRootCommand(stdin, stdout, stderr)
	root.SetArgs(args)
	cmd, err := root.ExecuteContextC(ctx)
	var usage usageError
	switch {
	case err == nil:
		return exitOK
	case errors.Is(err, faultsFound):
		return exitFault
	case errors.Is(err, refusedAll):
		return exitNone
	case !*began || errors.As(err, &usage):
		fmt.Fprintf(stderr, "ranker-worker: %v\n%s", err, seeHelp(cmd))
		return exitUsage
	}
	var faults config.Faults
	if errors.As(err, &faults) {
		fmt.Fprintln(stderr, faults.Error()) // each line names its file already
		return exitFault
	}
	text := err.Error()
	if file := (*fs.PathError)(nil); errors.As(err, &file) && file.Op == "open" {
		text = strings.Replace(text, file.Error(), fmt.Sprintf("%s cannot be opened: %v", file.Path, file.Err), 1)
	}
	fmt.Fprintf(stderr, "ranker-worker: %s\n", visible(text))
	return exitFault
}

func seeHelp(cmd *cobra.Command) string {
	return fmt.Sprintf("See '%s --help'.\n", cmd.CommandPath())
}

// Verbs are listed in the order of AddCommand. The switch is cobra's, for the whole process.
func init() { cobra.EnableCommandSorting = false }

// newRootCommand returns a fresh tree of commands. began is set once a command's own work begins: an earlier error is one of usage.
func newRootCommand(stdin io.Reader, stdout, stderr io.Writer) (root *cobra.Command, began *bool) {
	root = &cobra.Command{
		Use:   "ranker-worker",
		Short: "Rank impressions, join late payoffs, learn",
		Long: `ranker-worker reads impressions from Kafka, answers each with a ranking, joins the selections and payoffs
that follow minutes to weeks later, and learns which rankings pay. Its state is checkpointed in Redis.

A command reads the configuration of --config FILE, else of RANKER_CONFIG, else worker.yaml in the working directory.
Exit codes: 0 done; 1 it failed, or faults were found; 2 the command line is wrong; 3 evaluate or lift has no answer.`,
		Example: `  ranker-worker demo
  ranker-worker lint --print worker.yaml
  ranker-worker topics --config worker.yaml --create
  ranker-worker run --config worker.yaml`,
		SilenceUsage:  true, // a fault in a file is not cured by a list of flags
		SilenceErrors: true, // execute shows them
	}
	// Before cobra's own commands are made, which keep the output they find.
	root.SetIn(stdin)
	root.SetOut(stdout)
	root.SetErr(stderr)
	root.SetFlagErrorFunc(misused)
	root.Version = buildVersion().String()
	root.SetVersionTemplate("ranker-worker {{.Version}}\n")
	// In the order in which a newcomer needs them.
	root.AddCommand(
		newDemoCommand(),
		newSimulateCommand(),
		newInitCommand(),
		newLintCommand(),
		newSizeCommand(),
		newTopicsCommand(),
		newDoctorCommand(),
		newGenerateCommand(),
		newRunCommand(),
		newServeCommand(),
		newEvaluateCommand(),
		newLiftCommand(),
		newReplayCommand(),
		newExplainCommand(),
		newDLQCommand(),
		newStateCommand(),
		newHealthCommand(),
		newVersionCommand(),
	)
	root.InitDefaultCompletionCmd()
	root.InitDefaultHelpCmd()
	began = new(bool)
	prepare(root, began)
	return root, began
}

// prepare makes every command set began, completes its flags, and gives cobra's own commands an example.
func prepare(cmd *cobra.Command, began *bool) {
	if run := cmd.RunE; run != nil {
		cmd.RunE = func(cmd *cobra.Command, args []string) error {
			*began = true
			return run(cmd, args)
		}
	}
	completeFlags(cmd)
	switch {
	case cmd.Example != "":
	case cmd.Name() == "completion":
		cmd.Example = "  source <(ranker-worker completion bash)"
	case cmd.HasParent() && cmd.Parent().Name() == "completion":
		cmd.Example = fmt.Sprintf("  ranker-worker completion %s > completion.%s", cmd.Name(), cmd.Name())
	case cmd.Name() == "help":
		cmd.Example = "  ranker-worker help run"
	}
	for _, c := range cmd.Commands() {
		prepare(c, began)
	}
}
