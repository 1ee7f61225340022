package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/ranker-worker/ranker-worker/config"
	"github.com/ranker-worker/ranker-worker/internal/lab"
	"github.com/ranker-worker/ranker-worker/internal/plotting"
	"github.com/ranker-worker/ranker-worker/internal/plural"
	"github.com/ranker-worker/ranker-worker/policy"
)

type simulation struct {
	experiment  lab.Experiment
	settings    lab.Settings
	scenario    string
	payoffDelay string
	plot        string
	site        siteFlags
}

func newSimulateCommand() *cobra.Command {
	var s simulation
	cmd := verb(configFlag|jsonFlag, &cobra.Command{
		Use:   "simulate [--policy P,…] [--delay D,…] [--scenario S] | --config FILE --conversion C --candidates N --impressions-per-day N",
		Short: "The regret laboratory: compare policies on simulated users",
		Long: `Play policies, with the worker's code, against simulated users whose payoffs are known, and show the regret: the payoff lost
against the best rankings in hindsight. Each compatible combination of the listed policies and delays plays with the same
users, several times, and is compared with its theoretical bound.

With --config it plays the configuration's learner with your numbers instead, and shows after how many days it pays: has
earned more than ranking by utility. Users select an item in each impression; the payoff of a selection is 1 with a mean
probability of --conversion, different for each item whatever its utility, and comes after --payoff-delay on average.

Policies:
` + policyLines() + `
Scenarios:
` + scenarioLines() + `
docs/laboratory/scenarios.md describes them. A payoff that does not come counts as 0 at the payoff horizon, unless --on-expiry says
otherwise.`,
		Example: `  ranker-worker simulate --policy elimination,greedy,utility --scenario lazy
  ranker-worker simulate --policy osmd,ftrl --scenario switching --payoff-delay 1000 --max-instances 0,1 --runs 64
  ranker-worker simulate --policy elimination --radius paper --scenario blocks --horizon 1000000 --plot regret.svg
  ranker-worker simulate --scenario stationary --payoff-delay geometric:500 --json | jq '.[].regret'
  ranker-worker simulate --config worker.yaml --conversion 3% --payoff-delay 2d --candidates 40 --impressions-per-day 5000`,
		Args: without,
	}, s.run)
	f := cmd.Flags()
	f.StringSliceVar(&s.settings.Policies, "policy", nil, "policies, with commas between (default: the configuration's)")
	f.StringSliceVar(&s.settings.Delays, "delay", nil, "delay handlings, with commas between (default: for each policy the configuration's)")
	f.IntSliceVar(&s.settings.MaxInstances, "max-instances", nil, "limits of BOLD's instances, 0 for none (default: the configuration's)")
	f.StringVar(&s.scenario, "scenario", "lazy", "the users: one of the scenarios above")
	s.site.flags(cmd)
	f.IntVar(&s.experiment.Items, "items", 0, "n, the number of items (default: the scenario's, mostly 10)")
	f.Int64Var(&s.experiment.Horizon, "horizon", 0, "T, the number of impressions (default: the scenario's, mostly 100000)")
	f.StringVar(&s.payoffDelay, "payoff-delay", "", "how many impressions late payoffs come: `K`, or geometric:M for a mean of M (default: the scenario's, mostly 0); with --config the mean duration, like 2d")
	f.Int64Var(&s.experiment.PayoffHorizon, "payoff-horizon", 0, "payoff horizon, in impressions (default: the scenario's)")
	f.StringVar(&s.settings.OnExpiry, "on-expiry", "", "payoff assumed if none comes: drop, or a payoff (default 0)")
	f.StringSliceVar(&s.settings.Silences, "silence", nil, "with direct, weight of selections in flight: waits, at_once, ages (default ages)")
	f.StringSliceVar(&s.settings.Drifts, "drift", nil, "with direct, by how much means are taken to move, as in the configuration (default 0)")
	f.IntVar(&s.experiment.Partitions, "partitions", 1, "spread the impressions over this many learners, which pool their statistics")
	f.Int64Var(&s.experiment.ShareEvery, "share-every", 1, "with several partitions, publish pooled statistics after this many impressions")
	f.BoolVar(&s.experiment.Blind, "without-context", false, "hide the contexts from learners")
	f.BoolVar(&s.experiment.AtOnce, "payoffs-at-once", false, "reveal payoffs, or their absence, with the selection: the upper bound of knowledge")
	f.Float64Var(&s.experiment.Noise, "noise", 0, "the share of users who select any item within their window; regret is of the others")
	f.Float64Var(&s.experiment.Divisor, "payoff-divisor", 1, "divide payoffs by this before learners see them; regret is in the scenario's units")
	f.Int64Var(&s.experiment.Period, "period", 0, "of scenario wave, in impressions (default 2000)")
	f.Float64Var(&s.experiment.Tastes, "tastes", 0, "how much users' tastes vary: the deviation of their own utilities from the mean, in gaps between neighbours")
	f.IntVar(&s.experiment.Runs, "runs", 16, "how many runs, each with users of its own")
	f.Uint64Var(&s.experiment.Seed, "seed", 1, "makes the same users again")
	f.StringVar(&s.settings.Prior, "prior", "", "as in the configuration")
	f.StringVar(&s.settings.Sigma, "sigma", "", "as in the configuration (default: the scenario's, 1 for normal payoffs, else 0.5)")
	f.StringVar(&s.settings.Delta, "delta", "", "as in the configuration")
	f.StringVar(&s.settings.Radius, "radius", "", "as in the configuration")
	f.StringVar(&s.settings.Eta, "eta", "", "as in the configuration, but auto is `known`: osmd knows T; doubled: it does not")
	f.StringVar(&s.settings.LossIndex, "loss-index", "", "as in the configuration")
	f.StringSliceVar(&s.settings.Utilities, "utilities", nil, "as in the configuration, with commas between: given, sorted, social (default: given)")
	f.StringSliceVar(&s.settings.Clock, "clock", nil, "turns of the clock by which items may pay differently, as in the configuration: hour, weekday")
	f.BoolVar(&s.settings.Age, "age", false, "items' payoffs may change with their age, as in the configuration")
	f.IntVar(&s.experiment.Cores, "cores", 0, "how many runs at once, which changes no result (default: all processors)")
	f.StringVar(&s.plot, "plot", "", "draw the regret curves, with names and final values at their ends, to `FILE`.svg, for light and dark pages, or .png")
	return cmd
}

