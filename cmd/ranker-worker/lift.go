package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/signal"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/ranker-worker/ranker-worker/config"
	"github.com/ranker-worker/ranker-worker/internal/joinedlog"
	"github.com/ranker-worker/ranker-worker/internal/learners"
	"github.com/ranker-worker/ranker-worker/internal/lift"
	"github.com/ranker-worker/ranker-worker/internal/plural"
	"github.com/ranker-worker/ranker-worker/stream/event"
)

type comparison struct {
	input      logInput
	experiment string
	unit       string
	asOf       string
	asJSON     bool
	plot       string
}

func newLiftCommand() *cobra.Command {
	var c comparison
	cmd := &cobra.Command{
		Use:   "lift --config FILE [--experiment NAME]",
		Short: "Estimate the lift of an experiment's arms over its control from the records alone",
		Long: `Estimate the lift of an experiment's arms over its control from the records alone. It only reads rankings, selections and
payoffs, from the topics or from files of their records, and computes the same as the worker's metrics (ranker_lift).

A unit counts once its payoff deadline has passed. The bounds hold at every look: look daily, and stop when they suffice.
Payoffs and lifts are in payoff ranges: 0 is the least of payoff_range, 1 the greatest.

  better   the lower bound is above 0       open     0 lies within the bounds
  worse    the upper bound is below 0       refused  there are no bounds; the reason stands below the table

If users keep their arm (period: never), the same units count at each look, and there are no bounds. With --unit user each
group of users counts once, over all of its time; the bounds then hold for a single look, at a time fixed in advance.

Exit code 3 if no arm has bounds.`,
		Example: `  ranker-worker lift --config worker.yaml --experiment feed
  ranker-worker lift --config worker.yaml --from 2026-10-01 --json --plot lift.svg
  ranker-worker lift --config worker.yaml --rankings r.jsonl --selections s.jsonl --payoffs p.jsonl`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return c.run(cmd) },
	}
	f := cmd.Flags()
	c.input.sourceFlags(cmd, event.Rankings, event.Selections, event.Payoffs)
	f.StringVar(&c.experiment, "experiment", "", "which of the configuration's experiments (default: the only one)")
	f.StringVar(&c.unit, "unit", "", "user: count each group of users once, where they keep their arm")
	f.StringVar(&c.asOf, "as-of", "", "count units with a deadline before this `TIME` (default: now; for files, the time of their last records)")
	f.BoolVar(&c.asJSON, "json", false, "print one JSON document on stdout")
	f.StringVar(&c.plot, "plot", "", "draw the lifts with their bounds to `FILE`.svg, for light and dark pages, or .png")
	_ = cmd.MarkFlagRequired("config")
	return cmd
}

