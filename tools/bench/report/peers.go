package report

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/segmentio/kafka-go"

	"github.com/ranker-worker/ranker-worker/stream/broker"
	"github.com/ranker-worker/ranker-worker/stream/event"
	"github.com/ranker-worker/ranker-worker/tools/bench/streams"
)

// warmShare: the first 1/warmShare of a drain does not count, in which Java compiles hot code, and most items are new.
const warmShare = 3

// The compared programs, in the order of Round.
const (
	ours = iota
	inMemory
	onRocksDB
	programs
)

var programNames = [programs]string{"ranker-worker", "Kafka Streams, in memory", "Kafka Streams, on RocksDB"}

// Round is one drain of the same impressions by each program, one after the other.
type Round [programs]Pass

// Peers compares the worker with Kafka Streams at the same task.
type Peers struct {
	Options Options
	Load    Load
	Rounds  []Round
}

// RunPeers lets the worker and a Kafka Streams job drain the same impressions in turn.
func RunPeers(ctx context.Context, o Options) (*Peers, error) {
	r := &Peers{Options: o}
	return r, o.measure(ctx, &r.Load, func(b *bench) error {
		b.Partitions, b.warm = o.Sizes[0].Partitions, o.Impressions/warmShare
		inputs := fmt.Sprintf("peers-%d", time.Now().UnixNano())
		c, err := b.filled(ctx, inputs, o.Sizes[0])
		if err != nil {
			return err
		}
		defer b.dropAll(ctx, c)
		for i := range o.Runs {
			var round Round
			for k := range programs {
				program := (i + k) % programs // so that the order affects all alike
				p, err := b.peer(ctx, inputs, fmt.Sprintf("%s-%d-%d", inputs, i, program), program)
				if err != nil {
					return fmt.Errorf("%s: %w", programNames[program], err)
				}
				b.say("run %d: %s %.0f/s, CPU %v, Kafka's %v, %d MiB, first output after %v", i+1, programNames[program], p.PerSecond, p.CPU, p.Kafka,
					p.Memory>>20, p.FirstAfter.Round(time.Millisecond))
				round[program] = p
			}
			r.Rounds = append(r.Rounds, round)
		}
		return nil
	})
}

// peer is one program's drain of the inputs into rankings of its own.
func (b *bench) peer(ctx context.Context, inputs, run string, program int) (Pass, error) {
	topics := b.topics(inputs, run)
	c, err := b.create(ctx, topics, run)
	if err != nil {
		return Pass{}, err
	}
	defer b.drop(ctx, c)
	if program == ours {
		p, _, err := b.alone(ctx, c, b.Sizes[0])
		return p, err
	}
	dir, err := os.MkdirTemp(b.dir, "streams-")
	if err != nil {
		return Pass{}, fmt.Errorf("make a directory for Kafka Streams: %w", err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	group := topics[event.Rankings] // so its own topics are dropped with its rankings
	cmd, err := streams.Command(ctx, streams.Config{Brokers: b.Kafka, Application: group, Topics: topics, RocksDB: program == onRocksDB,
		Threads: b.Threads, Dir: dir})
	if err != nil {
		return Pass{}, err
	}
	w, err := launch("Kafka Streams", cmd)
	if err != nil {
		return Pass{}, err
	}
	p, err := b.watch(ctx, w, b.committed(c, group, b.Sizes[0].Paid))
	if stopErr := w.stop(); err == nil {
		err = stopErr
	}
	return p, err
}

// committed counts the impressions that a group has committed, exactly once with their rankings. The last counts when the last payoff, if
// any, is committed too.
func (b *bench) committed(c *broker.Client, group string, paid bool) progress {
	partitions := make([]int, b.Partitions)
	for p := range partitions {
		partitions[p] = p
	}
	inputs := []event.Topic{event.Impressions}
	if paid {
		inputs = append(inputs, event.Selections, event.Payoffs)
	}
	topics := map[string][]int{}
	for _, t := range inputs {
		topics[c.Topic(t)] = partitions
	}
	return func(ctx context.Context) (int64, error) {
		res, err := c.Kafka().OffsetFetch(ctx, &kafka.OffsetFetchRequest{GroupID: group, Topics: topics})
		if err == nil {
			err = res.Error
		}
		if err != nil {
			return 0, fmt.Errorf("asking for the committed offsets of %s: %w", group, err)
		}
		var done [event.Inputs]int64
		for _, t := range inputs {
			for _, p := range res.Topics[c.Topic(t)] {
				if p.Error != nil {
					return 0, fmt.Errorf("asking for the committed offsets of %s: %w", group, p.Error)
				}
				done[t] += max(0, p.CommittedOffset)
			}
		}
		n := done[event.Impressions]
		if paid && n == b.Impressions && min(done[event.Selections], done[event.Payoffs]) < b.Impressions {
			n--
		}
		return n, nil
	}
}

type spread struct{ least, median, most float64 }

// spreadOf takes at least one value.
func spreadOf(all []float64) spread {
	mid := median(all) // sorts
	return spread{all[0], mid, all[len(all)-1]}
}

func (r *Peers) over(of func(*Round) float64) spread {
	var all []float64
	for i := range r.Rounds {
		all = append(all, of(&r.Rounds[i]))
	}
	return spreadOf(all)
}

// Ratio is the worker's quantity relative to a program's, in the rounds with both: least, median and most.
func (r *Peers) Ratio(program int, of func(*Pass) float64) (least, mid, most float64) {
	s := r.over(func(d *Round) float64 { return of(&d[ours]) / of(&d[program]) })
	return s.least, s.median, s.most
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
		o.Sizes[0].Partitions, thousands(o.Sizes[0].Items), o.Impressions, feedback, len(r.Rounds), o.Threads, r.Load[0], r.Load[1])
	rate := func(p *Pass) float64 { return p.PerSecond }
	cpu := func(p *Pass) float64 { return float64(p.CPU) / 1e3 }
	kafkas := func(p *Pass) float64 { return float64(p.Kafka) / 1e3 }
	t.WriteString("| program | impressions/s | its CPU each | Kafka's CPU each | its memory |\n|---|---|---|---|---|\n")
	for program, name := range programNames {
		of := func(f func(*Pass) float64) spread { return r.over(func(d *Round) float64 { return f(&d[program]) }) }
		v, c, k := of(rate), of(cpu), of(kafkas)
		fmt.Fprintf(&t, "| %s | %s, **%s**, %s | %.1f, **%.1f**, %.1f µs | %.1f µs | %s MiB |\n", name, thousands(roundTo(v.least, 100)), thousands(roundTo(v.median, 100)),
			thousands(roundTo(v.most, 100)), c.least, c.median, c.most, k.median, thousands(int64(of(func(p *Pass) float64 { return float64(p.Memory) }).median)>>20))
	}
	t.WriteString("\n| ranker-worker's, as a multiple of | impressions/s | its CPU each |\n|---|---|---|\n")
	for _, program := range []int{inMemory, onRocksDB} {
		var cells []string
		for _, f := range []func(*Pass) float64{rate, cpu} {
			least, mid, most := r.Ratio(program, f)
			cells = append(cells, fmt.Sprintf("%.2f, **%.2f**, %.2f", least, mid, most))
		}
		fmt.Fprintf(&t, "| %s | %s |\n", programNames[program], strings.Join(cells, " | "))
	}
	_, err := io.WriteString(w, t.String())
	return err
}
