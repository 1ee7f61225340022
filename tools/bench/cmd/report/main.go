// Command report measures the worker on a real Kafka and a real Redis, whose addresses are in its environment:
//
//	go run ./internal/test/testenv/cmd/testenv -bench -heap 1g -- go run ./tools/bench/cmd/report
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
	"time"

	"github.com/ranker-worker/ranker-worker/tools/bench/report"
)

func main() {
	o := report.Options{Kafka: os.Getenv("RANKER_TEST_KAFKA"), Redis: os.Getenv("RANKER_TEST_REDIS")}
	o.KafkaPID, _ = strconv.Atoi(os.Getenv("RANKER_TEST_KAFKA_PID"))
	o.RedisPID, _ = strconv.Atoi(os.Getenv("RANKER_TEST_REDIS_PID"))
	flag.IntVar(&o.Partitions, "partitions", 6, "partitions of the topics")
	flag.Int64Var(&o.Impressions, "impressions", 600_000, "impressions of one drain")
	flag.IntVar(&o.Runs, "runs", 3, "drains of the worker and of the copier each")
	flag.IntVar(&o.Rate, "rate", 10_000, "impressions per second of the latency run")
	flag.DurationVar(&o.Latency, "latency", 20*time.Second, "length of the latency run; 0: none")
	flag.StringVar(&o.Profile, "profile", "", "directory for profiles of the worker's last drain")
	quiet := flag.Bool("quiet", false, "print the table only")
	flag.Parse()
	if !*quiet {
		o.Verbose = os.Stderr
	}
	if err := run(o); err != nil {
		fmt.Fprintln(os.Stderr, "report:", err)
		os.Exit(1)
	}
}

func run(o report.Options) error {
	if o.Kafka == "" || o.Redis == "" {
		return errors.New("RANKER_TEST_KAFKA and RANKER_TEST_REDIS name no servers: run it by make bench")
	}
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer cancel()
	r, err := report.Run(ctx, o)
	if err != nil {
		return err
	}
	return r.Write(os.Stdout)
}
