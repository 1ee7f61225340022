package main

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/ranker-worker/ranker-worker/config"
	"github.com/ranker-worker/ranker-worker/internal/joinedlog"
	"github.com/ranker-worker/ranker-worker/internal/learners"
	"github.com/ranker-worker/ranker-worker/internal/lift"
	"github.com/ranker-worker/ranker-worker/stream/event"
	"github.com/ranker-worker/ranker-worker/stream/experiment"
)

type comparison struct {
	input      logInput
	experiment string
	unit       string
	asOf       string
	plot       string
}

func newLiftCommand() *cobra.Command {
	var x comparison
	cmd := verb(configFlag|jsonFlag, &cobra.Command{
		Use:   "lift [--config FILE] [--experiment NAME]",
		Short: "Estimate the lift of an experiment's arms over its control from the records alone",
		Long: `Estimate the lift of an experiment's arms over its control from the records alone. It only reads rankings, selections and
payoffs, from the topics or from files of their records, and computes the same as the worker's metrics (ranker_lift).

A unit counts once its payoff deadline has passed. The bounds hold at every look: look daily, and stop when they suffice.
Payoffs and lifts are in payoff ranges: 0 is the least of payoff_range, 1 the greatest.

The second table has impressions of any age. So far: the payoffs to date, ahead of or behind the control's; an arm that pays sooner is
ahead without a lift. In the end: the lift at the payoff horizon, from the first deadlines on, or before by the control's delays.

  better   the lower bound is above 0       open     0 lies within the bounds
  worse    the upper bound is below 0       refused  there are no bounds; the reason stands below the table

If users keep their arm (period: never), the same units count at each look, and there are no bounds. With --unit user each
group of users counts once, over all of its time; the bounds then hold for a single look, at a time fixed in advance.

With learning: shared, arms change each other's data. Runs of the log with other shares are then compared, too, and an arm is
refused if its lifts at two shares certainly differ.

Exit code 3 if no arm has bounds.`,
		Example: `  ranker-worker lift --config worker.yaml --experiment feed
  ranker-worker lift --config worker.yaml --from 2026-10-01 --json --plot lift.svg
  ranker-worker lift --config worker.yaml --rankings r.jsonl --selections s.jsonl --payoffs p.jsonl`,
	}, x.run)
	f := cmd.Flags()
	x.input.sourceFlags(cmd, event.Rankings, event.Selections, event.Payoffs)
	f.StringVar(&x.experiment, "experiment", "", "which of the configuration's experiments (default: the only one)")
	f.StringVar(&x.unit, "unit", "", "user: count each group of users once, where they keep their arm")
	f.StringVar(&x.asOf, "as-of", "", "count units with a deadline before this `TIME` (default: now; for files, the time of their last records)")
	f.StringVar(&x.plot, "plot", "", "draw the lifts with their bounds to `FILE`.svg, for light and dark pages, or .png")
	return cmd
}

func (x *comparison) run(c *call) error {
	if err := plotFile(x.plot); err != nil {
		return err
	}
	cfg, err := c.load()
	if err != nil {
		return err
	}
	if len(cfg.Experiments) == 0 {
		return fmt.Errorf("%s has no experiments", c.file)
	}
	units, q, err := x.asked(cfg)
	if err != nil {
		return err
	}
	in, err := x.input.openQuery(c, cfg, q)
	if err != nil {
		return err
	}
	defer in.close()
	log, err := in.read(c)
	if err != nil {
		return err
	}
	defer log.Close()
	r, err := units.Report(log)
	if err != nil {
		return err
	}
	if err := drawPlot(x.plot, r.Plot); err != nil {
		return err
	}
	return errors.Join(c.show(r, func(w io.Writer) { printLift(w, r) }), r.Err(refusedAll))
}

// asked returns the units to compare, and the query that reads them.
func (x *comparison) asked(cfg *config.Config) (*lift.Units, *joinedlog.Query, error) {
	of := cfg.ExperimentOf(x.experiment)
	if x.experiment == "" && len(cfg.Experiments) == 1 {
		of = &cfg.Experiments[0]
	}
	if of == nil {
		var names []string
		for k := range cfg.Experiments {
			names = append(names, cfg.Experiments[k].Name)
		}
		return nil, nil, usageError{fmt.Errorf("--experiment: choose one of %s", strings.Join(names, ", "))}
	}
	e, err := learners.Experiment(cfg, of)
	if err != nil {
		return nil, nil, err
	}
	switch {
	case x.unit != "" && x.unit != "user":
		return nil, nil, usageError{fmt.Errorf("--unit: %q is not user", x.unit)}
	case x.unit == "user" && !e.Never():
		return nil, nil, usageError{errors.New("--unit user is for experiments with `by: user` and `period: never`; others have bounds for any look")}
	}
	x.input.learner = of.Control
	q, err := x.input.query(cfg)
	if err != nil {
		return nil, nil, err
	}
	o := &lift.Options{Experiment: e, Payoffs: q.Learner.PayoffRange, Unpaid: learners.Unpaid(cfg, of),
		Silence: learners.Silence(q.Learner), Horizon: q.Learner.PayoffHorizon.Milliseconds(), Once: x.unit == "user", Shared: of.Learning == config.Shared}
	if o.AsOf, err = momentFlag("as-of", x.asOf); err != nil {
		return nil, nil, err
	}
	if o.AsOf == 0 && !x.input.anyFile() {
		o.AsOf = time.Now().UnixMilli()
	}
	u := lift.NewUnits(o)
	q.AsOf, q.Accept, q.Came, q.Again = o.AsOf, u.Accept, u.Came, u.Again
	return u, q, nil
}

