package report

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/ranker-worker/ranker-worker/config"
	"github.com/ranker-worker/ranker-worker/stream/broker"
	"github.com/ranker-worker/ranker-worker/stream/event"
	"github.com/ranker-worker/ranker-worker/tools/bench/streams"
)

// warmShare: the first 1/warmShare of a drain does not count, in which Java compiles hot code, and most items are new.
const warmShare = 3

// The compared programs, in the order of rounds.
const (
	ours = iota
	inMemory
	onRocksDB
)

var programNames = []string{"ranker-worker", "Kafka Streams, in memory", "Kafka Streams, on RocksDB"}

// Peers compares the worker with Kafka Streams at the same task.
type Peers struct {
	Options Options
	Load    Load
	Rounds  rounds
}

// RunPeers lets the worker and a Kafka Streams job drain the same impressions in turn.
func RunPeers(ctx context.Context, o Options) (*Peers, error) {
	r := &Peers{Options: o}
	return r, o.measure(ctx, &r.Load, func(b *bench) (err error) {
		b.Partitions, b.warm = o.Sizes[0].Partitions, o.Impressions/warmShare
		r.Rounds, err = b.run(ctx, "peers", o.Sizes[0], []program{
			{programNames[ours], func(ctx context.Context, c *broker.Client, last bool) (Pass, error) {
				return b.alone(ctx, c, o.Sizes[0], last)
			}},
			{programNames[inMemory], func(ctx context.Context, c *broker.Client, _ bool) (Pass, error) { return b.streams(ctx, c, false) }},
			{programNames[onRocksDB], func(ctx context.Context, c *broker.Client, _ bool) (Pass, error) { return b.streams(ctx, c, true) }},
		})
		return err
	})
}

func (b *bench) streams(ctx context.Context, c *broker.Client, rocksDB bool) (Pass, error) {
	dir, err := os.MkdirTemp(b.dir, "streams-")
	if err != nil {
		return Pass{}, fmt.Errorf("make a directory for Kafka Streams: %w", err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	var topics [event.Topics]string
	for t := range topics {
		topics[t] = c.Topic(event.Topic(t))
	}
	group := topics[event.Rankings] // so its own topics are dropped with its rankings
	cmd, err := streams.Command(ctx, streams.Config{Brokers: b.Kafka, Application: group, Topics: topics, RocksDB: rocksDB,
		Threads: b.Threads, Dir: dir})
	if err != nil {
		return Pass{}, err
	}
	w, err := launch("Kafka Streams", cmd)
	if err != nil {
		return Pass{}, err
	}
	return b.watch(ctx, w, b.committed(c, group, b.Sizes[0].Paid))
}

// committed counts the impressions that a group has committed, exactly once with their rankings. The last counts when the last payoff, if
// any, is committed too.
func (b *bench) committed(c *broker.Client, group string, paid bool) progress {
	return func(ctx context.Context) (int64, error) {
		all, err := b.kafka.FetchOffsets(ctx, group)
		if err = cmp.Or(err, all.Error()); err != nil {
			return 0, fmt.Errorf("asking for the committed offsets of %s: %w", group, err)
		}
		done := map[string]int64{}
		all.Each(func(o kadm.OffsetResponse) { done[o.Topic] += max(0, o.At) })
		n := done[c.Topic(event.Impressions)]
		if paid && n == b.Impressions && min(done[c.Topic(event.Selections)], done[c.Topic(event.Payoffs)]) < b.Impressions {
			n--
		}
		return n, nil
	}
}

func (r *Peers) Write(w io.Writer) error {
	if len(r.Rounds) == 0 {
		return errors.New("nothing was measured")
	}
	var t strings.Builder
	o := &r.Options
	feedback := "without feedback"
	if o.Sizes[0].Paid {
		feedback = "each selected and paid"
	}
	fmt.Fprintf(&t, "%d partitions, %s items, %d impressions of 20 candidates of which the last two thirds count, %s, %d runs of each in turn, %d threads of Kafka Streams; least, median and most; load average %.1f before, %.1f after\n\n",
		o.Sizes[0].Partitions, config.Grouped(o.Sizes[0].Items), o.Impressions, feedback, len(r.Rounds), o.Threads, r.Load[0], r.Load[1])
	three := func(s spread, each string, unit float64) string {
		return fmt.Sprintf(each+", **"+each+"**, "+each, s.least/unit, s.median/unit, s.most/unit)
	}
	t.WriteString("| program | impressions/s | its CPU each | Kafka's CPU each | its memory |\n|---|---|---|---|---|\n")
	for program, name := range programNames {
		v := r.Rounds.of(program, rate)
		fmt.Fprintf(&t, "| %s | %s, **%s**, %s | %s µs | %s | %s MiB |\n", name, config.Grouped(roundTo(v.least, 100)), config.Grouped(roundTo(v.median, 100)),
			config.Grouped(roundTo(v.most, 100)), three(r.Rounds.of(program, cpu), "%.1f", 1e3), micros(time.Duration(r.Rounds.of(program, kafkas).median)),
			config.Grouped(int64(r.Rounds.of(program, memory).median)>>20))
	}
	t.WriteString("\n| ranker-worker's, as a multiple of | impressions/s | its CPU each |\n|---|---|---|\n")
	for program, name := range programNames[inMemory:] {
		fmt.Fprintf(&t, "| %s | %s | %s |\n", name, three(r.Rounds.ratio(ours, inMemory+program, rate), "%.2f", 1),
			three(r.Rounds.ratio(ours, inMemory+program, cpu), "%.2f", 1))
	}
	_, err := io.WriteString(w, t.String())
	return err
}
