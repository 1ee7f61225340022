package main

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/ranker-worker/ranker-worker/config"
	"github.com/ranker-worker/ranker-worker/internal/sizing"
	"github.com/ranker-worker/ranker-worker/policy"
)

type sized struct {
	workload *sizing.Workload
	learner  string
	policy   string
	id       string
	remember string
}

func newSizeCommand() *cobra.Command {
	s := sized{workload: sizing.Standard()}
	w := s.workload
	cmd := verb(configFlag, &cobra.Command{
		Use:   "size [--rate N] [--selected 5%] [--horizon 7d] [--items N] [--config FILE]",
		Short: "Estimate resources: Redis' memory, the workers' memory and cores, Kafka's disks",
		Long: `Estimate the resources of a group of workers: Redis' memory and load, each worker's memory and the cores of all, and
Kafka's disk per day. Each figure comes with its factors; the last lines name the largest part and the setting that changes it.

It contacts no server. Unit costs were measured (Redis 7, 64 bits), and the project's tests keep them within 15% of a store
filled by the worker; times are those of one machine, see docs/understand/scale.md. It assumes that every partition meets all items,
and a year of payoffs.

--config takes horizons, timeouts and the policy from a configuration: those of --learner, or of the learner of records that
name none. Flags override them. If several learners share the traffic, run it for each with its share of the rate, and add.`,
		Example: `  ranker-worker size --rate 1000 --selected 5% --horizon 7d --items 200000
  ranker-worker size --rate 20000 --partitions 64 --workers 8 --policy robust
  ranker-worker size --config worker.yaml --rate 300`,
		Args: without,
	}, s.run)
	f := cmd.Flags()
	f.Float64Var(&w.Rate, "rate", w.Rate, "impressions a second")
	f.IntVar(&w.Candidates, "candidates", w.Candidates, "candidates of an impression")
	f.IntVar(&w.Items, "items", w.Items, "items of the catalogue")
	f.Var((*shareFlag)(&w.Selected), "selected", "the share of impressions from which something is selected")
	f.Var((*shareFlag)(&w.Paid), "paid", "the share of selections that are paid")
	f.Var((*duration)(&w.PaidAfter), "paid-after", "how long after the impression a payoff comes, in the mean (default: half the horizon)")
	f.Var((*duration)(&w.PayoffHorizon), "horizon", "time to wait for payoffs: payoff_horizon")
	f.Var((*duration)(&w.SelectionTimeout), "selection-timeout", "time to wait for selections: selection_timeout; 0: no selections topic")
	f.StringVar(&s.remember, "remember", config.FormatDuration(w.Remember), "how long an impression is remembered once it has ended, join.remember: a duration, or horizon: until its payoff deadline and join.parking_time")
	f.IntVar(&w.Partitions, "partitions", w.Partitions, "partitions of the topics")
	f.IntVar(&w.Workers, "workers", w.Workers, "workers")
	f.StringVar(&s.id, "id", "uuid", "impression ids: uuid, as text, or the length of other texts in bytes")
	f.IntVar(&w.ItemBytes, "item-bytes", w.ItemBytes, "the length of items' names in bytes")
	f.StringVar(&s.policy, "policy", string(config.Robust), "the learner's policy")
	f.Lookup(configName).Usage = "the configuration `FILE` whose settings count"
	f.StringVar(&s.learner, "learner", "", "which of its learners (default: the one that takes records which name none)")
	cmd.MarkFlagsMutuallyExclusive("config", "policy")
	return cmd
}

func (s *sized) run(c *call) error {
	w := s.workload
	given := *w
	cfg, learner, err := s.configuration(c)
	if err != nil {
		return err
	}
	w.Configure(cfg, learner)
	// A flag wins over the configuration. Defaults of flags count only without one.
	counts := func(name string) bool { return c.file == "" || c.cmd.Flags().Changed(name) }
	if counts("horizon") {
		w.PayoffHorizon = given.PayoffHorizon
	}
	if counts("selection-timeout") {
		w.SelectionTimeout = given.SelectionTimeout
	}
	if w.PaidAfter = w.PayoffHorizon / 2; c.cmd.Flags().Changed("paid-after") {
		w.PaidAfter = given.PaidAfter
	}
	if err := s.texts(counts("remember")); err != nil {
		return usageError{err}
	}
	if err := w.Validate(); err != nil {
		return usageError{err}
	}
	return sizing.Write(c.out(), w, sizing.NewEstimate(w))
}

// configuration returns the file's, or a default one with a learner of the given policy.
func (s *sized) configuration(c *call) (*config.Config, *config.Learner, error) {
	if c.file == "" {
		k := policy.SpecOf(s.policy)
		if k == nil {
			return nil, nil, usageError{fmt.Errorf("--policy %s: unknown policy", s.policy)}
		}
		payoffs := config.Stochastic
		if k.IsAdversarial() {
			payoffs = config.Adversarial
		}
		text := fmt.Sprintf("kafka: {brokers: [k:9092], group: g}\nredis: {url: redis://r}\nlearners: {feed: {payoffs: %s, policy: %s}}\n", payoffs, s.policy)
		cfg, _, err := config.Load("--policy", []byte(text), os.LookupEnv)
		if err != nil {
			return nil, nil, err
		}
		return cfg, cfg.DefaultLearner(), nil
	}
	cfg, err := c.load()
	if err != nil {
		return nil, nil, err
	}
	l := cfg.LearnerOrDefault(s.learner)
	if l == nil {
		return nil, nil, chooseLearner(cfg)
	}
	return cfg, l, nil
}

// texts reads the flags that are words or numbers, among them that of remember if it counts.
func (s *sized) texts(remember bool) error {
	if s.id != "uuid" {
		n, err := strconv.Atoi(s.id)
		if err != nil {
			return fmt.Errorf("--id %s: it is uuid, or a length in bytes", s.id)
		}
		s.workload.IDBytes = n
	}
	switch {
	case !remember:
	case s.remember == "horizon":
		s.workload.Remember = config.UntilHorizon
	default:
		d, err := config.ParseDuration(s.remember)
		if err != nil || d < 0 {
			return fmt.Errorf("--remember %s: it is horizon, or a duration such as 24h", s.remember)
		}
		s.workload.Remember = d
	}
	return nil
}

type shareFlag float64

func (f *shareFlag) String() string { return strconv.FormatFloat(100*float64(*f), 'g', 4, 64) + "%" }

func (f *shareFlag) Set(s string) error {
	v, err := parseShare(s)
	if err != nil || !(v >= 0 && v <= 1) {
		return errors.New("it is a share such as 5% or 0.05")
	}
	*f = shareFlag(v)
	return nil
}

// parseShare reads 5% or 0.05.
func parseShare(text string) (float64, error) {
	text, percent := strings.CutSuffix(text, "%")
	v, err := strconv.ParseFloat(text, 64)
	if percent {
		v /= 100
	}
	return v, err
}

func (f *shareFlag) Type() string { return "share" }
