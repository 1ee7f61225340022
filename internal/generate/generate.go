package generate

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/ranker-worker/ranker-worker/config"
	"github.com/ranker-worker/ranker-worker/internal/app"
	"github.com/ranker-worker/ranker-worker/internal/platform"
	"github.com/ranker-worker/ranker-worker/stream/broker"
	"github.com/ranker-worker/ranker-worker/stream/event"
	"github.com/ranker-worker/ranker-worker/stream/task"
)

type Options struct {
	Rate     float64       // impressions a second, above 0
	Learner  string        // whose users; "": of all that the configuration has, in turn
	Seed     uint64        // of the users
	AnyTopic bool          // also topics with others' records
	Every    time.Duration // between two lines of the log
	Logger   *slog.Logger
	Report   func(platform.Progress) // beside the log; nil: none
}

var (
	// ErrShared: the topics have records of other producers.
	ErrShared         = errors.New("it has records that were not made up by this command")
	ErrUnknownLearner = errors.New("the configuration has no such learner")
)

// Run sends traffic until ctx is done, which is no error.
func Run(ctx context.Context, cfg *config.Config, opt Options) error {
	learners, names := cfg.Learners, cfg.LearnerNames()
	if opt.Learner != "" {
		l := cfg.Learner(opt.Learner)
		if l == nil {
			return fmt.Errorf("%w: %q; there are %s", ErrUnknownLearner, opt.Learner, strings.Join(names, ", "))
		}
		learners, names = []config.Learner{*l}, []string{l.Name}
	}
	prefix := newPrefix(time.Now())
	users, err := newUsers(learners, cfg.Limits.MaxCandidates, opt.Seed, prefix)
	if err != nil {
		return err
	}
	b, err := app.NewBroker(cfg)
	if err != nil {
		return err
	}
	defer b.Close()
	ends, err := alone(ctx, b, opt.AnyTopic)
	if err != nil {
		return err
	}
	opt.Logger.Info("invented traffic is sent, which learners take for real", "brokers", strings.Join(cfg.Kafka.Brokers, ","),
		"topic", cfg.Kafka.Topics.Impressions, "per_second", opt.Rate, "seed", opt.Seed, "learners", names)
	r := &reporter{opt: opt, users: users}
	_, err = platform.New(platform.Options{Brokers: cfg.Kafka.Brokers, Transport: b.Kafka().Transport, Log: b,
		Topics: app.TopicNames(cfg), From: ends, Rate: opt.Rate, Number: number(prefix), Every: opt.Every, Progress: r.report}, users).Run(ctx)
	return err
}

// alone fails unless all topics exist and, unless any is set, only this command writes to them, judged by the newest record of each
// partition. It returns the rankings' ends, by partition.
func alone(ctx context.Context, log *broker.Client, any bool) (ends []int64, err error) {
	for number := int32(0); ; number++ {
		p := log.Partition(number)
		d, err := describe(ctx, p)
		if err != nil {
			return nil, fmt.Errorf("asking how far the topics reach: %w", err)
		}
		for topic := range event.Topic(event.Topics) {
			name, facts := log.Topic(topic), d.Topics[topic]
			switch {
			case name == "":
			case facts.Missing:
				return nil, fmt.Errorf("topic %q does not exist; `ranker-worker topics --create` makes it", name)
			case any || topic >= event.Inputs || facts.End <= facts.LogStart:
			default:
				if err := newestIsOurs(ctx, p, topic, facts); err != nil {
					return nil, fmt.Errorf("topic %q, partition %d: %w", name, number, err)
				}
			}
		}
		ends = append(ends, d.Topics[event.Rankings].End)
		if len(ends) >= d.Topics[event.Impressions].Partitions {
			return ends, nil
		}
	}
}

// patience is the time within which starting brokers and new topics answer.
const patience = 30 * time.Second

// describe repeats until there is an answer, or patience is over.
func describe(ctx context.Context, p *broker.Partition) (task.Description, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	return broker.RetryWhile(ctx, func(error) bool { return true }, p.Describe)
}

// newestIsOurs reads a log's last record. A record that cannot be seen, as behind a transaction's marker, is not ours.
func newestIsOurs(ctx context.Context, p *broker.Partition, topic event.Topic, facts task.TopicFacts) error {
	f, err := p.Fetch(ctx, task.Fetch{Topic: topic, Offset: facts.End - 1, MaxBytes: 1 << 20, MaxWait: time.Second})
	if err != nil {
		return fmt.Errorf("reading its newest record: %w", err)
	}
	for i := range f.Records {
		if r := &f.Records[i]; r.Offset == facts.End-1 && strings.HasPrefix(string(r.Key), mark) {
			return nil
		}
	}
	return ErrShared
}

type reporter struct {
	opt    Options
	users  platform.Simulated
	before platform.Progress
	means  []means
}

type means struct{ rankings, payoff, byUtility float64 }

func (r *reporter) report(p platform.Progress) {
	b := &r.before
	rankings := p.Rankings - b.Rankings
	attributes := []any{"impressions", p.Impressions - b.Impressions, "rankings", rankings, "selections", p.Selections - b.Selections,
		"payoffs", p.Payoffs - b.Payoffs, "scheduled", p.Scheduled}
	if rankings > 0 {
		attributes = append(attributes, "mean_latency", ((p.Latency - b.Latency) / time.Duration(rankings)).Round(100*time.Microsecond).String())
	}
	if n := p.HeldBack - b.HeldBack; n > 0 {
		attributes = append(attributes, "held_back", n)
	}
	if n := p.Forgotten - b.Forgotten; n > 0 {
		attributes = append(attributes, "unanswered", n)
	}
	r.opt.Logger.Info("traffic", append(attributes, r.payoffs()...)...)
	r.before = p
	if r.opt.Report != nil {
		r.opt.Report(p)
	}
}

// payoffs returns by learner the mean payoff of a ranked impression, and that of a ranking by utility.
func (r *reporter) payoffs() []any {
	var all []any
	now := make([]means, len(r.users))
	for i := range r.users {
		m := &r.users[i]
		l, in := &m.Ledger, m.Range
		now[i] = means{float64(l.Impressions), l.Payoff, l.PayoffUtilityOrder}
		since := now[i]
		if r.means != nil {
			since.rankings -= r.means[i].rankings
			since.payoff -= r.means[i].payoff
			since.byUtility -= r.means[i].byUtility
		}
		if since.rankings > 0 {
			unit := func(sum float64) string { return fmt.Sprintf("%.4g", in.Min+sum/since.rankings*(in.Max-in.Min)) }
			all = append(all, slog.Group(m.Learner, "mean_payoff", unit(since.payoff), "by_utility", unit(since.byUtility)))
		}
	}
	r.means = now
	return all
}
