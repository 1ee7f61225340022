// Command peers compares the worker with a Kafka Streams job of the same task. It needs a real Kafka, whose address is in its environment,
// and starts a Redis for each run of the worker:
//
//	go run ./internal/test/testenv/cmd/testenv -bench -heap 1g -- go run ./tools/bench/cmd/peers
//
// They drain the same impressions in turn; docs/contribute/benchmarks.md describes the job, and explains the output.
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
	o := report.PeersOptions{Kafka: os.Getenv("RANKER_TEST_KAFKA"), Verbose: os.Stderr}
	o.KafkaPID, _ = strconv.Atoi(os.Getenv("RANKER_TEST_KAFKA_PID"))
	size := flag.String("size", "6x200000", "partitions x items, and +paid where every impression is selected and paid")
	flag.Int64Var(&o.Impressions, "impressions", 600_000, "impressions of one drain, of which the first third is not counted")
	flag.IntVar(&o.Runs, "runs", 3, "drains of each program")
	flag.IntVar(&o.Threads, "threads", 2, "of a Kafka Streams job")
	quick := flag.Bool("quick", false, "100,000 impressions, and one run: Java has hardly compiled anything by then")
	flag.Parse()
	if *quick {
		o.Impressions, o.Runs = 100_000, 1
	}
	if err := run(o, *size); err != nil {
		fmt.Fprintln(os.Stderr, "peers:", err)
		os.Exit(1)
	}
}

func run(o report.PeersOptions, size string) error {
	sizes, err := report.ParseSizes(size)
	switch {
	case err != nil:
		return err
	case len(sizes) != 1:
		return errors.New("-size is one")
	case o.Kafka == "":
		return errors.New("RANKER_TEST_KAFKA names no server: run it by internal/test/testenv/cmd/testenv, as docs/contribute/benchmarks.md says")
	case o.Impressions < 1 || o.Runs < 1 || o.Threads < 1:
		return errors.New("-impressions, -runs and -threads are at least 1")
	}
	o.Size = sizes[0]
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer cancel()
	r, err := report.RunPeers(ctx, o)
	if err != nil {
		return err
	}
	return r.Write(os.Stdout)
}
