// Command testenv starts a real Apache Kafka and a real redis-server on loopback, runs a command with them, stops them, and exits with the
// command's status:
//
//	go run ./internal/test/testenv/cmd/testenv -- go test ./...
//	go run ./internal/test/testenv/cmd/testenv -bench -heap 1g -- bash
//
// The command gets RANKER_TEST_KAFKA and RANKER_TEST_REDIS, each host:port, and the servers' process ids in RANKER_TEST_KAFKA_PID and
// RANKER_TEST_REDIS_PID.
//
// At the end it prints the requests for transaction markers that Kafka left without an answer. Kafka's log is kept if there are any, or if
// the command fails.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/ranker-worker/ranker-worker/internal/test/testenv/kafka"
	"github.com/ranker-worker/ranker-worker/internal/test/testenv/redis"
)

// The variables of package testenv, which imports testing, so that commands do not import it.
const (
	kafkaEnv = "RANKER_TEST_KAFKA"
	redisEnv = "RANKER_TEST_REDIS"
)

func main() {
	bench := flag.Bool("bench", false, "let the JVM optimise fully: slower to start, faster to run")
	heap := flag.String("heap", "768m", "heap of Kafka's JVM")
	fetch := flag.Bool("fetch", false, "only fetch Apache Kafka, and check that everything is installed")
	flag.Usage = func() {
		fmt.Fprintln(os.Stderr, "usage: testenv [flags] -- COMMAND [ARGUMENT…]")
		flag.PrintDefaults()
	}
	flag.Parse()
	if flag.NArg() == 0 && !*fetch {
		flag.Usage()
		os.Exit(2)
	}
	// The command is in this process group and receives a Ctrl-C itself; testenv waits for it.
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer cancel()
	if *fetch {
		exit(prepare(ctx), 1)
	}
	code, err := run(ctx, kafka.Options{Heap: *heap, Bench: *bench}, flag.Args())
	exit(err, code)
}

func exit(err error, code int) {
	if err == nil {
		os.Exit(0)
	}
	if exited := (*exec.ExitError)(nil); !errors.As(err, &exited) { // the command has printed its own error
		fmt.Fprintln(os.Stderr, "testenv:", err)
	}
	os.Exit(max(code, 1))
}

// prepare checks before anything is started.
func prepare(ctx context.Context) error {
	if _, err := redis.Program(); err != nil {
		return err
	}
	if _, err := kafka.Java(ctx); err != nil {
		return err
	}
	_, err := kafka.Fetch(ctx)
	return err
}

// run returns the command's exit status.
func run(ctx context.Context, opts kafka.Options, command []string) (code int, err error) {
	var broker *kafka.Broker
	var server *redis.Server
	defer func() { err = errors.Join(err, closeAll(broker, server)) }()

	began := time.Now()
	var start errgroup.Group
	start.Go(func() (err error) { broker, err = kafka.Start(ctx, opts); return err })
	start.Go(func() (err error) { server, err = redis.Start(ctx, redis.Options{}); return err })
	if err := start.Wait(); err != nil {
		return 1, err
	}
	fmt.Fprintf(os.Stderr, "testenv: Apache Kafka %s on %s and redis-server on %s, up in %.1f s\n",
		kafka.Version, broker.Addr(), server.Addr(), time.Since(began).Seconds())

	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	cmd.Env = append(os.Environ(), kafkaEnv+"="+broker.Addr(), redisEnv+"="+server.Addr(),
		kafkaEnv+"_PID="+strconv.Itoa(broker.PID()), redisEnv+"_PID="+strconv.Itoa(server.PID()))
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = 10 * time.Second
	failed := cmd.Run()
	err = report(broker, failed != nil)
	if failed != nil {
		return cmd.ProcessState.ExitCode(), errors.Join(fmt.Errorf("run %s: %w", command[0], failed), err)
	}
	return 0, err
}

// report prints the lost requests for transaction markers, and keeps the log if there are any or the command failed.
func report(broker *kafka.Broker, failed bool) error {
	lost, err := broker.LostMarkers()
	if err != nil {
		return err
	}
	if len(lost) > 0 {
		fmt.Fprintf(os.Stderr, "testenv: requests for transaction markers that Kafka left without an answer: %d. "+
			"All transactions waited 30 s for each; see LostMarkers.\n", len(lost))
		for _, line := range lost {
			fmt.Fprintln(os.Stderr, "testenv:", line)
		}
	}
	if len(lost) == 0 && !failed {
		return nil
	}
	path, err := broker.KeepLog()
	if err == nil {
		fmt.Fprintln(os.Stderr, "testenv: the log of Apache Kafka is kept as", path)
	}
	return err
}

func closeAll(broker *kafka.Broker, server *redis.Server) error {
	var errs []error
	if broker != nil {
		errs = append(errs, broker.Close())
	}
	if server != nil {
		errs = append(errs, server.Close())
	}
	return errors.Join(errs...)
}
