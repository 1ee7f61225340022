// Package platform plays the platform around a worker, over a real wire: it publishes impressions, reads the rankings,
// and gives back what the users do with them: selections soon, payoffs late. The demo and the examples share it.
package platform

import (
	"cmp"
	"container/heap"
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/segmentio/kafka-go"
	"golang.org/x/sync/errgroup"

	"github.com/ranker-worker/ranker-worker/stream/event"
)

// Users are what stands outside the worker: who looks at lists, selects, and pays later.
type Users interface {
	// Impression fills in learner, candidates and utilities of impression n; its slices stay valid until the next call.
	Impression(n int, into *event.Impression)
	// React tells what the user of impression n does with the ranking: at most one selection, any number of payoffs.
	React(n int, items [][]byte) Reaction
}

// Reaction is what one user does. Times are in milliseconds after the impression.
type Reaction struct {
	Item       []byte // selected; nil: nothing
	After      int64
	Payoffs    []Payoff
	Selections int // how often the selection is sent; 0 counts as 1
}

// Payoff is one payoff record to come.
type Payoff struct {
	After   int64
	Value   float64
	EventID string
}

// Options say what is played, and where.
type Options struct {
	Brokers     []string
	Topics      [event.Topics]string
	Partitions  int
	Impressions int
	Prefix      string        // of impression ids
	Start       event.Millis  // the clock at the first impression
	Gap         time.Duration // of the clock, between two impressions
	// Unanswered bounds how many impressions may wait for their ranking: the users' patience.
	Unanswered int
	// Stamp turns the players' clock into the time that records carry; nil: the same.
	Stamp func(clock event.Millis) event.Millis
	// Progress is called now and then, from Run's goroutine; nil: not at all.
	Progress func(Progress)
	// Patience is how long no ranking may come before Run gives up.
	Patience time.Duration
}

// Progress is how far the play has come: what was sent to each topic and what came back.
type Progress struct {
	Impressions, Rankings, Selections, Payoffs int
	Scheduled                                  int // selections and payoffs still to come
	Clock                                      event.Millis
}

// Platform plays once. Clock may be called at any time, from any goroutine.
type Platform struct {
	opt   Options
	users Users
	clock atomic.Int64

	progress Progress
	due      schedule
	order    int
	at       []event.Millis // clock of each impression
	answered []bool
	writer   *kafka.Writer
	rankings chan []kafka.Message
}

// New makes a platform; Run plays it.
func New(opt Options, users Users) *Platform {
	if opt.Stamp == nil {
		opt.Stamp = func(c event.Millis) event.Millis { return c }
	}
	opt.Unanswered = cmp.Or(opt.Unanswered, 256)
	opt.Patience = cmp.Or(opt.Patience, time.Minute)
	p := &Platform{opt: opt, users: users, at: make([]event.Millis, opt.Impressions),
		answered: make([]bool, opt.Impressions), rankings: make(chan []kafka.Message, 16)}
	p.clock.Store(opt.Start)
	return p
}

// Clock is the players' present.
func (p *Platform) Clock() event.Millis { return p.clock.Load() }

// Run plays until every impression is ranked and everything the users do has been sent.
func (p *Platform) Run(ctx context.Context) (Progress, error) {
	p.writer = &kafka.Writer{Addr: kafka.TCP(p.opt.Brokers...), Balancer: kafka.Murmur2Balancer{}, BatchSize: 1000,
		BatchTimeout: time.Millisecond, RequiredAcks: kafka.RequireAll, WriteTimeout: 10 * time.Second, MaxAttempts: 10}
	defer p.writer.Close()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	group, readCtx := errgroup.WithContext(ctx)
	for n := range p.opt.Partitions {
		group.Go(func() error { return p.read(readCtx, n) })
	}
	err := p.play(readCtx)
	cancel()
	if readErr := group.Wait(); readErr != nil && !errors.Is(readErr, context.Canceled) {
		err = errors.Join(err, readErr)
	}
	p.show(true)
	return p.progress, err
}

