// Command viewers measures the cost of the live page's viewers for a worker under load, on a real Kafka and a real Redis, whose addresses
// are in its environment:
//
//	go run ./internal/test/testenv/cmd/testenv -bench -heap 1g -- go run ./tools/bench/cmd/viewers
//
// It drains the same impressions without and with viewers, in turn; docs/contribute/benchmarks.md explains the output.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/ranker-worker/ranker-worker/tools/bench/report"
)

func main() {
	o := report.ViewersOptions{Kafka: os.Getenv("RANKER_TEST_KAFKA"), Redis: os.Getenv("RANKER_TEST_REDIS"), Verbose: os.Stderr}
	flag.IntVar(&o.Partitions, "partitions", 6, "partitions of the topics")
	flag.Int64Var(&o.Impressions, "impressions", 600_000, "impressions of one drain")
	flag.Int64Var(&o.Items, "items", 200_000, "items of the catalogue")
	flag.IntVar(&o.Runs, "runs", 7, "drains without viewers and with them each")
	flag.IntVar(&o.Viewers, "viewers", 10, "who look at the page")
	flag.Parse()
	if err := run(o); err != nil {
		fmt.Fprintln(os.Stderr, "viewers:", err)
		os.Exit(1)
	}
}

func run(o report.ViewersOptions) error {
	switch {
	case o.Kafka == "" || o.Redis == "":
		return errors.New("RANKER_TEST_KAFKA and RANKER_TEST_REDIS name no servers: run it by internal/test/testenv/cmd/testenv, as docs/contribute/benchmarks.md says")
	case o.Runs < 1 || o.Impressions < 1 || o.Items < 1 || o.Partitions < 1:
		return errors.New("-runs, -impressions, -items and -partitions are at least 1")
	}
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer cancel()
	r, err := report.RunViewers(ctx, o)
	if err != nil {
		return err
	}
	return r.Write(os.Stdout)
}