func scenarioLines() string {
	var b strings.Builder
	for _, s := range lab.Scenarios() {
		fmt.Fprintf(&b, "  %-16s %s\n", s, s.About())
	}
	return b.String()
}

func policyLines() string {
	var b strings.Builder
	for _, k := range policy.Specs {
		fmt.Fprintf(&b, "  %-12s %s\n", k.Name, k.About)
	}
	return b.String()
}

func (s *simulation) run(c *call) error {
	if c.file != "" {
		return s.runSite(c)
	}
	for _, name := range []string{"learner", "conversion", "candidates", "impressions-per-day", "days"} {
		if c.cmd.Flags().Changed(name) {
			return usageError{fmt.Errorf("--%s needs --config: the configuration of the learner", name)}
		}
	}
	combinations, notes, err := s.prepare(c.cmd)
	for _, n := range notes {
		fmt.Fprintf(c.errOut(), "note: %s\n", n)
	}
	if err != nil {
		return err
	}
	results, err := s.play(c, &s.experiment, combinations)
	if err != nil {
		return err
	}
	return c.show(results, func(w io.Writer) { printResults(w, &s.experiment, results) })
}

// play plays an experiment, with its progress, and draws its plot.
func (s *simulation) play(c *call, e *lab.Experiment, combinations []*lab.Combination) ([]*lab.Result, error) {
	e.Progress = func(done, total int64) {
		c.sayShare(plural.N(total, "impression"), float64(done)/float64(total), c.began)
	}
	results, err := lab.Run(c.ctx, e, combinations)
	if err != nil {
		return nil, fmt.Errorf("the simulation did not end: %w", err)
	}
	return results, drawPlot(s.plot, func(w io.Writer, format string) error { return lab.Plot(w, format, results) })
}

// prepare reads the flags. Faults name their flag.
func (s *simulation) prepare(cmd *cobra.Command) (combinations []*lab.Combination, notes []string, err error) {
	e := &s.experiment
	if e.Scenario, err = lab.ParseScenario(s.scenario); err != nil {
		return nil, nil, usageError{fmt.Errorf("--scenario: %w", err)}
	}
	if !cmd.Flags().Changed("items") {
		e.Items = e.Scenario.DefaultItems()
	}
	if !cmd.Flags().Changed("horizon") {
		e.Horizon = e.Scenario.DefaultHorizon()
	}
	if !cmd.Flags().Changed("payoff-delay") {
		s.payoffDelay = e.Scenario.DefaultPayoffDelay().String()
	}
	if e.PayoffDelay, err = lab.ParsePayoffDelay(s.payoffDelay); err != nil {
		return nil, nil, usageError{fmt.Errorf("--payoff-delay: %w", err)}
	}
	if err := plotFile(s.plot); err != nil {
		return nil, nil, err
	}
	if err := e.Check(); err != nil {
		return nil, nil, flagFault(err)
	}
	combinations, notes, err = lab.Combine(e, &s.settings)
	if err != nil {
		return nil, notes, flagFault(err)
	}
	return combinations, notes, nil
}

