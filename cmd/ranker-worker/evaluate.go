package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/ranker-worker/ranker-worker/config"
	"github.com/ranker-worker/ranker-worker/internal/evaluate"
	"github.com/ranker-worker/ranker-worker/internal/plural"
	"github.com/ranker-worker/ranker-worker/policy"
)

type evaluation struct {
	input   logInput
	flat    string
	targets []string
	units   string
	unpaid  string
	per     string
	clip    float64
	plan    float64
	plot    string
}

const refusedAll = shown("every target is refused")

func newEvaluateCommand() *cobra.Command {
	var e evaluation
	cmd := verb(configFlag|jsonFlag, &cobra.Command{
		Use:   "evaluate [--config FILE | --impressions F --rankings F --payoffs F | --flat F] [--target T …]",
		Short: "Estimate other policies' payoff from a log",
		Long: `Estimate other policies' payoff from a log. It only reads: topics, between two times; or files of their
records; or a flat log of another system, in JSON, CSV or as Vowpal Wabbit's dsjson. docs/do/evaluate-a-log.md explains the answer and its limits.

Targets, each with its own --target:
  POLICY[,key=value…]  a policy with settings as in the configuration: greedy, or moss,prior=none,sigma=0.3. It receives each
                       selection and payoff at the log's time, and decides each impression before its outcome
  learner:NAME         likewise, another configured learner
  state:FILE           the learner that decided, as state export has written it, without further learning
  shadow:NAME          an experiment's shadow: its logged decisions, on its share of the impressions
  logging              the log's own policy
For a flat log: the targets that it names, uniform and logging. Default: logging, utility and greedy; for a flat log all that its header names.

Policies: ` + policyNames() + `

--plan PAYOFF prints besides how many impressions decide whether a target is better by PAYOFF than the log's policy.

Values are per selection. Where users leave without one, --per impression counts them: it fits a model of users to the log.

An answer is refused, with the reason, where the log does not hold it. Exit code 3 where all are.`,
		Example: `  ranker-worker evaluate --config worker.yaml --from 2026-10-01 --target greedy --target moss,prior=none
  ranker-worker evaluate --impressions i.jsonl --rankings r.jsonl --selections s.jsonl --payoffs p.jsonl --unpaid 0 --target utility --json
  kcat -b localhost:9092 -C -e -J -t rankings | ranker-worker evaluate --impressions i.jsonl --rankings - --selections s.jsonl --payoffs p.jsonl --unpaid 0
  ranker-worker evaluate --flat log.jsonl --target uniform --target logging --plot values.svg`,
	}, e.run)
	f := cmd.Flags()
	e.input.flags(cmd)
	f.StringVar(&e.flat, "flat", "", "read a flat log, of any system, from `FILE`, or - for standard input")
	f.StringArrayVar(&e.targets, "target", nil, "the target; can be repeated")
	f.StringVar(&e.units, "payoff-range", "", "of a log without --config, the least and the greatest payoff: `MIN,MAX` (default 0,1)")
	f.StringVar(&e.unpaid, "unpaid", "", "payoff assumed for a selection that was never paid (default: on_expiry of the configuration)")
	f.StringVar(&e.per, "per", "selection", "`selection`, or impression: one without a selection pays 0, by a user model that is fitted to the log")
	f.Float64Var(&e.clip, "clip", 0, "per selection, let no weight count for more: steadier, and biased (default: no bound)")
	f.Float64Var(&e.plan, "plan", 0, "per selection, say how long a log decides whether a target is better, if it is by this `PAYOFF`")
	f.StringVar(&e.plot, "plot", "", "draw the values with their intervals to `FILE`.svg, for light and dark pages, or .png")
	cmd.MarkFlagsMutuallyExclusive("flat", "config")
	cmd.MarkFlagsMutuallyExclusive("flat", "rankings")
	cmd.MarkFlagsMutuallyExclusive("flat", "unpaid")
	return cmd
}

func policyNames() string {
	var names []string
	for _, k := range policy.Specs {
		names = append(names, k.Name)
	}
	return strings.Join(names, ", ")
}

func (e *evaluation) run(c *call) error {
	opt, err := e.options(c)
	if err != nil {
		return err
	}
	judge := e.judgeLog
	if e.flat != "" {
		judge = e.judgeFlat
	}
	r, err := judge(c, opt)
	if err != nil {
		return err
	}
	if err := drawPlot(e.plot, r.Plot); err != nil {
		return err
	}
	err = c.show(r, func(w io.Writer) { printEvaluation(w, r, e.plan) })
	for i := range r.Targets {
		if r.Targets[i].Verdict == evaluate.OK {
			return err
		}
	}
	return errors.Join(err, refusedAll)
}