func (c *comparison) run(cmd *cobra.Command) error {
	if err := plotFile(c.plot); err != nil {
		return err
	}
	cfg, err := loadText(cmd, c.input.config)
	if err != nil {
		return err
	}
	units, q, err := c.asked(cfg)
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(cmd.Context(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	in, err := c.input.openQuery(ctx, cmd, cfg, q)
	if err != nil {
		return err
	}
	defer in.close()
	p := &slowProgress{w: cmd.ErrOrStderr(), live: isTerminal(cmd.ErrOrStderr()), began: time.Now()}
	q.Progress = func(at event.Millis, records int64, share float64) {
		p.say(withShare(fmt.Sprintf("reading: %s, up to %s", plural.N(records, "record"), time.UnixMilli(at).UTC().Format(time.DateOnly)), share, true, p.began))
	}
	log, err := joinedlog.Read(ctx, in.sources, q)
	p.end()
	if err != nil {
		return err
	}
	defer log.Close()
	r, err := units.Report(log)
	if err != nil {
		return err
	}
	return errors.Join(c.print(cmd.OutOrStdout(), r), r.Err(refusedAll))
}

// asked returns the units to compare, and the query that reads them.
func (c *comparison) asked(cfg *config.Config) (*lift.Units, *joinedlog.Query, error) {
	var x *config.Experiment
	var names []string
	for k := range cfg.Experiments {
		names = append(names, cfg.Experiments[k].Name)
		if n := cfg.Experiments[k].Name; n == c.experiment || c.experiment == "" && len(cfg.Experiments) == 1 {
			x = &cfg.Experiments[k]
		}
	}
	switch {
	case len(names) == 0:
		return nil, nil, fmt.Errorf("%s has no experiments", c.input.config)
	case x == nil:
		return nil, nil, usageError{fmt.Errorf("--experiment: choose one of %s", strings.Join(names, ", "))}
	}
	e, err := learners.Experiment(x)
	if err != nil {
		return nil, nil, err
	}
	switch {
	case c.unit != "" && c.unit != "user":
		return nil, nil, usageError{fmt.Errorf("--unit: %q is not user", c.unit)}
	case c.unit == "user" && !e.Never():
		return nil, nil, usageError{errors.New("--unit user is for experiments with `by: user` and `period: never`; others have bounds for any look")}
	}
	c.input.learner = x.Control
	q, err := c.input.query(cfg)
	if err != nil {
		return nil, nil, err
	}
	o := &lift.Options{Experiment: e, Payoffs: q.Learner.PayoffRange, Unpaid: learners.Unpaid(cfg, x),
		Horizon: q.Learner.PayoffHorizon.Milliseconds(), Once: c.unit == "user"}
	if o.AsOf, err = momentFlag("as-of", c.asOf); err != nil {
		return nil, nil, err
	}
	if o.AsOf == 0 && !c.input.anyFile() {
		o.AsOf = time.Now().UnixMilli()
	}
	u := lift.NewUnits(o)
	q.AsOf, q.Accept = o.AsOf, u.Accept
	return u, q, nil
}

func (c *comparison) print(w io.Writer, r *lift.Report) error {
	if c.plot != "" {
		if err := drawPlot(c.plot, r.Plot); err != nil {
			return err
		}
	}
	if c.asJSON {
		return json.NewEncoder(w).Encode(r)
	}
	_, err := io.WriteString(w, liftTable(r))
	return err
}

func liftTable(r *lift.Report) string {
	var b strings.Builder
	fmt.Fprintf(&b, "experiment %s, run %d, by %s, as of %s: units counted: %s, impressions too young: %s\n", r.Experiment, r.Run, r.By, r.AsOf,
		config.Grouped(int(r.Units)), config.Grouped(int(r.Immature)))
	for _, n := range r.Notes {
		fmt.Fprintf(&b, "note: %s\n", n)
	}
	if r.Range.Min != 0 || r.Range.Max != 1 {
		fmt.Fprintf(&b, "note: payoffs and lifts are in payoff ranges: 0 is a payoff of %v, 1 one of %v\n", r.Range.Min, r.Range.Max)
	}
	b.WriteString("\n")
	look := "at any look"
	if r.Once {
		look = "at one look"
	}
	t := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintf(t, "arm\tunits\tpayoff\tlift to %s\t%s\t\n", r.Control, look)
	for i := range r.Arms {
		a := &r.Arms[i]
		fmt.Fprintf(t, "%s\t%s\t%s\t", a.Arm, config.Grouped(int(a.Units)), figureOf("%.4f", a.Mean))
		if a.Control {
			fmt.Fprint(t, "\t\t\n")
			continue
		}
		fmt.Fprintf(t, "%s\t%s\t%s\n", figureOf("%+.4f", a.Lift), bounds(a), a.Verdict)
	}
	_ = t.Flush() // into memory
	table := b.String()
	b.Reset()
	for line := range strings.Lines(table) {
		b.WriteString(strings.TrimRight(line, " \n") + "\n")
	}
	for i := range r.Arms {
		a := &r.Arms[i]
		if a.Why != "" {
			fmt.Fprintf(&b, "%s: refused: %s\n", a.Arm, a.Why)
		}
		if a.Out != nil {
			fmt.Fprintf(&b, "%s: out of service since %s: its lift was then within [%+.4f, %+.4f], of %s units\n", a.Arm, a.Out.Since, a.Out.Lower,
				a.Out.Upper, config.Grouped(int(a.Out.Units)))
		}
	}
	return b.String()
}

func bounds(a *lift.Arm) string {
	if a.Lower == nil {
		return "-"
	}
	return fmt.Sprintf("[%+.4f, %+.4f]", *a.Lower, *a.Upper)
}

func figureOf(format string, x *float64) string {
	if x == nil {
		return "-"
	}
	return fmt.Sprintf(format, *x)
}
