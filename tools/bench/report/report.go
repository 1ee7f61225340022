package report

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/ranker-worker/ranker-worker/stream/broker"
)

// Options of all tables; each uses some.
type Options struct {
	Kafka, Redis       string // host:port
	KafkaPID, RedisPID int    // 0: their CPU is not reported
	Partitions         int
	Impressions        int64         // of one drain
	Runs               int           // of each program, in turn
	Rate               int           // impressions per second of the latency run
	Latency            time.Duration // length of the latency run; 0: none
	Sizes              []Size        // the rows of growth; the peers' only one
	Threads            int           // of a Kafka Streams job
	Profile            string        // directory for CPU and allocation profiles of the last drain; empty: none
	Verbose            io.Writer     // progress messages
}

// Load is the load average over a minute, before and after.
type Load [2]float64

type Report struct {
	Options Options
	Load    Load
	Rounds  rounds
	Latency *Latency
}

// The programs of a Report, in the order of its rounds.
const (
	stochasticOne = iota
	adversarialOne
	copierOne
)

// Run measures the whole pipeline. The copier copies the records by the worker's client, and does nothing else.
func Run(ctx context.Context, o Options) (*Report, error) {
	r := &Report{Options: o}
	return r, o.measure(ctx, &r.Load, func(b *bench) (err error) {
		size := Size{Partitions: b.Partitions, Items: 20_000}
		worker := func(learner string) func(context.Context, *broker.Client, bool) (Pass, error) {
			return func(ctx context.Context, c *broker.Client, last bool) (Pass, error) {
				return b.worked(ctx, c, learner, size, last && learner == stochastic)
			}
		}
		r.Rounds, err = b.run(ctx, "bench", size, []program{{"worker", worker(stochastic)}, {"adversarial worker", worker(adversarial)},
			{"copier", b.copied}})
		if err != nil || o.Latency == 0 {
			return err
		}
		r.Latency, err = b.latency(ctx)
		return err
	})
}

func (o *Options) measure(ctx context.Context, load *Load, what func(*bench) error) error {
	dir, err := os.MkdirTemp("", "ranker-bench-")
	if err != nil {
		return fmt.Errorf("make a directory for the benchmark: %w", err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	build := exec.CommandContext(ctx, "go", "build", "-o", filepath.Join(dir, "worker"), "github.com/ranker-worker/ranker-worker/cmd/ranker-worker")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("build the worker: %w\n%s", err, out)
	}
	kafka, err := kgo.NewClient(kgo.SeedBrokers(o.Kafka))
	if err != nil {
		return fmt.Errorf("a client of Kafka at %s: %w", o.Kafka, err)
	}
	defer kafka.Close()
	load[0] = loadAverage()
	err = what(&bench{Options: *o, dir: dir, kafka: kadm.NewClient(kafka)})
	load[1] = loadAverage()
	return err
}

type bench struct {
	Options
	kafka   *kadm.Client
	dir     string // of the worker and its configurations
	formats string // a line of the configuration under kafka
	warm    int64  // first impressions of each drain, which are not counted
}

func (b *bench) say(format string, args ...any) { fmt.Fprintf(b.Verbose, format+"\n", args...) }

func (r *Report) Write(w io.Writer) error {
	var t strings.Builder
	o := &r.Options
	median := func(program int, of func(*Pass) float64) float64 { return r.Rounds.of(program, of).median }
	each := func(program int, of func(*Pass) float64) string { return micros(time.Duration(median(program, of))) }
	fmt.Fprintf(&t, "One worker, %d partitions, %d impressions of 20 candidates (950 B), medians of %d runs in turn; load average %.1f before, %.1f after\n\n",
		o.Partitions, o.Impressions, len(r.Rounds), r.Load[0], r.Load[1])
	row := func(what, value, aim string) { fmt.Fprintf(&t, "| %-58s | %-28s | %-10s |\n", what, value, aim) }
	row("quantity", "measured", "aim")
	row(strings.Repeat("-", 58), strings.Repeat("-", 28), strings.Repeat("-", 10))
	row("drain: worker", fmt.Sprintf("%.0f impressions/s", median(stochasticOne, rate)), "")
	row("drain: bare copier, same broker and minute", fmt.Sprintf("%.0f records/s", median(copierOne, rate)), "")
	var ratios []string
	for _, round := range r.Rounds {
		ratios = append(ratios, fmt.Sprintf("%.2f", round[stochasticOne].PerSecond/round[copierOne].PerSecond))
	}
	row("drain: worker / copier", fmt.Sprintf("%.2f (%s)", r.Rounds.ratio(stochasticOne, copierOne, rate).median, strings.Join(ratios, " ")), "≥ 0.5")
	row("drain: the worker's CPU per impression", each(stochasticOne, cpu), "≤ 10 µs")
	row("drain: the copier's CPU per record", each(copierOne, cpu), "")
	if o.KafkaPID > 0 {
		row("drain: Kafka's CPU per impression (and per copied record)", each(stochasticOne, kafkas)+" ("+each(copierOne, kafkas)+")", "")
	}
	if o.RedisPID > 0 {
		row("drain: Redis' CPU per impression", each(stochasticOne, redises), "")
	}
	row("drain: worker with an adversarial learner", fmt.Sprintf("%.0f impressions/s", median(adversarialOne, rate)), "")
	row("drain: adversarial / stochastic learner", fmt.Sprintf("%.2f", r.Rounds.ratio(adversarialOne, stochasticOne, rate).median), "≥ 0.7")
	row("drain: the adversarial worker's CPU per impression", each(adversarialOne, cpu), "")
	if l := r.Latency; l != nil {
		at := fmt.Sprintf("latency at %d/s, ", o.Rate)
		row(at+"seen by a consumer: p50", millis(l.P50), "≤ 5 ms")
		row(at+"seen by a consumer: p99", millis(l.P99), "≤ 25 ms")
		row(at+"the worker's histogram: p50", "≤ "+millis(l.WorkerP50), "")
		row(at+"the worker's histogram: p99", "≤ "+millis(l.WorkerP99), "")
		row(at+"the worker's CPU per impression", micros(l.CPU), "")
	}
	_, err := io.WriteString(w, t.String())
	return err
}

func micros(d time.Duration) string { return fmt.Sprintf("%.1f µs", float64(d)/1e3) }
func millis(d time.Duration) string { return fmt.Sprintf("%.1f ms", float64(d)/1e6) }

var errDied = errors.New("it ended early")