// atOnce bounds one batch of records.
const atOnce = 500

func (p *Platform) play(ctx context.Context) error {
	shown := time.Now()
	for {
		batch := p.next()
		if len(batch) > 0 {
			if err := p.writer.WriteMessages(ctx, batch...); err != nil {
				return fmt.Errorf("publishing %d records: %w", len(batch), err)
			}
		}
		if time.Since(shown) > 200*time.Millisecond {
			p.show(false)
			shown = time.Now()
		}
		if p.progress.Rankings == p.opt.Impressions && len(p.due) == 0 {
			return nil
		}
		if err := p.listen(ctx, len(batch) == 0); err != nil {
			return err
		}
	}
}

// next makes the records of the next moment: impressions while the users' patience lasts, and what has become due.
// When all impressions are ranked the clock goes on to whatever comes next.
func (p *Platform) next() []kafka.Message {
	var batch []kafka.Message
	for p.progress.Impressions < p.opt.Impressions && p.progress.Impressions-p.progress.Rankings < p.opt.Unanswered &&
		len(batch) < atOnce {
		batch = append(batch, p.impression())
		p.clock.Add(p.opt.Gap.Milliseconds())
		batch = p.release(batch)
	}
	if p.progress.Rankings == p.opt.Impressions && len(p.due) > 0 {
		p.clock.Store(max(p.clock.Load(), p.due[0].at))
	}
	return p.release(batch)
}

func (p *Platform) release(batch []kafka.Message) []kafka.Message {
	for len(p.due) > 0 && p.due[0].at <= p.clock.Load() && len(batch) < 2*atOnce {
		d := heap.Pop(&p.due).(due)
		batch = append(batch, p.message(d.topic, d.key, d.value(p.opt.Stamp(d.at)), d.at))
		if d.topic == event.Selections {
			p.progress.Selections++
		} else {
			p.progress.Payoffs++
		}
	}
	return batch
}

func (p *Platform) message(t event.Topic, key, value []byte, at event.Millis) kafka.Message {
	return kafka.Message{Topic: p.opt.Topics[t], Key: key, Value: value, Time: time.UnixMilli(p.opt.Stamp(at))}
}

func (p *Platform) impression() kafka.Message {
	n := p.progress.Impressions
	p.progress.Impressions++
	at := p.clock.Load()
	p.at[n] = at
	var i event.Impression
	p.users.Impression(n, &i)
	i.ID = p.id(n)
	i.Time, i.HasTime = p.opt.Stamp(at), true
	return p.message(event.Impressions, i.ID, event.AppendImpression(nil, &i), at)
}

func (p *Platform) id(n int) []byte {
	return strconv.AppendInt([]byte(p.opt.Prefix), int64(n), 10)
}

// listen takes rankings, waiting for some where there is nothing else to do.
func (p *Platform) listen(ctx context.Context, wait bool) error {
	var patience <-chan time.Time
	if wait && p.progress.Rankings < p.opt.Impressions {
		timer := time.NewTimer(p.opt.Patience)
		defer timer.Stop()
		patience = timer.C
	} else {
		ready := make(chan time.Time)
		close(ready)
		patience = ready
	}
	select {
	case messages := <-p.rankings:
		return p.ranked(messages)
	default:
	}
	select {
	case messages := <-p.rankings:
		return p.ranked(messages)
	case <-ctx.Done():
		return context.Cause(ctx)
	case _, waited := <-patience:
		if waited {
			return fmt.Errorf("no ranking came for %v: %d of %d impressions are answered", p.opt.Patience,
				p.progress.Rankings, p.progress.Impressions)
		}
		return nil
	}
}

