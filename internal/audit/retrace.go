// Package audit replays a worker group's rankings from Kafka, for the commands replay and explain, and for tools/faults. Open describes
// the topics. Topics.Replay runs stream/replay up to their ends; Explain gives the reasons for one impression's ranking. From begins with
// a base, a state that `state base` saved. The package joins no consumer group, writes nothing, and needs no Redis.
package audit

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/ranker-worker/ranker-worker/config"
	"github.com/ranker-worker/ranker-worker/internal/admin"
	"github.com/ranker-worker/ranker-worker/internal/app"
	"github.com/ranker-worker/ranker-worker/stream/broker"
	"github.com/ranker-worker/ranker-worker/stream/event"
	"github.com/ranker-worker/ranker-worker/stream/partition"
	"github.com/ranker-worker/ranker-worker/stream/replay"
	"github.com/ranker-worker/ranker-worker/stream/task"
)

// Topics are a group's topics, up to their present ends.
type Topics struct {
	cfg        *config.Config
	broker     *broker.Client
	machine    partition.Config
	partitions []task.Description
	bases      []admin.Base // by partition; empty: the beginning of all
}

func Open(ctx context.Context, cfg *config.Config) (*Topics, error) {
	machine, err := app.MachineConfig(cfg)
	if err != nil {
		return nil, err
	}
	b, err := app.NewBroker(cfg)
	if err != nil {
		return nil, err
	}
	t := &Topics{cfg: cfg, broker: b, machine: machine}
	for n := 1; len(t.partitions) < n; {
		d, err := t.describe(ctx, int32(len(t.partitions)))
		if err != nil {
			b.Close()
			return nil, err
		}
		t.partitions = append(t.partitions, d)
		n = d.Topics[event.Impressions].Partitions
	}
	return t, nil
}

// From makes replays begin with the base in a directory.
func (t *Topics) From(dir string) error {
	bases, err := admin.ReadBase(dir, t.cfg.Kafka.Group, len(t.partitions))
	if err != nil {
		return err
	}
	for p := range bases {
		m, d := &bases[p].Meta, &t.partitions[p]
		if m.ClusterID != d.ClusterID {
			return fmt.Errorf("the base is of Kafka cluster %q, this is %q", m.ClusterID, d.ClusterID)
		}
		for topic, name := range app.TopicNames(t.cfg) {
			need := m.Rankings
			if topic < int(event.Inputs) {
				need = m.Inputs[topic].Offset
			}
			if start := d.Topics[topic].LogStart; start > need {
				return fmt.Errorf("the base is of %s, when %s[%d] was read up to offset %d, and the topic begins at %d by now: take a newer base",
					bases[p].Taken.Format(time.RFC3339), name, p, need, start)
			}
		}
	}
	t.bases = bases
	return nil
}

func (t *Topics) Close() { t.broker.Close() }

func (t *Topics) Partitions() int { return len(t.partitions) }

func (t *Topics) describe(ctx context.Context, p int32) (d task.Description, err error) {
	err = broker.Retry(ctx, func(ctx context.Context) (err error) {
		d, err = t.broker.Partition(p).Describe(ctx)
		return err
	})
	if err != nil {
		return d, fmt.Errorf("describing the topics: %w", err)
	}
	for topic, name := range app.TopicNames(t.cfg) {
		if d.Topics[topic].Missing {
			return d, fmt.Errorf("topic %q does not exist", name)
		}
	}
	return d, nil
}

// Replay replays the topics up to their ends at Open.
func (t *Topics) Replay(ctx context.Context, c *replay.Config) ([]replay.Result, error) {
	c.Machine = t.Machine
	c.Logs, c.Bases = nil, nil
	for i := range t.bases {
		b := &t.bases[i]
		base := &replay.Base{Seq: b.Meta.Seq, Fields: b.Fields, Pages: b.Pages}
		for topic := range base.Inputs {
			base.Inputs[topic] = b.Meta.Inputs[topic].Offset
		}
		c.Bases = append(c.Bases, base)
	}
	for p := range t.partitions {
		c.Logs = append(c.Logs, t.log(ctx, int32(p)))
	}
	return replay.Run(c)
}

