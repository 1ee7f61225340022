// Package audit replays a worker group's rankings from Kafka, for the commands replay and explain, and for tools/faults. Open describes
// the topics. Topics.Replay runs stream/replay up to their ends; Explain gives the reasons for one impression's ranking. From uses bases,
// states that `state base` saved. The package joins no consumer group, writes nothing, and needs no Redis.
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
	bases      []base // by time; the first is the beginning, if there is one
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

// From makes replays begin with a base, and use later ones behind rankings that are not exact. The directory is that of a base, or has those
// of several.
func (t *Topics) From(dir string) error {
	dirs, err := admin.FindBases(dir)
	if err != nil {
		return err
	}
	var old error
next:
	for _, dir := range dirs {
		b := base{dir: dir}
		for p := range t.partitions {
			head, err := admin.ReadBase(dir, t.cfg.Kafka.Group, int32(p), len(t.partitions), false)
			if names := app.TopicNames(t.cfg); err == nil && !slices.Equal(head.Meta.TopicNames, names[:]) {
				err = fmt.Errorf("%s: the base is of topics %q: %w", dir, head.Meta.TopicNames, admin.ErrBeforeReshard)
			}
			if errors.Is(err, admin.ErrBeforeReshard) {
				old = err
				continue next
			}
			if err != nil {
				return err
			}
			if at := t.partitions[p].ClusterID; head.Meta.ClusterID != at {
				return fmt.Errorf("the base is of Kafka cluster %q, this is %q", head.Meta.ClusterID, at)
			}
			b.heads = append(b.heads, head)
		}
		if err := t.reaches(&b); err != nil {
			old = err
			continue
		}
		t.bases = append(t.bases, b)
	}
	slices.SortFunc(t.bases, func(a, b base) int { return a.heads[0].Taken.Compare(b.heads[0].Taken) })
	if len(t.bases) == 0 {
		return old
	}
	return nil
}

// reaches fails if the topics have lost records behind a base.
func (t *Topics) reaches(b *base) error {
	for p := range t.partitions {
		m := &b.heads[p].Meta
		for topic, name := range app.TopicNames(t.cfg) {
			need := m.Rankings
			if topic < int(event.Inputs) {
				need = m.Inputs[topic].Offset
			}
			if start := t.partitions[p].Topics[topic].LogStart; start > need {
				return fmt.Errorf("the base is of %s, when %s[%d] was read up to offset %d, and the topic begins at %d by now: take a newer base",
					b.heads[p].Taken.Format(time.RFC3339), name, p, need, start)
			}
		}
	}
	return nil
}

// base is a base on disk.
type base struct {
	dir   string
	heads []admin.Base // by partition, without their contents
}

func (t *Topics) Close() { t.broker.Close() }

func (t *Topics) Partitions() int { return len(t.partitions) }

func (t *Topics) describe(ctx context.Context, p int32) (task.Description, error) {
	d, err := broker.Retry(ctx, t.broker.Partition(p).Describe)
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
	c.Machine, c.Logs = t.Machine, nil
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
	bases   int // read, or passed
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
		m := &t.bases[0].heads[p].Meta
		l.open(event.Rankings, m.Rankings)
		l.owners = append(slices.Clone(m.FormerProducers), m.ProducerID)
	}
	return l
}

// Base implements replay.Log.
func (l *log) Base(behind int64) (*replay.Base, error) {
	for l.bases < len(l.t.bases) && l.t.bases[l.bases].heads[l.p].Meta.Rankings <= behind {
		l.bases++
	}
	if l.bases == len(l.t.bases) {
		return nil, nil
	}
	l.bases++
	b, err := admin.ReadBase(l.t.bases[l.bases-1].dir, l.t.cfg.Kafka.Group, l.p, len(l.t.partitions), true)
	if err != nil {
		return nil, err
	}
	r := &replay.Base{Seq: b.Meta.Seq, Rankings: b.Meta.Rankings, Fields: b.Fields, Pages: b.Pages}
	for topic := range r.Inputs {
		r.Inputs[topic] = b.Meta.Inputs[topic].Offset
	}
	return r, nil
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
