package platform

import (
	"context"
	"net"
	"time"

	"github.com/segmentio/kafka-go"

	"github.com/ranker-worker/ranker-worker/stream/broker"
	"github.com/ranker-worker/ranker-worker/stream/event"
	"github.com/ranker-worker/ranker-worker/stream/partition"
	"github.com/ranker-worker/ranker-worker/stream/task"
)

// wire is the players' access to the log: as plain producers, and as readers of the rankings.
type wire struct {
	log      *broker.Client
	topics   [event.Topics]string
	writer   *kafka.Writer
	rankings chan []partition.Record // as read, of all partitions
}

func newWire(log *broker.Client, topics [event.Topics]string) wire {
	return wire{log: log, topics: topics, rankings: make(chan []partition.Record, 16)}
}

// endable ends requests with its own context, too. kafka-go's writer tries a batch on, for minutes, after its caller has given up.
type endable struct {
	kafka.RoundTripper
	ctx context.Context
}

func (e endable) RoundTrip(ctx context.Context, addr net.Addr, r kafka.Request) (kafka.Response, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(e.ctx, cancel)()
	return e.RoundTripper.RoundTrip(ctx, addr, r)
}

// newWriter returns a producer that places keys as Kafka's own does.
func newWriter(transport kafka.RoundTripper, brokers []string) *kafka.Writer {
	return &kafka.Writer{Transport: transport, Addr: kafka.TCP(brokers...), Balancer: kafka.Murmur2Balancer{}, BatchSize: 1000,
		BatchTimeout: time.Millisecond, RequiredAcks: kafka.RequireAll, WriteTimeout: 10 * time.Second, MaxAttempts: 10}
}

func (w *wire) impression(i *event.Impression) kafka.Message {
	return w.message(event.Impressions, i.ID, event.AppendImpression(nil, i), i.Time)
}

func (w *wire) response(r *Record, at event.Millis) kafka.Message {
	if r.Topic == event.Selections {
		r.Selection.Time, r.Selection.HasTime = at, true
		return w.message(r.Topic, r.Selection.ID, event.AppendSelection(nil, &r.Selection), at)
	}
	r.Payoff.Time, r.Payoff.HasTime = at, true
	return w.message(r.Topic, r.Payoff.ID, event.AppendPayoff(nil, &r.Payoff), at)
}

func (w *wire) message(t event.Topic, key, value []byte, at event.Millis) kafka.Message {
	return kafka.Message{Topic: w.topics[t], Key: key, Value: value, Time: time.UnixMilli(at)}
}

// read follows one partition of the rankings from an offset, until ctx is done.
func (w *wire) read(ctx context.Context, partition int, next int64) error {
	log := w.log.Partition(int32(partition))
	for {
		f, err := log.Fetch(ctx, task.Fetch{Topic: event.Rankings, Offset: next, MaxBytes: 1 << 20, MaxWait: 200 * time.Millisecond})
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			// A missing broker comes back, or a wait for rankings ends.
			if err := wait(ctx, pace); err != nil {
				return err
			}
			continue
		}
		next = max(next, f.Next)
		if len(f.Records) == 0 {
			continue
		}
		select {
		case w.rankings <- f.Records:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func wait(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
