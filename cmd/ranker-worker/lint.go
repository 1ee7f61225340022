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
	var print, asJSON, noFiles, schema bool
	cmd := &cobra.Command{
		Use:   "lint FILE… | --schema",
		Short: "Check configuration files, and show the effective settings",
		Long: `Check configuration files. Every fault of a file is one line on stdout, file:line: key: message, and the exit
code is 1. A file without faults may still have warnings; they go to stderr, and the exit code is 0.

--print shows the effective configuration, with all defaults filled in and secrets masked. Variables (${VAR}) come
from the environment, as in run; "-" reads a file from stdin. Files of certificates, keys and passwords are read too;
--no-files leaves them out, for a configuration of another machine.

--schema prints the JSON Schema of configurations and checks nothing: editors use it to complete keys and mark unknown keys
and words, values of the wrong type and numbers out of range. All other faults need lint: those of several keys together, of
names and addresses, of the environment, and of files.`,
		Example: `  ranker-worker lint worker.yaml
  ranker-worker lint --print worker.yaml
  KAFKA_PASSWORD=x REDIS_PASSWORD=x ranker-worker lint --no-files deploy/*.yaml
  ranker-worker lint --json worker.yaml | jq '.[].faults'
  ranker-worker lint --schema > ranker-worker.schema.json`,
		Args: func(cmd *cobra.Command, files []string) error {
			if schema {
				return cobra.NoArgs(cmd, files)
			}
			return cobra.MinimumNArgs(1)(cmd, files)
		},
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return []string{"yaml", "yml"}, cobra.ShellCompDirectiveFilterFileExt
		},
		RunE: func(cmd *cobra.Command, files []string) error {
			if schema {
				return config.WriteSchema(cmd.OutOrStdout())
			}
			load := checker(cmd, !noFiles)
			if asJSON {
				return lintJSON(cmd, files, load)
			}
			return lint(cmd, files, load, print)
		},
	}
	cmd.Flags().BoolVar(&print, "print", false, "show the effective configuration")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON document on stdout")
	cmd.Flags().BoolVar(&noFiles, "no-files", false, "do not look at the files that a configuration names")
	cmd.Flags().BoolVar(&schema, "schema", false, "print the JSON Schema of configurations, for editors")
	cmd.MarkFlagsMutuallyExclusive("print", "json", "schema")
	return cmd
}

type check func(file string) (cfg *config.Config, warnings []config.Fault, err error)

// checker returns a check, with or without the files that a configuration names.
func checker(cmd *cobra.Command, named bool) check {
	var files []config.Files
	if named {
		files = []config.Files{config.KafkaFiles, config.RedisFiles, config.ServeFiles}
	}
	return func(file string) (*config.Config, []config.Fault, error) {
		if file != "-" {
			return config.LoadFile(file, os.LookupEnv, files...)
		}
		const name = "<stdin>"
		data, err := io.ReadAll(io.LimitReader(cmd.InOrStdin(), config.MaxFileBytes+1))
		if err != nil {
			return nil, nil, config.Faults{{File: name, Message: fmt.Sprintf("cannot be read: %v", err)}}
		}
		return config.Load(name, data, os.LookupEnv, files...)
	}
}

func lint(cmd *cobra.Command, files []string, load check, print bool) error {
	out, failed := cmd.OutOrStdout(), false
	for i, file := range files {
		cfg, warnings, err := load(file)
		if err != nil {
			// Warnings are printed once there are no faults.
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

func lintJSON(cmd *cobra.Command, files []string, load check) error {
	reports, failed := make([]lintReport, 0, len(files)), false
	convert := func(faults []config.Fault) []lintFault {
		out := make([]lintFault, len(faults))
		for i, f := range faults {
			out[i] = lintFault{Line: f.Line, Column: f.Column, Key: f.Key, Message: f.Message}
		}
		return out
	}
	for _, file := range files {
		_, warnings, err := load(file)
		var faults config.Faults
		errors.As(err, &faults)
		failed = failed || err != nil
		r := lintReport{File: file, Faults: convert(faults), Warnings: convert(warnings)}
		reports = append(reports, r)
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