func flagFault(err error) error {
	if setting := (*config.SettingError)(nil); errors.As(err, &setting) {
		key, _, _ := strings.Cut(setting.Key, ".")
		return usageError{fmt.Errorf("--%s: %w", strings.ReplaceAll(key, "_", "-"), setting.Err)}
	}
	if errors.Is(err, lab.ErrNothingToPlay) {
		return usageError{err}
	}
	return err
}

// plotFile checks that a file can be written, before the work; "" is none.
func plotFile(file string) error {
	if file == "" {
		return nil
	}
	if _, err := plotting.Format(file); err != nil {
		return usageError{fmt.Errorf("--plot: %w", err)}
	}
	if _, err := os.Stat(filepath.Dir(file)); err != nil {
		return fmt.Errorf("--plot: %w", err)
	}
	return nil
}

// drawPlot writes a plot to a file; "" is none.
func drawPlot(file string, draw func(w io.Writer, format string) error) error {
	if file == "" {
		return nil
	}
	format, err := plotting.Format(file)
	if err != nil {
		return err
	}
	var b bytes.Buffer
	if err := draw(&b, format); err != nil {
		return err
	}
	if err := os.WriteFile(file, b.Bytes(), 0o644); err != nil {
		return fmt.Errorf("writing the plot: %w", err)
	}
	return nil
}

func printResults(w io.Writer, e *lab.Experiment, results []*lab.Result) {
	fmt.Fprintf(w, "Scenario %s: %s, %s, %s, %s, seed %d.\n\n", e.Scenario, plural.N(e.Items, "item"), plural.N(e.Horizon, "impression"), e.Late(),
		plural.N(e.Runs, "run"), e.Seed)
	var t table
	t.row("policy\tdelay\tsilence\tinstances\tutilities\tpayoff\tregret\t± stderr\tdeviation\tupper bound\tlower bound\timpressions/s")
	for _, r := range results {
		instances := "-"
		if r.MaxInstances != nil {
			instances = fmt.Sprint(r.Instances)
		}
		silence := r.Silence
		if r.Drift > 0 {
			silence += fmt.Sprintf(", drift %g", r.Drift)
		}
		t.row("%s\t%s\t%s\t%s\t%s\t%.4f\t%.1f\t%s\t%s\t%s\t%s\t%.2gM", r.Policy, r.Delay, silence, instances, r.Utilities,
			r.Payoff, r.Regret.Mean, figure("%.1f", r.Regret.Stderr), figure("%.0f", r.Regret.SD), figure("%.0f", r.Bound), figure("%.0f", r.LowerBound),
			float64(r.Runs)*float64(r.Horizon)/r.Seconds/1e6)
	}
	t.write(w, "")
	fmt.Fprintf(w, "\nPayoffs are per impression; the best rankings have %.4f.\n", results[0].Best)
	printBurnIns(w, results)
	if e.Noise > 0 {
		printUserModel(w, results)
	}
}

// printBurnIns splits the regret of learners that had to estimate the order of utilities.
func printBurnIns(w io.Writer, results []*lab.Result) {
	var t table
	for _, r := range results {
		x := r.BurnIn
		if x == nil {
			continue
		}
		if t.rows == nil {
			fmt.Fprint(w, "\nFor learners that find the order of utilities: during the burn-in, and after it:\n\n")
			t.row("policy\tdelay\tutilities\timpressions\t± stderr\tregret in them\t± stderr\tregret after\t± stderr\tunfinished")
		}
		t.row("%s\t%s\t%s\t%.1f\t%s\t%.1f\t%s\t%.1f\t%s\t%d", r.Policy, r.Delay, r.Utilities, x.Impressions.Mean,
			figure("%.1f", x.Impressions.Stderr), x.During.Mean, figure("%.1f", x.During.Stderr), x.After.Mean,
			figure("%.1f", x.After.Stderr), x.Unfinished)
	}
	t.write(w, "")
}

func printUserModel(w io.Writer, results []*lab.Result) {
	fmt.Fprintln(w)
	for _, r := range results {
		x := r.UserModel
		if x == nil {
			continue
		}
		fmt.Fprintf(w, "%s: selections: %d, of them below a better item: %d", r.Policy, x.Selections, x.Blocked)
		if x.Blocked < lab.FewBlocked {
			fmt.Fprintln(w, ": too few to estimate how many users select any item within their window.")
		} else {
			fmt.Fprintf(w, ": so %.1f %% of users select any item within their window.\n", 100*x.Noise)
		}
	}
}

