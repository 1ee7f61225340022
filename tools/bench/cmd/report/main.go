// Command report measures the worker on a real Kafka and a real Redis, whose addresses are in its environment. It prints one table, of the
// whole pipeline, or of growth or peers:
//
//	go run ./internal/test/testenv/cmd/testenv -bench -heap 1g -- go run ./tools/bench/cmd/report [growth|peers] [FLAGS]
//
// docs/contribute/benchmarks.md explains them.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/ranker-worker/ranker-worker/tools/bench/report"
)

func main() {
	name, args := "pipeline", os.Args[1:]
	if len(args) > 0 && !strings.HasPrefix(args[0], "-") {
		name, args = args[0], args[1:]
	}
	if err := run(name, args); err != nil {
		fmt.Fprintln(os.Stderr, "report:", err)
		os.Exit(1)
	}
}

func run(name string, args []string) error {
	o := report.Options{Kafka: os.Getenv("RANKER_TEST_KAFKA"), Redis: os.Getenv("RANKER_TEST_REDIS"), Verbose: os.Stderr}
	o.KafkaPID, _ = strconv.Atoi(os.Getenv("RANKER_TEST_KAFKA_PID"))
	o.RedisPID, _ = strconv.Atoi(os.Getenv("RANKER_TEST_REDIS_PID"))
	prepare := tables[name]
	if prepare == nil {
		return fmt.Errorf("%q is no table: pipeline, growth or peers", name)
	}
	f := flag.NewFlagSet(name, flag.ExitOnError)
	measure := prepare(f, &o)
	_ = f.Parse(args) // exits
	if o.Kafka == "" || o.Redis == "" {
		return errors.New("RANKER_TEST_KAFKA and RANKER_TEST_REDIS name no servers: run it by internal/test/testenv/cmd/testenv, as docs/contribute/benchmarks.md says")
	}
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer cancel()
	t, err := measure(ctx)
	if err != nil || t == nil {
		return err
	}
	return t.Write(os.Stdout)
}

type table interface{ Write(w io.Writer) error }

// tables adds a table's flags, and returns the function that measures it once they are parsed.
var tables = map[string]func(f *flag.FlagSet, o *report.Options) func(context.Context) (table, error){
	"pipeline": func(f *flag.FlagSet, o *report.Options) func(context.Context) (table, error) {
		atLeast1(f, &o.Partitions, "partitions", 6, "partitions of the topics")
		atLeast1(f, &o.Impressions, "impressions", 600_000, "impressions of one drain")
		atLeast1(f, &o.Runs, "runs", 3, "drains of the worker and of the copier each")
		atLeast1(f, &o.Rate, "rate", 10_000, "impressions per second of the latency run")
		f.DurationVar(&o.Latency, "latency", 20*time.Second, "length of the latency run; 0: none")
		f.StringVar(&o.Profile, "profile", "", "directory for profiles of the worker's last drain")
		f.BoolFunc("quiet", "print the table only", func(string) error { o.Verbose = io.Discard; return nil })
		return func(ctx context.Context) (table, error) { return report.Run(ctx, *o) }
	},
	"growth": func(f *flag.FlagSet, o *report.Options) func(context.Context) (table, error) {
		sizes(f, o, "sizes", report.Sizes, "the rows: partitions x items, +protobuf where impressions are in it, +paid where each is selected and paid, +viewed where ten viewers look at the page")
		atLeast1(f, &o.Impressions, "impressions", 300_000, "impressions of each row")
		quick(f, "50,000 impressions a row: the cost of the start is then part of the figures", func() { o.Impressions = 50_000 })
		f.StringVar(&o.Profile, "profile", "", "directory for profiles of the last row's drain")
		return func(ctx context.Context) (table, error) { return report.RunGrowth(ctx, *o) }
	},
	"peers": func(f *flag.FlagSet, o *report.Options) func(context.Context) (table, error) {
		sizes(f, o, "size", "6x200000", "partitions x items, and +paid where every impression is selected and paid")
		atLeast1(f, &o.Impressions, "impressions", 600_000, "impressions of one drain, of which the first third is not counted")
		atLeast1(f, &o.Runs, "runs", 3, "drains of each program")
		atLeast1(f, &o.Threads, "threads", 2, "of a Kafka Streams job")
		quick(f, "100,000 impressions, and one run: Java has hardly compiled anything by then", func() { o.Impressions, o.Runs = 100_000, 1 })
		return func(ctx context.Context) (table, error) {
			if len(o.Sizes) != 1 {
				return nil, errors.New("-size is one")
			}
			return report.RunPeers(ctx, *o)
		}
	},
	"copier": func(f *flag.FlagSet, o *report.Options) func(context.Context) (table, error) { // a process of its own, which the pipeline's starts
		atLeast1(f, &o.Partitions, "partitions", 6, "partitions of the topics")
		atLeast1(f, &o.Impressions, "impressions", 600_000, "impressions to copy")
		from, to := f.String("from", "", "the topic to copy"), f.String("to", "", "the topic to copy to")
		return func(ctx context.Context) (table, error) { return nil, report.Copy(ctx, *o, *from, *to) }
	},
}

func atLeast1[N int | int64](f *flag.FlagSet, into *N, name string, usual N, usage string) {
	*into = usual
	f.Func(name, fmt.Sprintf("%s (default %d)", usage, usual), func(text string) error {
		n, err := strconv.Atoi(text)
		if err == nil && n < 1 {
			err = errors.New("it is at least 1")
		}
		*into = N(n)
		return err
	})
}

func sizes(f *flag.FlagSet, o *report.Options, name, usual, usage string) {
	o.Sizes, _ = report.ParseSizes(usual)
	f.Func(name, fmt.Sprintf("%s (default %q)", usage, usual), func(text string) (err error) {
		o.Sizes, err = report.ParseSizes(text)
		return err
	})
}

// quick is for less than the flags before it.
func quick(f *flag.FlagSet, usage string, less func()) {
	f.BoolFunc("quick", usage, func(string) error { less(); return nil })
}