func printLift(w io.Writer, r *lift.Report) {
	fmt.Fprintf(w, "experiment %s, run %d, by %s, as of %s: units counted: %s, impressions too young: %s\n", r.Experiment, r.Run, r.By, r.AsOf,
		config.Grouped(r.Units), config.Grouped(r.Immature))
	for _, n := range r.Notes {
		fmt.Fprintf(w, "note: %s\n", n)
	}
	if r.Range.Min != 0 || r.Range.Max != 1 {
		fmt.Fprintf(w, "note: payoffs and lifts are in payoff ranges: 0 is a payoff of %v, 1 one of %v\n", r.Range.Min, r.Range.Max)
	}
	fmt.Fprintln(w)
	look := "at any look"
	if r.Once {
		look = "at one look"
	}
	var t table
	t.row("arm\tunits\tpayoff\tlift to %s\t%s\t", r.Control, look)
	for i := range r.Arms {
		a := &r.Arms[i]
		against := ""
		if !a.Control {
			against = fmt.Sprintf("\t%s\t%s\t%s", figure("%+.4f", a.Lift), bounds(a), a.Verdict)
		}
		t.row("%s\t%s\t%s%s", a.Arm, config.Grouped(a.Units), figure("%.4f", a.Mean), against)
	}
	t.write(w, "")
	for i := range r.Arms {
		a := &r.Arms[i]
		if a.Why != "" {
			fmt.Fprintf(w, "%s: refused: %s\n", a.Arm, a.Why)
		}
		for _, line := range a.DescribeShares() {
			fmt.Fprintln(w, line)
		}
		if a.Out != nil {
			fmt.Fprintf(w, "%s: out of service since %s: its lift was then within [%+.4f, %+.4f], of %s units\n", a.Arm, a.Out.Since, a.Out.Lower,
				a.Out.Upper, config.Grouped(a.Out.Units))
		}
	}
	printOutlooks(w, r)
}

// printOutlooks writes the comparisons by units of all ages.
func printOutlooks(w io.Writer, r *lift.Report) {
	var t table
	t.row("arm\timpressions of any age\tso far\t\tin the end\t\ttiming")
	some := false
	for i := range r.Arms {
		a := &r.Arms[i]
		o := a.Outlook
		if o == nil {
			continue
		}
		some = true
		t.row("%s\t%s\t%s\t%s\t%s\t%s\t%s", a.Arm, config.Grouped(o.Units), ofAnyAge(o.SoFar), o.SoFarIs, ofAnyAge(o.End), o.EndIs, o.Timing)
	}
	if !some {
		return
	}
	fmt.Fprintln(w)
	t.write(w, "")
	for i := range r.Arms {
		a := &r.Arms[i]
		switch o := a.Outlook; {
		case o == nil:
		case o.From != "" && o.EndIs == "refused":
			fmt.Fprintf(w, "%s: in the end: known from %s on, when the first deadlines pass: %s\n", a.Arm, o.From, o.EndWhy)
		case o.EndWhy != "":
			fmt.Fprintf(w, "%s: in the end: refused: %s\n", a.Arm, o.EndWhy)
		}
		if o := a.Outlook; o != nil && o.SoFarIs == "ahead" && o.Timing == "sooner" {
			fmt.Fprintf(w, "%s: it pays sooner than the control (certain), so being ahead is no lift\n", a.Arm)
		}
		if o := a.Outlook; o != nil && o.Forecast != nil {
			fmt.Fprintf(w, "%s: forecast (no proof): better %.0f %%, worse %.0f %% once all units so far are past their deadlines\n", a.Arm,
				100*o.Forecast.Better, 100*o.Forecast.Worse)
		}
		if o := a.Outlook; o != nil && o.BreakEven > 0 {
			fmt.Fprintf(w, "%s: to draw level in the end, its later payoffs would have to be %.1f times the control's\n", a.Arm, o.BreakEven)
		}
	}
}

func ofAnyAge(b *experiment.Interval) string {
	switch {
	case b == nil:
		return "-"
	case b.Upper >= 1:
		return fmt.Sprintf("%+.4f, at least %+.4f", b.Estimate, b.Lower)
	}
	return fmt.Sprintf("%+.4f [%+.4f, %+.4f]", b.Estimate, b.Lower, b.Upper)
}

func bounds(a *lift.Arm) string {
	if a.Lower == nil {
		return "-"
	}
	return fmt.Sprintf("[%+.4f, %+.4f]", *a.Lower, *a.Upper)
}