// siteFlags describe a site for a learner of a configuration.
type siteFlags struct {
	lab.Numbers
	learner, conversion string
}

// withConfig are the flags that go with --config.
var withConfig = []string{configName, "learner", "conversion", "payoff-delay", "candidates", "impressions-per-day", "days", "runs", "seed", "cores",
	"plot", "json"}

func (s *siteFlags) flags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.Lookup(configName).Usage = "play a learner of this configuration `FILE`, with the numbers of your site"
	f.StringVar(&s.learner, "learner", "", "with --config, the learner's `NAME` (default: the default learner)")
	f.StringVar(&s.conversion, "conversion", "", "with --config, how many selections are paid, of 1 each: 3% or 0.03")
	f.IntVar(&s.Candidates, "candidates", 0, "with --config, how many candidates an impression has, always the same")
	f.Int64Var(&s.PerDay, "impressions-per-day", 0, "with --config, how many impressions a day has")
	f.IntVar(&s.Days, "days", 60, "with --config, how many days to play")
}

// check reads the flags, with all their faults at once.
func (s *siteFlags) check(cmd *cobra.Command, delay string) error {
	var all []error
	bad := func(name, format string, args ...any) { all = append(all, fmt.Errorf("--"+name+": "+format, args...)) }
	cmd.Flags().Visit(func(f *pflag.Flag) {
		if !slices.Contains(withConfig, f.Name) {
			hint := ""
			if f.Name == "delay" {
				hint = "; how late payoffs come is --payoff-delay"
			}
			bad(f.Name, "does not go with --config, which has the learner%s", hint)
		}
	})
	x, err := parseShare(strings.TrimSpace(s.conversion))
	if s.Conversion = x; err != nil || !(x >= 1e-5 && x <= 0.5) {
		bad("conversion", "must be from 0.001%% to 50%%, not %q", s.conversion)
	}
	if s.Delay, err = config.ParseDuration(delay); delay != "" && (err != nil || s.Delay < 0 || s.Delay > 365*24*time.Hour) {
		bad("payoff-delay", "must be a duration from 0 to 365d, like 2d or 90m, not %q", delay)
	}
	for _, n := range []struct {
		name             string
		value, low, high int64
	}{{"candidates", int64(s.Candidates), 2, 1000}, {"impressions-per-day", s.PerDay, 10, 1_000_000}, {"days", int64(s.Days), 1, 1000}} {
		if n.value < n.low || n.value > n.high {
			bad(n.name, "must be from %d to %d, not %d", n.low, n.high, n.value)
		}
	}
	if err := errors.Join(all...); err != nil {
		return usageError{err}
	}
	return nil
}

// runSite plays the configuration's learner with the given numbers, and shows after how many days it pays.
func (s *simulation) runSite(c *call) error {
	if err := s.site.check(c.cmd, s.payoffDelay); err != nil {
		return err
	}
	if err := plotFile(s.plot); err != nil {
		return err
	}
	cfg, err := c.load()
	if err != nil {
		return err
	}
	l := cfg.LearnerOrDefault(s.site.learner)
	if l == nil {
		return chooseLearner(cfg)
	}
	e, combinations, err := s.site.Experiment(l, s.experiment.Runs, s.experiment.Seed)
	if err != nil {
		return flagFault(err)
	}
	e.Cores = s.experiment.Cores
	results, err := s.play(c, e, combinations)
	if err != nil {
		return err
	}
	p := s.site.PaysOff(results[0], results[1])
	return c.show(p, func(w io.Writer) { s.site.print(w, l, &p) })
}

func (s *siteFlags) print(w io.Writer, l *config.Learner, p *lab.PaysOff) {
	fmt.Fprintf(w, "Learner %s (%s) with %d candidates, %d impressions a day, a conversion of %.3g%% after %s on average: %s of %s.\n", l.Name,
		l.Policy, s.Candidates, s.PerDay, 100*s.Conversion, config.FormatDuration(s.Delay), plural.N(p.Runs, "run"), plural.N(s.Days, "day"))
	fmt.Fprintf(w, "%d items in all, every list the same; payoffs 0 or 1, not sums.\n", s.Candidates)
	after := func(d *int) string {
		if d == nil {
			return fmt.Sprintf("not within %s", plural.N(s.Days, "day"))
		}
		return fmt.Sprintf("after %s", plural.N(*d, "day"))
	}
	fmt.Fprintf(w, "It pays, so from then on it has earned more than ranking by utility:\n  in half of the runs  %s\n  in nine runs of ten  %s\n",
		after(p.InHalf), after(p.InMost))
	fmt.Fprintf(w, "Over all days it earns %+.1f%% against ranking by utility (± stderr %s).\n", p.Gain, figure("%.1f%%", p.GainSE))
}
