package dlq

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strconv"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"
	"github.com/segmentio/kafka-go/protocol/fetch"

	"github.com/ranker-worker/ranker-worker/config"
	"github.com/ranker-worker/ranker-worker/internal/app"
	"github.com/ranker-worker/ranker-worker/internal/plural"
	"github.com/ranker-worker/ranker-worker/stream/broker"
	"github.com/ranker-worker/ranker-worker/stream/task"
)

// Headers of dead letters, see docs/do/dead-letters.md.
const (
	headerReason    = "__streams.errors.exception"
	headerDetail    = "__streams.errors.message"
	headerTopic     = "__streams.errors.topic"
	headerPartition = "__streams.errors.partition"
	headerOffset    = "__streams.errors.offset"
	headerTruncated = "ranker.truncated.from"
)

type At struct {
	Topic     string `json:"topic"`
	Partition int    `json:"partition"`
	Offset    int64  `json:"offset"`
}

// String returns the form of the command line.
func (a At) String() string { return fmt.Sprintf("%s/%d/%d", a.Topic, a.Partition, a.Offset) }

type Letter struct {
	Time    time.Time      `json:"time"` // of the refusal
	Letter  At             `json:"letter"`
	Of      At             `json:"of"` // the record that was refused
	Reason  string         `json:"reason"`
	Detail  string         `json:"detail"`
	Key     []byte         `json:"key"`   // null if the record had none
	Value   []byte         `json:"value"` // likewise
	Size    int            `json:"size"`  // of key and value if they were cut off; else 0
	Headers []kafka.Header `json:"-"`
}

// Complete reports whether the record's bytes are complete.
func (l *Letter) Complete() bool { return l.Size == 0 && l.Reason != "skipped" }

// Box reads and replays a group's dead letters.
type Box struct {
	client *kafka.Client
	broker *broker.Client
	topics config.Topics
}

// Open does not connect. The caller closes the Box.
func Open(cfg *config.Config) (*Box, error) {
	b, err := app.NewBroker(cfg)
	if err != nil {
		return nil, err
	}
	client := b.Kafka()
	client.Transport = quotas{client.Transport}
	return &Box{client: client, broker: b, topics: cfg.Kafka.Topics}, nil
}

// quotas adds the error task.Throttled. kafka-go takes an answer without topics, from a broker over a quota, for a missing topic.
type quotas struct{ kafka.RoundTripper }

func (q quotas) RoundTrip(ctx context.Context, addr net.Addr, req kafka.Request) (kafka.Response, error) {
	res, err := q.RoundTripper.RoundTrip(ctx, addr, req)
	if f, ok := res.(*fetch.Response); ok && len(f.Topics) == 0 && f.ThrottleTimeMs > 0 {
		return nil, task.Throttled(time.Duration(f.ThrottleTimeMs) * time.Millisecond)
	}
	return res, err
}

func (b *Box) Close() { b.broker.Close() }

func (b *Box) Inputs() []string {
	all := []string{b.topics.Impressions, b.topics.Selections, b.topics.Payoffs}
	return slices.DeleteFunc(all, func(name string) bool { return name == "" })
}

// input returns the name of an input topic, given its role, its name, or that of its dead letters.
func (b *Box) input(name string) (input string, letters bool, err error) {
	switch name {
	case "impressions":
		return b.topics.Impressions, false, nil
	case "payoffs":
		return b.topics.Payoffs, false, nil
	case "selections":
		if b.topics.HasSelections() {
			return b.topics.Selections, false, nil
		}
	}
	for _, input := range b.Inputs() {
		if name == input || name == b.topics.DLQ(input) {
			return input, name != input, nil
		}
	}
	return "", false, fmt.Errorf("no such topic %q: impressions, selections or payoffs, or the name of one of them or of its dead letters", name)
}

type record struct {
	at         At
	time       time.Time
	key, value []byte
	headers    []kafka.Header
}

func (r *record) header(key string) (value []byte, ok bool) {
	for _, h := range r.headers {
		if h.Key == key {
			return h.Value, true
		}
	}
	return nil, false
}

const fetchBytes, fetchWait = 1 << 20, 500 * time.Millisecond