func (p *Platform) ranked(messages []kafka.Message) error {
	dec := event.NewDecoder(event.Limits{})
	for _, m := range messages {
		var r event.Ranking
		if err := dec.Ranking(&r, m.Value); err != nil {
			return fmt.Errorf("reading the ranking at %s[%d]:%d: %w", m.Topic, m.Partition, m.Offset, err)
		}
		if len(r.ID) <= len(p.opt.Prefix) || string(r.ID[:len(p.opt.Prefix)]) != p.opt.Prefix {
			continue // another play's
		}
		n, err := strconv.Atoi(string(r.ID[len(p.opt.Prefix):]))
		if err != nil || n < 0 || n >= p.progress.Impressions {
			return fmt.Errorf("a ranking names impression %q, which was never made", r.ID)
		}
		if p.answered[n] {
			return fmt.Errorf("impression %q was ranked twice", r.ID)
		}
		p.answered[n] = true
		p.progress.Rankings++
		p.react(n, p.users.React(n, r.Items))
	}
	return nil
}

func (p *Platform) react(n int, r Reaction) {
	id, now := p.id(n), p.clock.Load()
	if r.Item == nil {
		return
	}
	item := append([]byte(nil), r.Item...)
	for range max(1, r.Selections) {
		p.schedule(event.Selections, id, max(now, p.at[n]+r.After), func(at event.Millis) []byte {
			return event.AppendSelection(nil, &event.Selection{ID: id, Item: item, Time: at, HasTime: true})
		})
	}
	for _, pay := range r.Payoffs {
		p.schedule(event.Payoffs, id, max(now, p.at[n]+pay.After), func(at event.Millis) []byte {
			return event.AppendPayoff(nil, &event.Payoff{ID: id, Payoff: pay.Value, Time: at, HasTime: true,
				EventID: []byte(pay.EventID)})
		})
	}
}

func (p *Platform) schedule(t event.Topic, key []byte, at event.Millis, value func(event.Millis) []byte) {
	p.order++
	heap.Push(&p.due, due{topic: t, key: key, at: at, order: p.order, value: value})
}

func (p *Platform) show(last bool) {
	p.progress.Scheduled, p.progress.Clock = len(p.due), p.clock.Load()
	if p.opt.Progress != nil && (last || p.progress.Impressions > 0) {
		p.opt.Progress(p.progress)
	}
}

// read follows one partition of the rankings from where it ended when the play began.
func (p *Platform) read(ctx context.Context, partition int) error {
	r := kafka.NewReader(kafka.ReaderConfig{Brokers: p.opt.Brokers, Topic: p.opt.Topics[event.Rankings],
		Partition: partition, MinBytes: 1, MaxBytes: 4 << 20, MaxWait: 100 * time.Millisecond, QueueCapacity: 4 * atOnce,
		Dialer: &kafka.Dialer{Timeout: 10 * time.Second, Resolver: net.DefaultResolver}})
	defer r.Close()
	for {
		m, err := r.ReadMessage(ctx)
		if err != nil {
			return fmt.Errorf("reading rankings of partition %d: %w", partition, err)
		}
		messages := []kafka.Message{m}
		for r.Stats().QueueLength > 0 && len(messages) < atOnce {
			if m, err = r.ReadMessage(ctx); err != nil {
				return fmt.Errorf("reading rankings of partition %d: %w", partition, err)
			}
			messages = append(messages, m)
		}
		select {
		case p.rankings <- messages:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// due is a record to be sent at a time of the players' clock.
type due struct {
	topic event.Topic
	key   []byte
	at    event.Millis
	order int
	value func(at event.Millis) []byte
}

// schedule is a heap of what is due, in order of time.
type schedule []due

func (s schedule) Len() int { return len(s) }
func (s schedule) Less(i, j int) bool {
	return s[i].at < s[j].at || s[i].at == s[j].at && s[i].order < s[j].order
}
func (s schedule) Swap(i, j int) { s[i], s[j] = s[j], s[i] }
func (s *schedule) Push(x any)   { *s = append(*s, x.(due)) }
func (s *schedule) Pop() any {
	old := *s
	d := old[len(old)-1]
	old[len(old)-1] = due{}
	*s = old[:len(old)-1]
	return d
}
