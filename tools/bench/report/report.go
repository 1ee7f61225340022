package report

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
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
	Drains  []Drain
	Latency *Latency
}

// Run measures the whole pipeline.
func Run(ctx context.Context, o Options) (*Report, error) {
	r := &Report{Options: o}
	return r, o.measure(ctx, &r.Load, func(b *bench) (err error) {
		if err := build(ctx, b.dir, "copier", "tools/bench/cmd/copier"); err != nil {
			return err
		}
		if err := b.drains(ctx, r); err != nil || o.Latency == 0 {
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
	if err := build(ctx, dir, "worker", "cmd/ranker-worker"); err != nil {
		return err
	}
	load[0] = loadAverage()
	err = what(&bench{Options: *o, dir: dir})
	load[1] = loadAverage()
	return err
}

type bench struct {
	Options
	dir     string // of the programs and their configurations
	formats string // a line of the configuration under kafka
	warm    int64  // first impressions of each drain, which are not counted
}

func (b *bench) say(format string, args ...any) { fmt.Fprintf(b.Verbose, format+"\n", args...) }

func build(ctx context.Context, dir, name, pkg string) error {
	cmd := exec.CommandContext(ctx, "go", "build", "-o", filepath.Join(dir, name), "github.com/ranker-worker/ranker-worker/"+pkg)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build %s: %w\n%s", pkg, err, out)
	}
	return nil
}

// Medians over the runs of a report's drains.
type Medians struct {
	Worker, Copier   float64 // impressions per second
	Adversarial      float64
	AdversarialRatio float64 // to the stochastic learner's of the same run
	AdversarialCPU   time.Duration
	Ratio            float64 // of consecutive runs
	CPU, CopierCPU   time.Duration
	Kafka, Redis     time.Duration // CPU per impression while the worker drained
	CopierKafka      time.Duration
}

func (r *Report) Medians() Medians {
	pick := func(f func(d *Drain) float64) float64 {
		var all []float64
		for i := range r.Drains {
			all = append(all, f(&r.Drains[i]))
		}
		return median(all)
	}
	cpu := func(f func(d *Drain) time.Duration) time.Duration {
		return time.Duration(pick(func(d *Drain) float64 { return float64(f(d)) }))
	}
	return Medians{
		Worker:           pick(func(d *Drain) float64 { return d.Worker.PerSecond }),
		Copier:           pick(func(d *Drain) float64 { return d.Copier.PerSecond }),
		Ratio:            pick(func(d *Drain) float64 { return d.Worker.PerSecond / d.Copier.PerSecond }),
		Adversarial:      pick(func(d *Drain) float64 { return d.Adversarial.PerSecond }),
		AdversarialRatio: pick(func(d *Drain) float64 { return d.Adversarial.PerSecond / d.Worker.PerSecond }),
		AdversarialCPU:   cpu(func(d *Drain) time.Duration { return d.Adversarial.CPU }),
		CPU:              cpu(func(d *Drain) time.Duration { return d.Worker.CPU }),
		CopierCPU:        cpu(func(d *Drain) time.Duration { return d.Copier.CPU }),
		Kafka:            cpu(func(d *Drain) time.Duration { return d.Worker.Kafka }),
		Redis:            cpu(func(d *Drain) time.Duration { return d.Worker.Redis }),
		CopierKafka:      cpu(func(d *Drain) time.Duration { return d.Copier.Kafka }),
	}
}

// median of at least one value.
func median(all []float64) float64 {
	slices.Sort(all)
	n := len(all)
	return (all[(n-1)/2] + all[n/2]) / 2
}

func (r *Report) Write(w io.Writer) error {
	var t strings.Builder
	o, m := &r.Options, r.Medians()
	fmt.Fprintf(&t, "One worker, %d partitions, %d impressions of 20 candidates (950 B), medians of %d runs in turn; load average %.1f before, %.1f after\n\n",
		o.Partitions, o.Impressions, len(r.Drains), r.Load[0], r.Load[1])
	row := func(what, value, aim string) { fmt.Fprintf(&t, "| %-58s | %-28s | %-10s |\n", what, value, aim) }
	row("quantity", "measured", "aim")
	row(strings.Repeat("-", 58), strings.Repeat("-", 28), strings.Repeat("-", 10))
	row("drain: worker", fmt.Sprintf("%.0f impressions/s", m.Worker), "")
	row("drain: bare copier, same broker and minute", fmt.Sprintf("%.0f records/s", m.Copier), "")
	var ratios []string
	for i := range r.Drains {
		ratios = append(ratios, fmt.Sprintf("%.2f", r.Drains[i].Worker.PerSecond/r.Drains[i].Copier.PerSecond))
	}
	row("drain: worker / copier", fmt.Sprintf("%.2f (%s)", m.Ratio, strings.Join(ratios, " ")), "≥ 0.5")
	row("drain: the worker's CPU per impression", micros(m.CPU), "≤ 10 µs")
	row("drain: the copier's CPU per record", micros(m.CopierCPU), "")
	if o.KafkaPID > 0 {
		row("drain: Kafka's CPU per impression (and per copied record)", micros(m.Kafka)+" ("+micros(m.CopierKafka)+")", "")
	}
	if o.RedisPID > 0 {
		row("drain: Redis' CPU per impression", micros(m.Redis), "")
	}
	row("drain: worker with an adversarial learner", fmt.Sprintf("%.0f impressions/s", m.Adversarial), "")
	row("drain: adversarial / stochastic learner", fmt.Sprintf("%.2f", m.AdversarialRatio), "≥ 0.7")
	row("drain: the adversarial worker's CPU per impression", micros(m.AdversarialCPU), "")
	if l := r.Latency; l != nil {
		at := fmt.Sprintf("latency at %d/s, ", o.Rate)
		row(at+"seen by a consumer: p50", millis(l.P50), "≤ 5 ms")
		row(at+"seen by a consumer: p99", millis(l.P99), "≤ 25 ms")
		row(at+"the worker's histogram: p50", "≤ "+millis(l.WorkerP50), "")
		row(at+"the worker's histogram: p99", "≤ "+millis(l.WorkerP99), "")
		row(at+"the worker's CPU per impression", micros(l.CPU), "")
		row(at+"achieved", fmt.Sprintf("%.0f impressions/s", l.Rate), "")
	}
	_, err := io.WriteString(w, t.String())
	return err
}

func micros(d time.Duration) string { return fmt.Sprintf("%.1f µs", float64(d)/1e3) }
func millis(d time.Duration) string { return fmt.Sprintf("%.1f ms", float64(d)/1e6) }

var errDied = errors.New("it ended early")
