package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/ranker-worker/ranker-worker/internal/generate"
)

// maxGenerateRate is the most that one process can send, since users are drawn one by one.
const maxGenerateRate = 10_000

func newGenerateCommand() *cobra.Command {
	var (
		opt   = generate.Options{Rate: 20, Seed: 1, Every: 10 * time.Second}
		lasts time.Duration
	)
	cmd := verb(configFlag, &cobra.Command{
		Use:   "generate [--config FILE] [--rate N] [--learner L] [--for D]",
		Short: "Send invented traffic to a real Kafka, so that a worker has something to do",
		Long: `Play a platform in front of the topics of a configuration: publish impressions at a rate, read the worker's rankings, and
send the reactions of 1,000 invented users, whose ids repeat: selections within seconds, payoffs within minutes. Every 10 s a log
line counts the records sent and the rankings read.

Workers learn from these records as from real ones: use topics for trials only, never those of a platform. So it refuses
topics whose newest records come from other producers, unless --yes is given.

It needs a worker in a process of its own, but neither Redis nor a place in the group. It ends at SIGINT or SIGTERM, or
after --for; later reactions of its users are not sent.`,
		Example: `  ranker-worker generate --config worker.yaml --rate 50
  ranker-worker generate --config worker.yaml --learner feed --for 10m`,
	}, func(c *call) error {
		if !(opt.Rate > 0 && opt.Rate <= maxGenerateRate) {
			return usageError{fmt.Errorf("--rate must be above 0 and at most %d, not %g", maxGenerateRate, opt.Rate)}
		}
		if lasts < 0 {
			return usageError{errors.New("--for cannot be negative")}
		}
		return runGenerate(c, opt, lasts)
	})
	f := cmd.Flags()
	f.Float64Var(&opt.Rate, "rate", opt.Rate, "impressions a second")
	f.StringVar(&opt.Learner, "learner", "", "send for this learner only (default: for all of the configuration, in turn)")
	f.Uint64Var(&opt.Seed, "seed", opt.Seed, "makes the same users again, with the same tastes")
	f.Var((*duration)(&lasts), "for", "end after this long; 0: at a signal")
	yesFlag(cmd, &opt.AnyTopic, "also write to topics that other producers write to")
	return cmd
}

func runGenerate(c *call, opt generate.Options, lasts time.Duration) error {
	cfg, err := c.load()
	if err != nil {
		return err
	}
	opt.Logger = cfg.Log.Logger(c.errOut(), cfg.Log.Least())
	ctx := c.ctx
	if lasts > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, lasts)
		defer cancel()
	}
	err = c.ended(generate.Run(ctx, cfg, opt))
	switch {
	case errors.Is(err, generate.ErrUnknownLearner):
		return usageError{err}
	case errors.Is(err, generate.ErrShared):
		return fmt.Errorf("%w\nWorkers would learn from the invented records as from all others. If you mean it, give --yes", err)
	}
	return err
}
