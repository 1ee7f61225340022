package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/cobra"

	"github.com/ranker-worker/ranker-worker/config"
	"github.com/ranker-worker/ranker-worker/internal/app"
	"github.com/ranker-worker/ranker-worker/internal/demo"
	"github.com/ranker-worker/ranker-worker/internal/plural"
	"github.com/ranker-worker/ranker-worker/internal/serve"
	"github.com/ranker-worker/ranker-worker/stream"
	"github.com/ranker-worker/ranker-worker/stream/broker"
)

// maxDemoImpressions bounds the memory of the embedded servers, which keep everything.
const maxDemoImpressions = 1_000_000

func newDemoCommand() *cobra.Command {
	var (
		opt     = demo.Options{Impressions: 20_000, Seed: 1}
		verbose bool
		listen  string
	)
	cmd := verb(configFlag|jsonFlag, &cobra.Command{
		Use:   "demo [--impressions N] [--seed S] [--json] [--serve] | --config FILE",
		Short: "See it work: users, Kafka, Redis and the worker in one process",
		Long: `Play a platform in one process: an embedded Kafka broker and an embedded Redis on loopback, simulated users
who look at the first few results only and select the one they like best, payoffs that arrive days later, and the real
worker between them. Only the days are simulated. The same --seed makes the same users; the worker's own figures differ a
little from run to run, since its topics overtake each other.

It shows the worker learn and prints a summary. The first line is the address of the worker's live page: port 8080, or the
next free one. On a terminal the page stays until you interrupt the demo; elsewhere the demo ends by itself. With --serve it
goes on, too, and takes impressions, selections and payoffs over HTTP, as "ranker-worker serve" does.

With --config it plays nothing: it starts the embedded Kafka and Redis at the addresses of FILE, on loopback, makes the
topics, and runs the worker and "serve" with FILE, for records of your own, until it is interrupted. Other commands reach
them with the same FILE.`,
		Example: `  ranker-worker demo
  ranker-worker demo --impressions 500000     minutes to look at the live page
  ranker-worker demo --impressions 50000 --seed 7
  ranker-worker demo --json | jq .learners
  ranker-worker demo --serve
  ranker-worker demo --config docs/learn/shop.yaml`,
		Args: without,
	}, func(c *call) error {
		if c.file != "" {
			return runOwnDemo(c)
		}
		if opt.Impressions < 1 || opt.Impressions > maxDemoImpressions {
			return usageError{fmt.Errorf("--impressions must be from 1 to %d, not %d", maxDemoImpressions, opt.Impressions)}
		}
		return runDemo(c, opt, verbose, listen)
	})
	f := cmd.Flags()
	f.IntVar(&opt.Impressions, "impressions", opt.Impressions, "how many lists to rank")
	f.Uint64Var(&opt.Seed, "seed", opt.Seed, "makes the same users again")
	f.BoolVar(&verbose, "verbose", false, "show the worker's log on stderr")
	f.StringVar(&listen, "serve", "", "then take records over HTTP at this `ADDRESS`")
	f.Lookup("serve").NoOptDefVal = config.Defaults().Serve.Listen
	f.Lookup(configName).Usage = "run the learners of the configuration `FILE`"
	for _, other := range []string{"impressions", "seed", "json", "verbose", "serve"} {
		cmd.MarkFlagsMutuallyExclusive("config", other)
	}
	return cmd
}

func runDemo(c *call, opt demo.Options, verbose bool, listen string) error {
	out, errOut := c.out(), c.errOut()
	people := out
	if c.json || !isTerminal(out) {
		people = errOut
	}
	opt.Logger = slog.New(slog.DiscardHandler)
	if verbose {
		opt.Logger = slog.New(slog.NewTextHandler(errOut, nil))
	}
	var page string
	opt.Page = func(address string) {
		page = address
		fmt.Fprintf(people, demoIntroduction, address, plural.N(opt.Impressions, "impression"))
	}
	show := &demoProgress{w: people, live: isTerminal(people)}
	opt.Progress = show.update
	reported := false
	report := func(s *demo.Summary) error {
		reported = true
		show.end()
		return c.show(s, func(w io.Writer) { printSummary(w, s) })
	}
	if opt.Listen = listen; listen != "" || isTerminal(out) && !c.json {
		opt.Serve = func(ctx context.Context, s *demo.Summary, d *serve.Service) error {
			if err := report(s); err != nil {
				return err
			}
			if d != nil {
				return serveDemo(ctx, people, d)
			}
			fmt.Fprintf(people, demoStays, page)
			<-ctx.Done()
			return nil
		}
	}
	s, err := demo.Run(c.ctx, opt)
	if s == nil || err != nil {
		show.end()
		return errors.Join(errors.New("the demo did not end well"), err)
	}
	if reported {
		return nil
	}
	return report(s)
}

