package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/ranker-worker/ranker-worker/config"
)

func newLintCommand() *cobra.Command {
	var print, noFiles, schema bool
	cmd := verb(jsonFlag, &cobra.Command{
		Use:   "lint [FILE…] | --schema",
		Short: "Check configuration files, and show the effective settings",
		Long: `Check configuration files; without one, that of RANKER_CONFIG, else worker.yaml. Every fault of a file is one line on stdout, file:line: key: message, and the exit
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
				return without(cmd, files)
			}
			return nil
		},
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return []string{"yaml", "yml"}, cobra.ShellCompDirectiveFilterFileExt
		},
	}, func(c *call) error {
		if schema {
			return config.WriteSchema(c.out())
		}
		if len(c.args) == 0 {
			if err := c.findFile(); err != nil {
				return err
			}
			c.args = []string{c.file}
		}
		named := []config.Files{config.KafkaFiles, config.RedisFiles, config.ServeFiles}
		if noFiles {
			named = nil
		}
		return lint(c, named, print)
	})
	cmd.Flags().BoolVar(&print, "print", false, "show the effective configuration")
	cmd.Flags().BoolVar(&noFiles, "no-files", false, "do not look at the files that a configuration names")
	cmd.Flags().BoolVar(&schema, "schema", false, "print the JSON Schema of configurations, for editors")
	cmd.MarkFlagsMutuallyExclusive("print", "json", "schema")
	return cmd
}

type lintReport struct {
	File     string         `json:"file"`
	Faults   []config.Fault `json:"faults"`
	Warnings []config.Fault `json:"warnings"`
}

// lint checks the files of the command line. Its output has their faults and, with print, the settings of those without one; warnings of
// these go to stderr.
func lint(c *call, named []config.Files, print bool) error {
	var b bytes.Buffer
	reports, failed := make([]lintReport, 0, len(c.args)), false
	for i, file := range c.args {
		cfg, warnings, err := lintFile(c, file, named)
		var faults config.Faults
		errors.As(err, &faults)
		none := []config.Fault{} // [] in JSON, not null
		reports = append(reports, lintReport{file, append(none, faults...), append(none, warnings...)})
		if err != nil {
			failed = true
			fmt.Fprintln(&b, err)
			continue
		}
		for _, w := range warnings {
			if !c.json {
				fmt.Fprintln(c.errOut(), w)
			}
		}
		if !print {
			continue
		}
		if len(c.args) > 1 {
			fmt.Fprintf(&b, "%s# %s\n", [...]string{"", "---\n"}[min(i, 1)], file)
		}
		if err := cfg.Print(&b); err != nil {
			return err
		}
	}
	err := c.show(reports, func(w io.Writer) { _, _ = b.WriteTo(w) })
	if err == nil && failed {
		err = faultsFound
	}
	return err
}

// lintFile reads a file, or with "-" stdin.
func lintFile(c *call, file string, named []config.Files) (*config.Config, []config.Fault, error) {
	if file != "-" {
		return config.LoadFile(file, os.LookupEnv, named...)
	}
	const name = "<stdin>"
	data, err := io.ReadAll(io.LimitReader(c.cmd.InOrStdin(), config.MaxFileBytes+1))
	if err != nil {
		return nil, nil, config.Faults{{File: name, Message: fmt.Sprintf("cannot be read: %v", err)}}
	}
	return config.Load(name, data, os.LookupEnv, named...)
}
