package admin

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/ranker-worker/ranker-worker/state"
	"github.com/ranker-worker/ranker-worker/stream/broker"
	"github.com/ranker-worker/ranker-worker/stream/event"
	"github.com/ranker-worker/ranker-worker/stream/task"
)

// topicRoles are names of the input topics' roles, whatever the topics are called.
var topicRoles = [event.Inputs]string{event.Impressions: "impressions", event.Selections: "selections", event.Payoffs: "payoffs"}

type SkipQuery struct {
	Partition int32
	Topic     string // impressions, selections or payoffs, or the name of one of these topics
	Offset    int64
	Why       string
}

type SkipReport struct {
	Partition int32  `json:"partition"`
	Topic     string `json:"topic"`
	From      int64  `json:"from"`
	Through   int64  `json:"through"`
	Kept      int    `json:"kept"`  // bytes of them in the first dead letter
	Taken     bool   `json:"taken"` // it had been read: it is only no longer compared
	Fault     string `json:"fault"`
	Why       string `json:"why"`
}

var (
	ErrReadable = errors.New("nothing was skipped: a worker can read it")
	ErrReadPast = errors.New("nothing was skipped: the record has been read already")
	errWhy      = errors.New("say why, in one line of at most 500 bytes: it is kept with the state and the dead letter")
	errTopic    = errors.New("no such input topic: impressions, selections or payoffs, or the name of one of them")
)

const maxWhy = 500

// Skip skips a record that no worker can read, and unreadable ones behind it in the same batch. Each becomes a
// dead letter, of which the first holds the readable bytes, counts as rejected, and stands in the partition's
// history. Earlier records are read first. It fails with ErrReadable if a worker could read the record.
//
// Workers read the last record again to check that the log is theirs. If that record has become unreadable, it is no longer compared.
//
// A record whose schema the registry lacks, while it answers for others, is skipped without the workers' wait.
func (tool *Tool) Skip(ctx context.Context, q SkipQuery) (*SkipReport, error) {
	topic, err := tool.inputTopic(q.Topic)
	if err != nil {
		return nil, err
	}
	if q.Why = strings.TrimSpace(q.Why); q.Why == "" || len(q.Why) > maxWhy || strings.ContainsAny(q.Why, "\r\n") {
		return nil, errWhy
	}
	if err := tool.stopped(ctx); err != nil {
		return nil, err
	}
	meta, fields, err := tool.store.View(ctx, q.Partition, nil)
	if err != nil {
		return nil, fmt.Errorf("partition %d: %w", q.Partition, err)
	}
	name := tool.broker.Topic(topic)
	in := &meta.Inputs[topic]
	if q.Offset < in.Offset && q.Offset != in.Witness.Offset {
		return nil, fmt.Errorf("%w: the state is at offset %d of %s[%d]", ErrReadPast, in.Offset, name, q.Partition)
	}
	u, err := broker.Retry(ctx, func(ctx context.Context) (*broker.Unreadable, error) {
		return tool.broker.Partition(q.Partition).Unreadable(ctx, topic, q.Offset)
	})
	if err != nil {
		return nil, err
	}
	if u == nil || u.From != q.Offset {
		return nil, fmt.Errorf("%w, or there is no record: offset %d of %s[%d]", ErrReadable, q.Offset, name, q.Partition)
	}
	r := &SkipReport{Partition: q.Partition, Topic: name, From: u.From, Through: u.To - 1, Kept: min(len(u.Batch), tool.machine.MaxRecordBytes),
		Fault: u.Err.Error(), Why: q.Why}
	if q.Offset < in.Offset {
		r.Through, r.Kept, r.Taken = r.From, 0, true
		return r, tool.dropWitness(ctx, &q, topic)
	}
	s := skipping{tool: tool, q: &q, topic: topic, u: u}
	if s.past, err = readHistory(fields); err != nil {
		return nil, err
	}
	return r, s.run(ctx, meta.Generation)
}

// dropWitness removes the witness, the last record read, so that workers do not compare it with the log.
func (tool *Tool) dropWitness(ctx context.Context, q *SkipQuery, topic event.Topic) error {
	return tool.alter(ctx, q.Partition, nil, func(m *state.Meta, _ []state.Field) (*alteration, error) {
		m.Inputs[topic].Witness = state.Witness{Offset: -1}
		return &alteration{history: skipped(q, tool.broker.Topic(topic), q.Offset+1)}, nil
	})
}

func skipped(q *SkipQuery, topic string, to int64) History {
	return History{Done: "skip", Detail: q.Why, Topic: topic, Skipped: []int64{q.Offset, to}}
}

// inputTopic finds a topic by its role or its name.
func (tool *Tool) inputTopic(name string) (event.Topic, error) {
	for t := range event.Topic(event.Inputs) {
		if full := tool.broker.Topic(t); full != "" && (name == topicRoles[t] || name == full) {
			return t, nil
		}
	}
	return 0, fmt.Errorf("%w: %q", errTopic, name)
}

// skipping is a Skip under way.
type skipping struct {
	tool  *Tool
	q     *SkipQuery
	topic event.Topic
	u     *broker.Unreadable
	past  []History

	noted  *state.Checkpoint // with the entry of the history
	stored bool              // noted is stored
	done   atomic.Bool
}

// run works like a worker until the record is passed.
func (s *skipping) run(ctx context.Context, generation int64) error {
	d := driver{tool: s.tool, p: s.q.Partition, generation: generation, saves: s.note}
	d.skips = func(topic event.Topic, offset int64) string {
		if topic != s.topic || offset < s.u.From || offset >= s.u.To {
			return ""
		}
		return s.q.Why
	}
	d.saved = func(c *state.Checkpoint) {
		s.stored = s.stored || c == s.noted
		if c.Meta.Inputs[s.topic].Offset >= s.u.To {
			s.done.Store(true)
		}
	}
	_, err := d.runTask(ctx, func(st *task.Status) (bool, error) {
		s.tool.say("partition %d: %s, %d records of %s left", s.q.Partition, st.Phase, st.Lag[s.topic], s.tool.broker.Topic(s.topic))
		return s.done.Load(), nil
	})
	if err == nil && !s.done.Load() {
		err = fmt.Errorf("%w: somebody else has taken partition %d over", state.ErrFenced, s.q.Partition)
	}
	return err
}

// note adds the history to the checkpoint that passes the record.
func (s *skipping) note(c *state.Checkpoint) error {
	m := c.Meta
	m.Fence = c.Fence
	if m.Inputs[s.topic].Offset <= s.u.From || s.stored || s.noted == c {
		return nil
	}
	s.noted = c
	c.Changes.Writes = slices.Clone(c.Changes.Writes)
	return skipped(s.q, s.tool.broker.Topic(s.topic), s.u.To).write(&c.Changes, s.past, &m, s.tool.now())
}
