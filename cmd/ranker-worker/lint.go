package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/ranker-worker/ranker-worker/config"
)

func newLintCommand() *cobra.Command {
	var print, asJSON bool
	cmd := &cobra.Command{
		Use:   "lint FILE…",
		Short: "Check configuration files, and show what they amount to",
		Long: `Check configuration files. Every fault of a file is one line on stdout, file:line: key: message, and the exit
code is 1. A file without faults may still have warnings; they go to stderr, and the exit code is 0.

--print shows the effective configuration, with all defaults filled in and secrets masked. Variables (${VAR}) are
taken from the environment, here as in run; "-" reads a file from stdin.`,
		Example: `  ranker-worker lint worker.yaml
  ranker-worker lint --print worker.yaml
  KAFKA_PASSWORD=x REDIS_PASSWORD=x ranker-worker lint deploy/*.yaml
  ranker-worker lint --json worker.yaml | jq '.[].faults'`,
		Args: cobra.MinimumNArgs(1),
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return []string{"yaml", "yml"}, cobra.ShellCompDirectiveFilterFileExt
		},
		RunE: func(cmd *cobra.Command, files []string) error {
			if asJSON {
				return lintJSON(cmd, files)
			}
			return lint(cmd, files, print)
		},
	}
	cmd.Flags().BoolVar(&print, "print", false, "show the effective configuration")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON document on stdout")
	cmd.MarkFlagsMutuallyExclusive("print", "json")
	return cmd
}

// check loads one file; err is of type config.Faults, or nil.
func check(cmd *cobra.Command, file string) (cfg *config.Config, warnings []config.Fault, err error) {
	if file != "-" {
		return config.LoadFile(file, os.LookupEnv)
	}
	const name = "<stdin>"
	data, err := io.ReadAll(io.LimitReader(cmd.InOrStdin(), config.MaxFileBytes+1))
	if err != nil {
		return nil, nil, config.Faults{{File: name, Message: fmt.Sprintf("cannot be read: %v", err)}}
	}
	return config.Load(name, data, os.LookupEnv)
}

func lint(cmd *cobra.Command, files []string, print bool) error {
	out, failed := cmd.OutOrStdout(), false
	for i, file := range files {
		cfg, warnings, err := check(cmd, file)
		if err != nil {
			// The warnings wait until the faults are gone.
			failed = true
			if _, err := fmt.Fprintln(out, err); err != nil {
				return fmt.Errorf("writing: %w", err)
			}
			continue
		}
		for _, w := range warnings {
			fmt.Fprintln(cmd.ErrOrStderr(), w)
		}
		if !print {
			continue
		}
		if len(files) > 1 {
			separator := ""
			if i > 0 {
				separator = "---\n"
			}
			fmt.Fprintf(out, "%s# %s\n", separator, file)
		}
		if err := cfg.Print(out); err != nil {
			return err
		}
	}
	if failed {
		return faultsFound
	}
	return nil
}

// lintReport is what --json shows of one file.
type lintReport struct {
	File     string      `json:"file"`
	Faults   []lintFault `json:"faults"`
	Warnings []lintFault `json:"warnings"`
}

type lintFault struct {
	Line    int    `json:"line"`
	Column  int    `json:"column"`
	Key     string `json:"key"`
	Message string `json:"message"`
}

func lintJSON(cmd *cobra.Command, files []string) error {
	reports, failed := make([]lintReport, 0, len(files)), false
	convert := func(faults []config.Fault) []lintFault {
		out := make([]lintFault, len(faults))
		for i, f := range faults {
			out[i] = lintFault{Line: f.Line, Column: f.Column, Key: f.Key, Message: f.Message}
		}
		return out
	}
	for _, file := range files {
		_, warnings, err := check(cmd, file)
		var faults config.Faults
		errors.As(err, &faults)
		failed = failed || err != nil
		reports = append(reports, lintReport{File: file, Faults: convert(faults), Warnings: convert(warnings)})
	}
	enc := json.NewEncoder(cmd.OutOrStdout())
	enc.SetIndent("", "  ")
	if err := enc.Encode(reports); err != nil {
		return fmt.Errorf("writing: %w", err)
	}
	if failed {
		return faultsFound
	}
	return nil
}