const demoStays = `
The live page stays at http://%s/ until you interrupt this (Ctrl-C).
`

const demoIntroduction = `Live page, while this runs: http://%s/
Kafka, Redis and a worker in this process. It ranks %s
for two learners: the payoffs of the first are constant; those of the second
change half-way. (--impressions 500000 gives you minutes to look.)
Regret is the payoff lost against the best fixed rankings: those that pay most
over the whole time. Less is better.

`

func serveDemo(ctx context.Context, w io.Writer, d *serve.Service) error {
	server, err := serve.Listen(d, stream.ServerConfig{Registry: prometheus.NewRegistry(), Unready: d.Unready, Version: buildVersion()})
	if err != nil {
		return err
	}
	fmt.Fprintf(w, demoCurls, server.Addr())
	return server.Run(ctx, context.Background())
}

const demoCurls = `
The worker goes on and answers requests. Interrupt it (Ctrl-C) to end it.
In another terminal:

  curl --json '{"impression_id":"mine-1","learner":"feed","candidates":[
    {"item":"item-01","utility":0.9},{"item":"item-02","utility":0.5},
    {"item":"item-03","utility":0.4}]}' http://%[1]s/v1/rank
  curl --json '{"impression_id":"mine-1","item":"item-03"}' http://%[1]s/v1/selections
  curl --json '{"impression_id":"mine-1","payoff":1}' http://%[1]s/v1/payoffs
`

// demoProgress shows the demo's progress: on a terminal one line that is overwritten, else a line now and then.
type demoProgress struct {
	w      io.Writer
	live   bool
	shown  time.Time
	header bool
	open   bool
	below  bool // a regret below 0 was shown
}

func (d *demoProgress) update(p demo.Progress) {
	every := 400 * time.Millisecond
	if d.live {
		every = 200 * time.Millisecond
	}
	if d.shown.IsZero() && !d.live {
		d.shown = time.Now() // the first moments say little
	}
	if !d.shown.IsZero() && time.Since(d.shown) < every {
		return
	}
	d.shown = time.Now()
	if !d.header {
		d.header = true
		fmt.Fprintf(d.w, "%27s", "")
		for _, l := range p.Learners {
			fmt.Fprintf(d.w, "  %24s", "regret, "+l.Name)
		}
		fmt.Fprintf(d.w, "\n%-14s %5s %7s", "", "day", "ranked")
		for range p.Learners {
			fmt.Fprintf(d.w, "  %9s %14s", "worker", "users' taste")
		}
		fmt.Fprintln(d.w)
	}
	const width = 12
	done := 0.0
	if p.Impressions > 0 {
		done = float64(p.Rankings) / float64(p.Impressions)
	}
	bar := strings.Repeat("█", int(math.Round(done*width))) + strings.Repeat("·", width-int(math.Round(done*width)))
	start, end := "", "\n"
	if d.live {
		start, end = "\r", ""
		d.open = true
	}
	fmt.Fprintf(d.w, "%s[%s] %5.0f %7d", start, bar, p.Day.Hours()/24, p.Rankings)
	for _, l := range p.Learners {
		d.below = d.below || whole(l.Regret) < 0
		fmt.Fprintf(d.w, "  %9d %14d", whole(l.Regret), whole(l.ByUtility))
	}
	fmt.Fprint(d.w, end)
}

func (d *demoProgress) end() {
	if d.open {
		fmt.Fprintln(d.w)
	}
	if d.below {
		fmt.Fprint(d.w, whyBelow)
	}
	fmt.Fprintln(d.w)
}

