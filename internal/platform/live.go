package platform

import (
	"context"
	"fmt"
	"time"

	"github.com/segmentio/kafka-go"
	"golang.org/x/sync/errgroup"

	"github.com/ranker-worker/ranker-worker/internal/simulate"
	"github.com/ranker-worker/ranker-worker/stream/broker"
	"github.com/ranker-worker/ranker-worker/stream/event"
	"github.com/ranker-worker/ranker-worker/stream/partition"
)

type LiveOptions struct {
	Brokers   []string
	Transport kafka.RoundTripper // to publish through
	Log       *broker.Client     // to read rankings with
	Topics    [event.Topics]string
	Rate      float64 // impressions a second, above 0
	Number    func(id []byte) (n int, ok bool)
	Every     time.Duration // between two calls of Report
	// Report is called from Run's goroutine, at the end too.
	Report func(LiveProgress)
}

// LiveProgress counts a live platform's records since Run began.
type LiveProgress struct {
	Impressions, Rankings, Selections, Payoffs int
	// Forgotten counts impressions whose ranking was given up, since too many came after them.
	Forgotten int
	// HeldBack counts impressions that were not published in time: too much was scheduled, or the brokers were too slow.
	HeldBack int
	// Scheduled are selections and payoffs still to come.
	Scheduled int
	// Latency is the sum of rankings' latencies, measured from just before their impressions were published.
	Latency time.Duration
}

// Live plays in real time at a rate until it is stopped, whether or not rankings come. A user reacts as long after the ranking as after the
// impression on the players' clock. Its memory is bounded.
type Live struct {
	wire
	opt   LiveOptions
	users Users

	progress LiveProgress
	agenda   simulate.Agenda[Record]
	shown    []shown // by impression number modulo its length
	pace     rate
}

type shown struct {
	number  int
	at      event.Millis // on the players' clock
	sent    time.Time
	waiting bool
}

const (
	// remembered bounds the impressions that wait for a ranking. Older ones are dropped: their user has left.
	remembered = 1 << 16
	// mostScheduled bounds scheduled selections and payoffs: above it no impressions are sent. Reactions to earlier rankings may exceed it.
	mostScheduled = 1 << 17
	beat          = 20 * time.Millisecond
	// lastWrite bounds the wait for unfinished writes at the end.
	lastWrite = 5 * time.Second
)

func NewLive(opt LiveOptions, users Users) *Live {
	return &Live{wire: newWire(opt.Log, opt.Topics), opt: opt, users: users, shown: make([]shown, remembered),
		pace: rate{perSecond: opt.Rate}}
}

// Run plays until ctx is done, which is no error. It reads rankings from their present end. Reactions still to come at the end are not
// sent.
func (l *Live) Run(ctx context.Context) error {
	ends, err := l.rankingsEnds(ctx)
	if err != nil {
		return err
	}
	l.writer = newWriter(l.opt.Transport, l.opt.Brokers)
	defer l.writer.Close()
	reading, stop := context.WithCancel(ctx)
	defer stop()
	var readers errgroup.Group
	for number, end := range ends {
		readers.Go(func() error { return l.read(reading, number, end) })
	}
	err = l.play(ctx)
	stop()
	_ = readers.Wait() // they end with their context
	l.report()
	return err
}

// rankingsEnds returns the ends of the rankings, by partition.
func (l *Live) rankingsEnds(ctx context.Context) ([]int64, error) {
	var ends []int64
	for {
		d, err := l.log.Partition(int32(len(ends))).Describe(ctx)
		if err != nil {
			return nil, fmt.Errorf("asking how far the rankings reach: %w", err)
		}
		facts := d.Topics[event.Rankings]
		if facts.Missing {
			return nil, fmt.Errorf("topic %q does not exist", l.topics[event.Rankings])
		}
		if ends = append(ends, facts.End); len(ends) >= facts.Partitions {
			return ends, nil
		}
	}
}

