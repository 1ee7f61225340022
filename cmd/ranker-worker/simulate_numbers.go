package main

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/ranker-worker/ranker-worker/config"
	"github.com/ranker-worker/ranker-worker/internal/lab"
	"github.com/ranker-worker/ranker-worker/internal/plural"
)

// siteFlags describe a site for a learner of a configuration.
type siteFlags struct {
	lab.Numbers
	file, learner, conversion string
}

// withConfig are the flags that go with --config.
var withConfig = []string{configName, "learner", "conversion", "payoff-delay", "candidates", "impressions-per-day", "days", "runs", "seed", "cores",
	"plot", "json"}

func (s *siteFlags) flags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVarP(&s.file, configName, "c", "", "play a learner of this configuration `FILE`, with the numbers of your site")
	_ = cmd.MarkFlagFilename(configName, "yaml", "yml") // cannot fail: the flag has just been made
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
			bad(f.Name, "does not go with --config, which has the learner")
		}
	})
	share, percent := strings.CutSuffix(strings.TrimSpace(s.conversion), "%")
	x, err := strconv.ParseFloat(share, 64)
	if percent {
		x /= 100
	}
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
	if err := s.site.check(c.cmd, s.lateness); err != nil {
		return err
	}
	if err := plotFile(s.plot); err != nil {
		return err
	}
	c.file = s.site.file
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
