// Command soak runs workers on a real Kafka of three brokers and a real Redis with a replica. It injects faults under traffic, and checks
// that nothing is lost and nothing counted twice. It prints a table, and ends with status 1 if a law was broken, or a measurement missed
// its aim.
//
//	go run ./tools/faults/cmd/soak -duration 10m -seed 1
//	go run ./tools/faults/cmd/soak -each                     # every kind by itself
//	go run ./tools/faults/cmd/soak -measure                  # pauses, latencies and memory under faults
//	go run ./tools/faults/cmd/soak -endure -duration 1h      # full speed, partitions moving, no faults: does memory level off?
//	go run ./tools/faults/cmd/soak -match 'redis|zombie' -duration 1m
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"regexp"
	"strings"
	"syscall"
	"time"

	"github.com/ranker-worker/ranker-worker/tools/faults"
)

func main() {
	duration := flag.Duration("duration", 10*time.Minute, "how long faults are injected; checks come on top")
	seed := flag.Uint64("seed", 1, "of the faults and the traffic")
	rate := flag.Int("rate", 0, "impressions per second, at most; 0: 2500, and with -endure more than can be taken")
	pace := flag.Duration("pace", 1800*time.Millisecond, "between one fault and the next, on average")
	match := flag.String("match", "", "regular expression: only these kinds, or measurements")
	each := flag.Bool("each", false, "every kind by itself, with all checks after each")
	measure := flag.Bool("measure", false, "take the measurements under faults instead: pauses, latencies, memory")
	endure := flag.Bool("endure", false, "run at full speed for the duration, partitions moving but without faults, and see whether memory levels off: ten minutes at least, for ids are kept for two")
	quick := flag.Bool("quick", false, "wait as little as possible within a fault")
	keep := flag.Bool("keep", false, "when a law was broken, leave Kafka and Redis running until interrupted, and keep the workers' logs")
	list := flag.Bool("list", false, "only list the kinds of faults")
	flag.Parse()
	pattern, err := regexp.Compile(*match)
	if err != nil {
		fmt.Fprintln(os.Stderr, "soak:", err)
		os.Exit(2)
	}
	if *list {
		for _, f := range faults.Faults() {
			fmt.Println(f.Kind)
		}
		return
	}
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer cancel()
	if err := withCluster(ctx, func(c *faults.Cluster, say narrate) error {
		switch {
		case *measure:
			return report(c.Measure(ctx, *seed, pattern.MatchString, say))
		case *endure:
			return report(c.Endure(ctx, *seed, *rate, *duration))
		}
		result, err := c.Soak(ctx, faults.Options{Duration: *duration, Seed: *seed, Rate: cmp.Or(*rate, 2500), Pace: *pace, Match: pattern.MatchString,
			Each: *each, Quick: *quick, Say: say})
		err = errors.Join(err, result.Print(os.Stdout))
		if len(result.Violations) == 0 {
			return err
		}
		if *keep {
			say("violated: %s", strings.Join(result.Violations, "; "))
			say("logs and configurations are in %s; Kafka %s and Redis %s run until interrupted", c.KeepFiles(), c.Kafka.Addrs(), c.Redis.Addr())
			<-ctx.Done()
		}
		return errors.Join(err, faults.ErrViolation)
	}); err != nil {
		fmt.Fprintln(os.Stderr, "soak:", err)
		os.Exit(1)
	}
}

// narrate logs an event.
type narrate = func(format string, args ...any)

// withCluster runs do with a cluster, and logs lines with the seconds since the beginning.
func withCluster(ctx context.Context, do func(*faults.Cluster, narrate) error) (err error) {
	began := time.Now()
	say := func(format string, args ...any) {
		fmt.Fprintf(os.Stderr, "%7.1f  %s\n", time.Since(began).Seconds(), fmt.Sprintf(format, args...))
	}
	dir, err := os.MkdirTemp("", "ranker-soak-")
	if err != nil {
		return fmt.Errorf("make a directory: %w", err)
	}
	c, err := faults.StartCluster(ctx, dir, say)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	say("up: %s, Redis %s", c.Kafka.Addrs(), c.Redis.Addr())
	return do(c, say)
}

// report prints measurements. One that missed its aim is an error.
func report(all []faults.Measurement, err error) error {
	missed := 0
	for _, m := range all {
		if !m.Met {
			missed++
		}
		fmt.Printf("%-75s %-45s aim: %s%s\n", m.What, m.Found, m.Aim, map[bool]string{false: "  MISSED"}[m.Met])
	}
	if err == nil && missed > 0 {
		err = fmt.Errorf("%d of %d aims were missed", missed, len(all))
	}
	return err
}