func (e *evaluation) options(c *call) (*evaluate.Options, error) {
	o := &evaluate.Options{Units: config.Range{Min: 0, Max: 1}, Clip: e.clip, Plan: e.plan}
	if !(e.plan >= 0) {
		return nil, usageError{errors.New("--plan: the difference to find is above 0")}
	}
	if !(e.clip >= 0) {
		return nil, usageError{errors.New("--clip cannot be negative")}
	}
	switch e.per {
	case "selection":
	case "impression":
		if o.PerImpression = true; e.flat != "" || e.clip > 0 || e.plan > 0 {
			return nil, usageError{errors.New("--per impression needs a log of rankings, without --clip and --plan")}
		}
	default:
		return nil, usageError{fmt.Errorf("--per: %q is neither selection nor impression", e.per)}
	}
	if e.units != "" {
		low, high, _ := strings.Cut(e.units, ",")
		var errs [2]error
		o.Units.Min, errs[0] = strconv.ParseFloat(strings.TrimSpace(low), 64)
		o.Units.Max, errs[1] = strconv.ParseFloat(strings.TrimSpace(high), 64)
		if errors.Join(errs[:]...) != nil || !(o.Units.Min < o.Units.Max && o.Units.Max-o.Units.Min <= 1e100) {
			return nil, usageError{fmt.Errorf("--payoff-range: %q is not MIN,MAX, such as 0,1", e.units)}
		}
		if e.flat == "" && (c.file != "" || !e.input.anyFile()) {
			return nil, usageError{errors.New("--payoff-range is of files without --config, and of --flat: a configuration has its own")}
		}
	}
	return o, plotFile(e.plot)
}

func (e *evaluation) judgeFlat(c *call, o *evaluate.Options) (*evaluate.Report, error) {
	name, in := "standard input", c.cmd.InOrStdin()
	var size int64
	if e.flat != "-" {
		f, err := os.Open(e.flat)
		if err != nil {
			return nil, err
		}
		defer f.Close()
		if about, err := f.Stat(); err == nil {
			size = about.Size()
		}
		name, in = e.flat, f
	}
	counted := &countingReader{in: in}
	o.Progress = func(rows int64) {
		share := 0.0
		if size > 0 {
			share = float64(counted.n) / float64(size)
		}
		c.sayShare(plural.N(rows, "row")+" judged", share, c.began)
	}
	return evaluate.Flat(c.ctx, name, counted, e.targets, o)
}

type countingReader struct {
	in io.Reader
	n  int64
}

func (c *countingReader) Read(b []byte) (int, error) {
	n, err := c.in.Read(b)
	c.n += int64(n)
	return n, err
}

func (e *evaluation) judgeLog(c *call, o *evaluate.Options) (*evaluate.Report, error) {
	in, err := e.input.open(c, o.Units)
	if err != nil {
		return nil, err
	}
	defer in.close()
	if err := e.setUnpaid(in); err != nil {
		return nil, err
	}
	targets := e.targets
	if len(targets) == 0 {
		targets = []string{evaluate.Logging, "utility", "greedy"}
	}
	var parsed []*evaluate.Target
	for _, text := range targets {
		t, err := evaluate.ParseTarget(text, in.query.Learner, in.cfg)
		if err != nil {
			return nil, usageError{err}
		}
		parsed = append(parsed, t)
		in.query.Context = in.query.Context || t.LooksAtContexts()
		if name := t.Shadow(); name != "" {
			in.query.Shadows = append(in.query.Shadows, name)
		}
	}
	log, err := in.read(c)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	for _, t := range parsed {
		if name := t.Shadow(); name != "" && !slices.Contains(log.Shadows, name) {
			return nil, usageError{fmt.Errorf("target %q: no shadow of this name has decided in the log, there are: %s", "shadow:"+name,
				cmp.Or(strings.Join(log.Shadows, ", "), "none"))}
		}
	}
	began := time.Now()
	o.Progress = func(rows int64) {
		c.sayShare("judging: "+plural.N(rows, "row"), float64(rows)/float64(len(log.Outcomes)), began)
	}
	r, err := evaluate.Log(c.ctx, log, in.query.Learner, parsed, o)
	if err != nil {
		return nil, err
	}
	r.Log.Source = in.name
	return r, nil
}

// setUnpaid sets the payoff of a selection never paid, for the judged rows and for all targets that learn.
func (e *evaluation) setUnpaid(in *openLog) error {
	if e.unpaid == "" {
		return nil
	}
	x, err := strconv.ParseFloat(e.unpaid, 64)
	within := func(r config.Range) bool { return x >= r.Min && x <= r.Max }
	if r := in.query.Learner.PayoffRange; err != nil || !within(r) {
		return usageError{fmt.Errorf("--unpaid: %q is no payoff within [%v, %v]", e.unpaid, r.Min, r.Max)}
	}
	for i := range in.cfg.Learners {
		if l := &in.cfg.Learners[i]; within(l.PayoffRange) {
			l.OnExpiry.Default = &x
		}
	}
	return nil
}