func (t *Topics) Machine(p int32) partition.Config {
	m := t.machine
	m.Partition, m.Partitions = p, int32(len(t.partitions))
	m.MaxRankingBytes = t.partitions[p].MaxRankingBytes()
	return m
}

type log struct {
	ctx     context.Context
	t       *Topics
	p       int32
	topics  [event.Topics]piece
	decoder *event.Decoder
	ranking event.Ranking
	owners  task.Owners
}

// piece is the last answer of a topic's reader.
type piece struct {
	reader *broker.Reader[*task.Fetched]
	answer *task.Fetched
	from   int64 // offset from which the answer was read
	at     int   // of the last requested record
}

func (t *Topics) log(ctx context.Context, p int32) *log {
	l := &log{ctx: ctx, t: t, p: p, decoder: event.NewDecoder(event.Limits{})}
	for topic := range event.Topic(event.Topics) {
		l.open(topic, t.partitions[p].Topics[topic].LogStart)
	}
	if len(t.bases) > 0 {
		m := &t.bases[p].Meta
		l.open(event.Rankings, m.Rankings)
		l.owners = append(slices.Clone(m.FormerProducers), m.ProducerID)
	}
	return l
}

// open makes a topic's reader begin at an offset.
func (l *log) open(topic event.Topic, offset int64) {
	end := l.t.partitions[l.p].Topics[topic].End
	l.topics[topic] = piece{reader: l.t.broker.Partition(l.p).Reader(topic, offset, end), answer: &task.Fetched{}, from: offset}
}

// read reads a topic's next piece; ok is false at the end.
func (l *log) read(topic event.Topic) (ok bool, err error) {
	w := &l.topics[topic]
	from := w.reader.Offset()
	f, err := w.reader.Next(l.ctx)
	switch {
	case errors.Is(err, io.EOF):
		return false, nil
	case err != nil:
		return false, err
	}
	w.answer, w.from, w.at = f, from, 0
	return true, nil
}

func (l *log) Record(topic event.Topic, offset int64) (*partition.Record, error) {
	w := &l.topics[topic]
	if offset < l.t.partitions[l.p].Topics[topic].LogStart {
		return nil, nil // deleted
	}
	if offset < w.from || offset > w.reader.Offset() {
		l.open(topic, offset)
	}
	for {
		all := w.answer.Records
		if w.at >= len(all) || w.at > 0 && all[w.at-1].Offset >= offset {
			w.at = 0
		}
		for ; w.at < len(all); w.at++ {
			if rec := &all[w.at]; rec.Offset >= offset {
				return rec, nil
			}
		}
		if ok, err := l.read(topic); !ok {
			return nil, err
		}
	}
}

// Ranking implements replay.Log. Like a task, it skips rankings by others than the group's owners.
func (l *log) Ranking() (*replay.Ranking, error) {
	w := &l.topics[event.Rankings]
	for {
		for ; w.at < len(w.answer.Records); w.at++ {
			rec, o := &w.answer.Records[w.at], &w.answer.Origins[w.at]
			if !l.mine(rec, o) {
				continue
			}
			w.at++
			order, _ := partition.OrderNumber(rec, l.t.cfg.Kafka.Group, l.p)
			return &replay.Ranking{Offset: rec.Offset, Order: order, Key: rec.Key, Value: rec.Value, Steps: o.Steps, Seen: o.Seen}, nil
		}
		if ok, err := l.read(event.Rankings); !ok {
			return nil, err
		}
		for i := range w.answer.Markers {
			l.owners.Mark(&w.answer.Markers[i])
		}
	}
}

func (l *log) mine(rec *partition.Record, o *task.Origin) bool {
	if _, order := partition.OrderNumber(rec, l.t.cfg.Kafka.Group, l.p); !order &&
		(l.decoder.Ranking(&l.ranking, rec.Value) != nil || l.ranking.Decision.Group != l.t.cfg.Kafka.Group) {
		return false
	}
	return l.t.partitions[l.p].Topics[event.Rankings].LogStart > 0 || l.owners.Wrote(o)
}
