package main

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/ranker-worker/ranker-worker/config"
	"github.com/ranker-worker/ranker-worker/internal/lab"
	"github.com/ranker-worker/ranker-worker/stream/event"
)

// duration is a flag's value with days, such as 30d, as the configuration has them.
type duration time.Duration

func (d *duration) String() string { return config.FormatDuration(time.Duration(*d)) }

func (*duration) Type() string { return "duration" }

func (d *duration) Set(text string) error {
	x, err := config.ParseDuration(text)
	*d = duration(x)
	return err
}

// kindsOfValues are pflag's types in words.
var kindsOfValues = map[string]string{"int": "a whole number", "int32": "a whole number", "int64": "a whole number", "uint64": "a whole number from 0 on",
	"float64": "a number", "bool": "true or false", "duration": "a duration, such as 30s, 2h or 7d", "intSlice": "whole numbers, with commas between"}

// misused names the fault of a flag, and the flag that was probably meant.
func misused(cmd *cobra.Command, err error) error {
	var (
		unknown *pflag.NotExistError
		value   *pflag.InvalidValueError
		missing *pflag.ValueRequiredError
	)
	switch {
	case errors.As(err, &unknown) && unknown.GetSpecifiedShortnames() == "":
		var names []string
		cmd.Flags().VisitAll(func(f *pflag.Flag) { names = append(names, "--"+f.Name) })
		name := "--" + unknown.GetSpecifiedName()
		return fmt.Errorf("%s is no flag of %s%s", name, cmd.CommandPath(), config.DidYouMean(name, names))
	case errors.As(err, &value):
		kind := kindsOfValues[value.GetFlag().Value.Type()]
		if kind == "" {
			kind = "another value"
		}
		return fmt.Errorf("--%s: must be %s, not %q", value.GetFlag().Name, kind, value.GetValue())
	case errors.As(err, &missing):
		return fmt.Errorf("--%s: a value has to follow it", missing.GetFlag().Name)
	}
	return err
}

// without accepts no argument. It names the command below cmd that was probably meant.
func without(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	if cmd.HasSubCommands() {
		var names []string
		for _, c := range cmd.Commands() {
			names = append(names, c.Name())
		}
		return fmt.Errorf("%q is no command of %s%s", args[0], cmd.CommandPath(), config.DidYouMean(args[0], names))
	}
	return fmt.Errorf("%q: %s takes no argument here", args[0], cmd.CommandPath())
}

// one accepts one argument.
func one(what string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) != 1 {
			return fmt.Errorf("%s takes one argument, %s, and has %d", cmd.CommandPath(), what, len(args))
		}
		return nil
	}
}

// values are the words that complete a flag, by its name, with the name of its command before it where commands differ.
var values = map[string]func() []string{
	"policy":     func() []string { return texts(config.Policies()) },
	"delay":      func() []string { return texts(config.Delays()) },
	"utilities":  func() []string { return texts(config.UtilityKinds()) },
	"silence":    func() []string { return texts([]config.Silence{config.Waits, config.AtOnce, config.Ages}) },
	"radius":     func() []string { return texts([]config.Radius{config.SubGaussian, config.Paper}) },
	"loss-index": func() []string { return texts([]config.LossIndex{config.ByItem, config.ByRank}) },
	"scenario":   func() []string { return texts(lab.Scenarios()) },
	"reason":     func() []string { return texts(event.Reasons()) },
	"topic":      func() []string { return []string{"impressions", "selections", "payoffs"} },
	"clock":      func() []string { return []string{"hour", "weekday"} },
	"per":        func() []string { return []string{"selection", "impression"} },
	"unit":       func() []string { return []string{"user"} },
}

func texts[T ~string](all []T) (out []string) {
	for _, x := range all {
		out = append(out, string(x))
	}
	return out
}

// completeFlags makes a shell complete the values of a command's flags: words, and the names in the command's configuration.
func completeFlags(cmd *cobra.Command) {
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		words := values[cmd.Name()+" --"+f.Name]
		if words == nil && f.Value.Type() != "bool" && !strings.Contains(f.Usage, "`FILE`") {
			words = values[f.Name]
		}
		complete := func(cmd *cobra.Command, _ []string, begun string) ([]string, cobra.ShellCompDirective) {
			// Of a list, the last one is completed.
			before := begun[:strings.LastIndexByte(begun, ',')+1]
			var out []string
			all := words
			if all == nil {
				all = func() []string { return namesIn(cmd, f.Name) }
			}
			for _, w := range all() {
				out = append(out, before+w)
			}
			return out, cobra.ShellCompDirectiveNoFileComp
		}
		if words != nil || f.Name == "learner" || f.Name == "experiment" {
			_ = cmd.RegisterFlagCompletionFunc(f.Name, complete) // fails only for a flag that is not there, or was registered
		}
	})
}

// namesIn returns the names of learners or experiments in the configuration that a command line has, as far as it can be read.
func namesIn(cmd *cobra.Command, which string) (names []string) {
	c := call{cmd: cmd}
	if f := cmd.Flags().Lookup(configName); f != nil {
		c.file = f.Value.String()
	}
	if c.findFile() != nil {
		return nil
	}
	cfg, _, err := config.LoadFile(c.file, os.LookupEnv)
	if err != nil {
		return nil
	}
	if which == "learner" {
		return cfg.LearnerNames()
	}
	for i := range cfg.Experiments {
		names = append(names, cfg.Experiments[i].Name)
	}
	return names
}