func printEvaluation(w io.Writer, r *evaluate.Report, plan float64) {
	l := &r.Log
	if l.Learner != "" {
		fmt.Fprintf(w, "%s (%s), %s to %s: ", l.Learner, l.Policy, l.From, l.To)
	}
	fmt.Fprintf(w, "%s impressions, %s judged", config.Grouped(l.Records), config.Grouped(l.Judged))
	without := "without a selection"
	if r.Per == "impression" {
		without = "of these without a selection"
	}
	for _, part := range []struct {
		n    int64
		what string
	}{{l.Unselected, without}, {l.Immature, "too young"}} {
		if part.n > 0 {
			fmt.Fprintf(w, ", %s %s", config.Grouped(part.n), part.what)
		}
	}
	if l.Logged != nil {
		fmt.Fprintf(w, ", mean payoff %.4g", *l.Logged)
	}
	fmt.Fprintln(w)
	if x := r.Windows; x != nil {
		fmt.Fprintf(w, "values per %s; windows %s; by %s selections %.1f %% of users take anything they look at\n", r.Per, x.Source, config.Grouped(x.Selections), 100*x.Noise)
	}
	for _, n := range r.Notes {
		fmt.Fprintf(w, "note: %s\n", n)
	}
	fmt.Fprintln(w)
	printValues(w, r)
	for i := range r.Targets {
		if x := &r.Targets[i]; x.Verdict == evaluate.Refused {
			fmt.Fprintf(w, "%s: refused: %s\n", x.Target, strings.Join(x.Reasons, "; "))
			if x.Bounded {
				fmt.Fprintf(w, "%*s  the log bounds it: from %.4g to %.4g (at any look)\n", len(x.Target), "", x.Sequence.Lower, x.Sequence.Upper)
			}
		}
	}
	if plan > 0 {
		printPlan(w, r, plan)
	}
}

// printPlan prints how long a log decides whether a target is better.
func printPlan(w io.Writer, r *evaluate.Report, difference float64) {
	fmt.Fprintf(w, "\nto find a target that is better by %v, in four of five logs:\n\n", difference)
	var t table
	t.row("target\timpressions for 95 %%\tdays\tat any look\tdays")
	for i := range r.Targets {
		x := &r.Targets[i]
		if x.Target == evaluate.Logging || x.Plan == nil {
			continue
		}
		row := x.Target
		for _, l := range []*evaluate.PlannedLog{x.Plan.OneLook, x.Plan.AnyLook} {
			switch {
			case l == nil:
				row += "\tnever\t-"
			case l.Days == 0:
				row += "\t" + config.Grouped(l.Impressions) + "\t-"
			default:
				row += fmt.Sprintf("\t%s\t%.3g", config.Grouped(l.Impressions), l.Days)
			}
		}
		t.row("%s", row)
	}
	t.write(w, "")
}

// printValues prints a row for each target that is not refused.
func printValues(w io.Writer, r *evaluate.Report) {
	var t table
	if r.Per == "impression" {
		t.row("target\tan impression\t95 %%\tminus logged\teff. samples\tno support")
	} else {
		t.row("target\tvalue (dr)\t95 %%\tat any look\tminus logged\tips\tsnips\teff. samples\tno support")
	}
	for i := range r.Targets {
		x := &r.Targets[i]
		if x.Verdict == evaluate.Refused {
			continue
		}
		samples := config.Grouped(int(x.EffectiveSamples))
		if r.Per == "impression" {
			around, less := interval(x.PerImpression, &x.Difference)
			t.row("%s\t%.4g\t%s\t%s\t%s\t%.2g", x.Target, x.PerImpression.Value, around, less, samples, *x.Unsupported)
			continue
		}
		around, less := interval(&x.DR, &x.Difference)
		unsupported := "unknown"
		if x.Unsupported != nil {
			unsupported = fmt.Sprintf("%.2g", *x.Unsupported)
		}
		t.row("%s\t%.4g\t%s\t[%.4g, %.4g]\t%s\t%.4g\t%.4g\t%s\t%s", x.Target, x.DR.Value, around, x.Sequence.Lower, x.Sequence.Upper,
			less, x.IPS.Value, x.SNIPS.Value, samples, unsupported)
	}
	t.write(w, "")
}

// interval returns the intervals of a value, and of its difference from the log's payoff; "-" for each with too few rows.
func interval(v, difference *evaluate.Value) (around, less string) {
	if v.Lower == nil {
		return "-", fmt.Sprintf("%+.3g", difference.Value)
	}
	return fmt.Sprintf("[%.4g, %.4g]", *v.Lower, *v.Upper), fmt.Sprintf("[%+.3f, %+.3f]", *difference.Lower, *difference.Upper)
}
