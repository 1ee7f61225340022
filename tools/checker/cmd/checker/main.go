// Command checker compares a group's state in Redis with its topics, by the laws that package checker documents:
//
//	checker -config worker.yaml
//	checker -config worker.yaml -watch 1m -json
//
// It prints one line for each violation and a summary. It exits with 0 without violations, 1 with some, and 2 if it could not check. With
// -watch it repeats until it is stopped, and exits with the status of the worst check.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/ranker-worker/ranker-worker/config"
	"github.com/ranker-worker/ranker-worker/tools/checker"
)

// Statuses of exit.
const (
	statusOK        = 0
	statusViolated  = 1
	statusUnchecked = 2
)

func main() {
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer cancel()
	status, err := run(ctx, os.Args[1:])
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "checker:", err)
	}
	os.Exit(status)
}

// files collects a flag that may be given more than once.
type files []string

func (f *files) String() string     { return strings.Join(*f, " ") }
func (f *files) Set(s string) error { *f = append(*f, s); return nil }

func run(ctx context.Context, args []string) (int, error) {
	var o checker.Options
	var configs files
	var partitions string
	var watch time.Duration
	var asJSON bool
	fs := flag.NewFlagSet("checker", flag.ContinueOnError)
	fs.Var(&configs, "config", "the workers' configuration; again for each that was in force before")
	fs.StringVar(&partitions, "partitions", "", "numbers of the partitions to check, with commas between; default: all")
	fs.IntVar(&o.Parallel, "parallel", 0, "partitions to check at once (default: one for each processor)")
	fs.IntVar(&o.Kept, "kept", 0, "violations to print of each law and partition (default 100)")
	fs.DurationVar(&watch, "watch", 0, "check again and again, with this pause between")
	fs.BoolVar(&asJSON, "json", false, "print one JSON document for each check")
	if err := fs.Parse(args); err != nil {
		return statusUnchecked, err
	}
	if len(configs) == 0 || fs.NArg() > 0 {
		return statusUnchecked, errors.New("usage: checker -config FILE [flags]")
	}
	for i, file := range configs {
		cfg, _, err := config.LoadFile(file, os.LookupEnv)
		if err != nil {
			return statusUnchecked, err
		}
		if i == 0 {
			o.Config = cfg
		} else {
			o.Earlier = append(o.Earlier, cfg)
		}
	}
	for part := range strings.SplitSeq(partitions, ",") {
		if part == "" {
			continue
		}
		n, err := strconv.ParseInt(part, 10, 32)
		if err != nil || n < 0 {
			return statusUnchecked, fmt.Errorf("-partitions: %q is no number of a partition", part)
		}
		o.Partitions = append(o.Partitions, int32(n))
	}
	return repeat(ctx, o, watch, asJSON)
}

// repeat checks once, or repeatedly. A failed check may succeed the next time.
func repeat(ctx context.Context, o checker.Options, watch time.Duration, asJSON bool) (int, error) {
	worst := statusOK
	for {
		r, err := checker.Check(ctx, o)
		switch {
		case err != nil && ctx.Err() != nil && watch > 0:
			return worst, nil
		case err != nil && watch <= 0:
			return statusUnchecked, err
		case err != nil:
			fmt.Fprintln(os.Stderr, "checker:", err)
		default:
			if err := show(&r, asJSON); err != nil {
				return statusUnchecked, err
			}
			if !r.OK() {
				worst = statusViolated
			}
		}
		if watch <= 0 {
			return worst, nil
		}
		select {
		case <-time.After(watch):
		case <-ctx.Done():
			return worst, nil
		}
	}
}

func show(r *checker.Report, asJSON bool) error {
	if !asJSON {
		return r.Print(os.Stdout)
	}
	e := json.NewEncoder(os.Stdout)
	e.SetIndent("", "  ")
	return e.Encode(r)
}