// fetch reads once from an offset, and returns the next one: the same if there is nothing yet. Control records only move that. Committed
// records end before an open transaction.
func (b *Box) fetch(ctx context.Context, topic string, partition int, from int64, of kafka.IsolationLevel) (all []record, next int64, err error) {
	res, err := b.client.Fetch(ctx, &kafka.FetchRequest{Topic: topic, Partition: partition, Offset: from, MinBytes: 1, MaxBytes: fetchBytes,
		MaxWait: fetchWait, IsolationLevel: of})
	if err == nil {
		err = res.Error
	}
	if err != nil {
		return nil, from, fmt.Errorf("fetching %s[%d]: %w", topic, partition, err)
	}
	end := res.LastStableOffset
	if of == kafka.ReadUncommitted {
		end = res.HighWatermark
	}
	for next = from; ; {
		r, err := res.Records.ReadRecord()
		if errors.Is(err, io.EOF) {
			if next = max(next, behindMarkers(res.Records)); next == from && from < end {
				return nil, from, fmt.Errorf("fetching %s[%d] from offset %d: %w", topic, partition, from, task.ErrNothingRead)
			}
			return all, next, nil
		}
		if err != nil {
			return nil, from, fmt.Errorf("fetching %s[%d], after offset %d: %w", topic, partition, next-1, err)
		}
		one := record{at: At{topic, partition, r.Offset}, time: r.Time, headers: r.Headers}
		if one.key, err = bytesOf(r.Key); err == nil {
			one.value, err = bytesOf(r.Value)
		}
		if err != nil {
			return nil, from, fmt.Errorf("fetching %s: %w", one.at, err)
		}
		if r.Offset < next { // of a batch that begins before it
			continue
		}
		next = r.Offset + 1
		all = append(all, one)
	}
}

// behindMarkers returns the offset behind the last control record of an answer, 0 without one: kafka-go skips them.
func behindMarkers(r kafka.RecordReader) (next int64) {
	stream, ok := r.(*protocol.RecordStream)
	if !ok {
		return 0
	}
	for _, b := range stream.Records {
		if marker, ok := b.(*protocol.ControlBatch); ok {
			next = marker.BaseOffset + 1
		}
	}
	return next
}

// bytesOf reads a key or value; nil for null.
func bytesOf(b kafka.Bytes) ([]byte, error) {
	if b == nil {
		return nil, nil
	}
	return kafka.ReadAll(b)
}

// read reads a partition's committed records up to a known end.
func (b *Box) read(ctx context.Context, topic string, s broker.Span, use func(*record) error) error {
	return b.readAll(ctx, topic, s, kafka.ReadCommitted, use)
}

func (b *Box) readAll(ctx context.Context, topic string, s broker.Span, of kafka.IsolationLevel, use func(*record) error) error {
	reader := broker.NewReader(s.First, s.End, func(ctx context.Context, offset int64) ([]record, int64, error) {
		return b.fetch(ctx, topic, s.Partition, offset, of)
	})
	for {
		all, err := reader.Next(ctx)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		for i := range all {
			if err := use(&all[i]); err != nil {
				return err
			}
		}
	}
}

const requestTimeout = 15 * time.Second

// letterOf makes a dead letter of a record; ok is false for other records, such as the markers of fences.
func letterOf(r *record) (l Letter, ok bool) {
	reason, ok := r.header(headerReason)
	if !ok {
		return l, false
	}
	text := func(key string) string {
		v, _ := r.header(key)
		return string(v)
	}
	l = Letter{Time: r.time, Letter: r.at, Of: At{Topic: text(headerTopic)}, Reason: string(reason), Detail: text(headerDetail), Key: r.key, Value: r.value,
		Headers: r.headers}
	var err error
	if l.Of.Partition, err = strconv.Atoi(text(headerPartition)); err != nil {
		return l, false
	}
	if l.Of.Offset, err = strconv.ParseInt(text(headerOffset), 10, 64); err != nil {
		return l, false
	}
	l.Size, _ = strconv.Atoi(text(headerTruncated)) // absent: complete
	return l, true
}

var ErrNone = errors.New("no such dead letter")

// Find finds a dead letter by its own position, or the newest one by that of the refused record.
func (b *Box) Find(ctx context.Context, at At) (*Letter, error) {
	input, itself, err := b.input(at.Topic)
	if err != nil {
		return nil, err
	}
	all, err := b.broker.Spans(ctx, b.topics.DLQ(input), 0)
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(all, func(s broker.Span) bool { return s.Partition == at.Partition })
	if i < 0 {
		return nil, fmt.Errorf("%w: %s has %s", ErrNone, b.topics.DLQ(input), plural.N(len(all), "partition"))
	}
	s := all[i]
	if itself {
		s.First, s.End = max(s.First, at.Offset), min(s.End, at.Offset+1)
	}
	var found *Letter
	err = b.read(ctx, b.topics.DLQ(input), s, func(r *record) error {
		if l, ok := letterOf(r); ok && (itself && r.at.Offset == at.Offset || !itself && l.Of.Offset == at.Offset) {
			found = &l
		}
		return nil
	})
	if err == nil && found == nil {
		err = fmt.Errorf("%w: %s", ErrNone, at)
	}
	return found, err
}

// Original returns the refused record's timestamp and replay header, if it is still in its topic.
func (b *Box) Original(ctx context.Context, l *Letter) (at time.Time, replayOf string, found bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	all, _, err := b.fetch(ctx, l.Of.Topic, l.Of.Partition, l.Of.Offset, kafka.ReadCommitted)
	if errors.Is(err, kafka.OffsetOutOfRange) {
		return at, "", false, nil
	}
	for i := range all {
		if r := &all[i]; r.at == l.Of {
			of, _ := r.header(headerReplay)
			return r.time, string(of), true, err
		}
	}
	return at, "", false, err
}
