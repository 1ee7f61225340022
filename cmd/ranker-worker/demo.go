package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"math"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/ranker-worker/ranker-worker/internal/demo"
)

// maxDemoImpressions keeps a demo within what the embedded servers, which keep everything in memory, can hold.
const maxDemoImpressions = 1_000_000

func newDemoCommand() *cobra.Command {
	var (
		opt     = demo.Options{Impressions: 20_000, Seed: 1}
		asJSON  bool
		verbose bool
	)
	cmd := &cobra.Command{
		Use:   "demo [--impressions N] [--seed S] [--json]",
		Short: "See it work: users, Kafka, Redis and the worker in one process",
		Long: `Play a platform in one process: an embedded Kafka broker and an embedded Redis on loopback, simulated users
who look at the first few results only and select what they like best, payoffs that arrive days later, and the real
worker between them. The days are simulated; nothing else is.

It shows what the worker learns, ends by itself and prints a summary.`,
		Example: `  ranker-worker demo
  ranker-worker demo --impressions 50000 --seed 7
  ranker-worker demo --json | jq .learners`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if opt.Impressions < 1 || opt.Impressions > maxDemoImpressions {
				return usageError{fmt.Errorf("--impressions must be from 1 to %d, not %d", maxDemoImpressions, opt.Impressions)}
			}
			return runDemo(cmd, opt, asJSON, verbose)
		},
	}
	f := cmd.Flags()
	f.IntVar(&opt.Impressions, "impressions", opt.Impressions, "how many lists to rank")
	f.Uint64Var(&opt.Seed, "seed", opt.Seed, "makes the same users again")
	f.BoolVar(&asJSON, "json", false, "print one JSON document on stdout")
	f.BoolVar(&verbose, "verbose", false, "show the worker's log on stderr")
	return cmd
}

func runDemo(cmd *cobra.Command, opt demo.Options, asJSON, verbose bool) error {
	out, errOut := cmd.OutOrStdout(), cmd.ErrOrStderr()
	people := out
	if asJSON || !isTerminal(out) {
		people = errOut
	}
	opt.Logger = slog.New(slog.DiscardHandler)
	if verbose {
		opt.Logger = slog.New(slog.NewTextHandler(errOut, nil))
	}
	fmt.Fprintf(people, "Starting Kafka and Redis in this process, and a worker. %d impressions are to be ranked.\n\n",
		opt.Impressions)
	show := &demoProgress{w: people, live: isTerminal(people)}
	opt.Progress = show.update
	drain, _, stop := signals(cmd.Context(), func(os.Signal) {})
	defer stop()
	s, err := demo.Run(drain, opt)
	show.end()
	if s == nil || err != nil {
		return errors.Join(errors.New("the demo did not end well"), err)
	}
	if asJSON {
		enc := json.NewEncoder(out)
		return enc.Encode(s)
	}
	printSummary(out, s)
	return nil
}

// isTerminal tells whether w is a terminal, where a line can be written over.
func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

// demoProgress shows how the demo goes: on a terminal one line that is written over, else a line now and then.
type demoProgress struct {
	w      io.Writer
	live   bool
	shown  time.Time
	header bool
	open   bool
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
		fmt.Fprintf(d.w, "%-22s %7s %10s", "", "day", "ranked")
		for _, l := range p.Learners {
			fmt.Fprintf(d.w, "  %10s fed %9s %11s", l.Name, "regret", "by utility")
		}
		fmt.Fprintln(d.w)
	}
	const width = 20
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
	fmt.Fprintf(d.w, "%s[%s] %7.1f %10d", start, bar, p.Day.Hours()/24, p.Rankings)
	for _, l := range p.Learners {
		fmt.Fprintf(d.w, "  %14d %9.1f %11.1f", l.Fed, l.Regret, l.ByUtility)
	}
	fmt.Fprint(d.w, end)
}

func (d *demoProgress) end() {
	if d.open {
		fmt.Fprintln(d.w)
	}
	fmt.Fprintln(d.w)
}

func printSummary(w io.Writer, s *demo.Summary) {
	fmt.Fprintf(w, "In %.1f seconds, %.0f days of a platform's life went by.\n\n", s.Seconds, s.Simulated.Hours()/24)
	for _, name := range slices.Sorted(maps.Keys(s.Learners)) {
		l := s.Learners[name]
		fmt.Fprintf(w, `What was learned (learner %q, policy %s, delay %s)
  In %.0f%% of the impressions, what users like best is not what pays best.
  Mean payoff per impression   %.3f ranked by what users like
                               %.3f ranked by this worker, while it learned
                               %.3f by the best rankings in hindsight
  Regret                       %.0f, against %.0f for ranking by utility
  Its %5d payoffs            %d applied, %d duplicate, %d late

`, name, l.Policy, l.Delay, 100*l.Misalignment, l.PayoffUtilityOrder, l.Payoff, l.PayoffBest, l.Regret, l.RegretUtilityOrder,
			l.PayoffsSent, l.Payoffs.Applied, l.Payoffs.Duplicate, l.Payoffs.Late)
	}
	a := &s.Account
	fmt.Fprintf(w, `Where everything went
  %d impressions, each ranked once: %d paid, %d never paid, %d unselected, %d pending
  %d selections: %d joined, %d duplicate, %d late, %d orphan
  %d payoffs: %d applied, %d duplicate, %d late, %d orphan, %d rejected, %d parked
`, s.Impressions, a.Impressions.Paid, a.Impressions.Expired+a.Impressions.Defaulted, a.Impressions.Unselected, s.Pending,
		s.Selections, a.Selections.Joined, a.Selections.Duplicate, a.Selections.Late, a.Selections.Orphan,
		s.Sent, s.Payoffs.Applied, s.Payoffs.Duplicate, s.Payoffs.Late, s.Payoffs.Orphan, s.Payoffs.Rejected, s.Payoffs.Parked)
	fmt.Fprintln(w, "\nNext: `ranker-worker topics --config FILE --create`, then `ranker-worker run --config FILE`; the README has a file to begin with.")
}
