// Command growth measures a worker's cost of an impression as partitions, items and feedback grow. It needs a real Kafka, whose address is
// in its environment, and starts a Redis for each row:
//
//	go run ./internal/test/testenv/cmd/testenv -bench -heap 1g -- go run ./tools/bench/cmd/growth
//
// It prints one table; docs/contribute/benchmarks.md explains it.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"syscall"

	"github.com/ranker-worker/ranker-worker/tools/bench/report"
)

func main() {
	o := report.GrowthOptions{Kafka: os.Getenv("RANKER_TEST_KAFKA"), Verbose: os.Stderr}
	o.KafkaPID, _ = strconv.Atoi(os.Getenv("RANKER_TEST_KAFKA_PID"))
	sizes := flag.String("sizes", report.Sizes, "the rows: partitions x items, +protobuf where impressions are in it, and +paid where each is selected and paid")
	flag.Int64Var(&o.Impressions, "impressions", 300_000, "impressions of each row")
	quick := flag.Bool("quick", false, "50,000 impressions a row: what it costs to start is then part of the figures")
	flag.StringVar(&o.Profile, "profile", "", "directory for profiles of the last row's drain")
	flag.Parse()
	if *quick {
		o.Impressions = 50_000
	}
	if err := run(o, *sizes); err != nil {
		fmt.Fprintln(os.Stderr, "growth:", err)
		os.Exit(1)
	}
}

func run(o report.GrowthOptions, sizes string) (err error) {
	switch o.Sizes, err = report.ParseSizes(sizes); {
	case err != nil:
		return err
	case o.Kafka == "":
		return errors.New("RANKER_TEST_KAFKA names no server: run it by internal/test/testenv/cmd/testenv, as docs/contribute/benchmarks.md says")
	case o.Impressions < 1:
		return errors.New("-impressions is at least 1")
	}
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer cancel()
	g, err := report.RunGrowth(ctx, o)
	if err != nil {
		return err
	}
	return g.Write(os.Stdout)
}