func (l *Live) play(ctx context.Context) error {
	tick, report := time.NewTicker(beat), time.NewTicker(l.opt.Every)
	defer tick.Stop()
	defer report.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
			if batch := l.due(time.Now()); len(batch) > 0 {
				if err := l.write(ctx, batch); err != nil {
					return err
				}
			}
		case records := <-l.rankings:
			if err := l.ranked(records, time.Now()); err != nil {
				return err
			}
		case <-report.C:
			l.report()
		}
	}
}

// write waits for the acknowledgement, for a moment even after ctx is done, so that all counted records are sent.
func (l *Live) write(ctx context.Context, batch []kafka.Message) error {
	writing, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	defer context.AfterFunc(ctx, func() {
		_ = wait(writing, lastWrite)
		cancel()
	})()
	if err := l.writer.WriteMessages(writing, batch...); err != nil {
		return fmt.Errorf("publishing %d records: %w", len(batch), err)
	}
	return nil
}

func (l *Live) report() {
	l.progress.Scheduled = l.agenda.Len()
	l.opt.Report(l.progress)
}

// due makes the due records.
func (l *Live) due(now time.Time) []kafka.Message {
	var batch []kafka.Message
	n, lost := l.pace.take(now, atOnce)
	if l.agenda.Len() > mostScheduled {
		n, lost = 0, n+lost
	}
	l.progress.HeldBack += lost
	for range n {
		batch = append(batch, l.publish(now))
	}
	for len(batch) < 2*atOnce {
		r, _, ok := l.agenda.Take(now.UnixMilli())
		if !ok {
			break
		}
		if r.Topic == event.Selections {
			l.progress.Selections++
		} else {
			l.progress.Payoffs++
		}
		batch = append(batch, l.response(&r, now.UnixMilli()))
	}
	return batch
}

// publish makes the next impression, and stores it.
func (l *Live) publish(now time.Time) kafka.Message {
	n := l.progress.Impressions
	l.progress.Impressions++
	i, at, along := l.users.Impression(n)
	slot := &l.shown[n%len(l.shown)]
	if slot.waiting {
		l.progress.Forgotten++
	}
	*slot = shown{number: n, at: at, sent: now, waiting: true}
	l.schedule(along, at, now)
	i.Time, i.HasTime = now.UnixMilli(), true
	return l.impression(&i)
}

// schedule schedules the users' reactions after at, a moment of the players' clock that equals now. Without a selections topic, payoffs
// stand for selections.
func (l *Live) schedule(records []Record, at event.Millis, now time.Time) {
	for _, r := range records {
		if l.topics[r.Topic] != "" {
			l.agenda.Add(now.UnixMilli()+r.At-at, r)
		}
	}
}

// ranked lets the users respond to their rankings.
func (l *Live) ranked(records []partition.Record, now time.Time) error {
	dec := event.NewDecoder(event.Limits{})
	for _, m := range records {
		var r event.Ranking
		if err := dec.Ranking(&r, m.Value); err != nil {
			continue // of another writer
		}
		n, ok := l.opt.Number(r.ID)
		if !ok {
			continue
		}
		slot := &l.shown[n%len(l.shown)]
		if slot.number != n || !slot.waiting {
			continue
		}
		slot.waiting = false
		l.progress.Rankings++
		l.progress.Latency += now.Sub(slot.sent)
		then, err := l.users.Respond(n, r.Items)
		if err != nil {
			return fmt.Errorf("responding to the ranking at offset %d: %w", m.Offset, err)
		}
		l.schedule(then, slot.at, now)
	}
	return nil
}

// rate computes how many impressions are due. It drops those that are late by more than a second.
type rate struct {
	perSecond float64
	owed      float64
	last      time.Time
}

// take returns the number due now, at most most, and the number dropped.
func (r *rate) take(now time.Time, most int) (n, lost int) {
	if !r.last.IsZero() {
		r.owed += now.Sub(r.last).Seconds() * r.perSecond
	}
	r.last = now
	n = min(int(r.owed), most)
	r.owed -= float64(n)
	if over := int(r.owed - r.perSecond); over > 0 {
		lost = over
		r.owed -= float64(over)
	}
	return n, lost
}