func whole(regret float64) int64 { return int64(math.Round(regret)) }

const whyBelow = `Negative regret is possible: the yardstick is the best fixed ranking, and a
learner that follows a change can beat it.
`

func printSummary(w io.Writer, s *demo.Summary) {
	fmt.Fprintf(w, "In %.1f seconds, %.0f days of a platform passed.\n\n", s.Seconds, s.Simulated.Hours()/24)
	for _, name := range slices.Sorted(maps.Keys(s.Learners)) {
		l := s.Learners[name]
		fmt.Fprintf(w, `Learner %q (policy %s, delay %s)
  In %.0f%% of the impressions the item with the highest utility does not pay best.
  Mean payoff per impression   %.3f ranked by utility
                               %.3f ranked by this worker, while it learned
                               %.3f by the best rankings in hindsight
  Regret                       %d, against %d for ranking by utility
  Its %7d payoffs          %d applied, %d duplicate, %d late
`, name, l.Policy, l.Delay, 100*l.Misalignment, l.PayoffUtilityOrder, l.Payoff, l.PayoffBest, whole(l.Regret),
			whole(l.RegretUtilityOrder), l.PayoffsSent, l.Payoffs.Applied, l.Payoffs.Duplicate, l.Payoffs.Late)
		if whole(l.Regret) < 0 {
			fmt.Fprint(w, whyBelow)
		}
		fmt.Fprintln(w)
	}
	a := &s.Account
	fmt.Fprintf(w, `Account
  %s, each ranked once
      %d paid, %d never paid, %d unselected, %d pending
  %s
      %d joined, %d duplicate, %d late, %d orphan
  %s
      %d applied, %d duplicate, %d late, %d orphan,
      %d rejected, %d parked
`, plural.N(s.Impressions, "impression"), a.Impressions.Paid, a.Impressions.Expired+a.Impressions.Defaulted, a.Impressions.Unselected, s.Pending,
		plural.N(s.Selections, "selection"), a.Selections.Joined, a.Selections.Duplicate, a.Selections.Late, a.Selections.Orphan,
		plural.N(s.Sent, "payoff"), s.Payoffs.Applied, s.Payoffs.Duplicate, s.Payoffs.Late, s.Payoffs.Orphan, s.Payoffs.Rejected, s.Payoffs.Parked)
	fmt.Fprint(w, `
Policies and regret: docs/understand/policies.md
Next, your own events: docs/learn/your-own-events.md
`)
}

// runOwnDemo starts an embedded Kafka and Redis at the addresses of a configuration, makes the topics, and runs `run` and `serve` of that
// configuration until it is interrupted.
func runOwnDemo(c *call) error {
	cfg, err := c.load(config.KafkaFiles, config.RedisFiles)
	if err != nil {
		return err
	}
	closePair, err := demo.StartPair(cfg)
	if err != nil {
		return err
	}
	defer closePair()
	ctx, cancel := context.WithCancel(c.ctx)
	defer cancel()
	b, err := app.NewBroker(cfg)
	if err != nil {
		return err
	}
	defer b.Close()
	creating, created := context.WithTimeout(c.ctx, 30*time.Second)
	defer created()
	if _, err := b.Create(creating, broker.Spec{Partitions: demo.Partitions, Replication: 1}); err != nil {
		return fmt.Errorf("creating topics: %w", err)
	}
	fmt.Fprintf(c.out(), ownIntroduction, cfg.HTTP.Listen, cfg.Serve.Listen, cfg.Kafka.Brokers[0], cfg.Redis.Addresses[0])
	ended := make(chan error, 2)
	for _, part := range []func(*call) error{runWorker, runServe} {
		own := &call{cmd: c.cmd, args: c.args, ctx: ctx, file: c.file, json: c.json, began: c.began} // each loads the configuration
		go func() { ended <- part(own) }()
	}
	err = <-ended
	cancel()
	return errors.Join(err, <-ended)
}

const ownIntroduction = `Live page  http://%s/
Records    http://%s/v1/rank, /v1/selections, /v1/payoffs
Kafka      %s
Redis      %s
All of them are in this process, and forget everything when it ends (Ctrl-C).
`
