package platform

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/segmentio/kafka-go"
	"golang.org/x/sync/errgroup"

	"github.com/ranker-worker/ranker-worker/internal/simulate"
	"github.com/ranker-worker/ranker-worker/stream/broker"
	"github.com/ranker-worker/ranker-worker/stream/event"
	"github.com/ranker-worker/ranker-worker/stream/partition"
)

type Users interface {
	// Impression returns impression n with its candidates and its time on the players' clock, and records that come with it unasked. Times
	// never fall from one n to the next.
	Impression(n int) (i event.Impression, at event.Millis, along []Record)
	Respond(n int, items [][]byte) ([]Record, error)
}

// Record is a selection or a payoff to be sent at a time of the players' clock. Its own time is filled in.
type Record struct {
	At        event.Millis
	Topic     event.Topic // event.Selections or event.Payoffs
	Selection event.Selection
	Payoff    event.Payoff
}

type Options struct {
	Brokers     []string
	Transport   *kafka.Transport // to publish through, closed by its owner; nil: an own one without TLS and SASL
	Log         *broker.Client   // to read rankings with: unlike kafka-go's Reader it hides transactions' markers
	Topics      [event.Topics]string
	Partitions  int
	Impressions int
	Number      func(id []byte) (n int, ok bool) // the impression of an id; ok is false for another play's
	// Unanswered bounds the impressions that wait for their ranking: the users' patience.
	Unanswered int
	// Stamp turns the players' clock into the time that records carry; nil: the same.
	Stamp func(clock event.Millis) event.Millis
	// Progress, if not nil, is called now and then, from Run's goroutine.
	Progress func(Progress)
	// Patience is the time without a ranking after which Run gives up.
	Patience time.Duration
}

// Progress counts the records sent to each topic, and those received.
type Progress struct {
	Impressions, Rankings, Selections, Payoffs int
	Scheduled                                  int // selections and payoffs still to come
	Clock                                      event.Millis
}

// Platform plays once. Clock may be called from any goroutine.
type Platform struct {
	wire
	opt   Options
	users Users
	clock atomic.Int64

	progress Progress
	agenda   simulate.Agenda[Record]
	answered []bool
}

func New(opt Options, users Users) *Platform {
	if opt.Stamp == nil {
		opt.Stamp = func(c event.Millis) event.Millis { return c }
	}
	opt.Unanswered = cmp.Or(opt.Unanswered, 256)
	opt.Patience = cmp.Or(opt.Patience, time.Minute)
	return &Platform{wire: newWire(opt.Log, opt.Topics), opt: opt, users: users, answered: make([]bool, opt.Impressions)}
}

func (p *Platform) Clock() event.Millis { return p.clock.Load() }

// Run plays until every impression is ranked and all reactions have been sent.
func (p *Platform) Run(ctx context.Context) (Progress, error) {
	transport := p.opt.Transport
	if transport == nil {
		transport = &kafka.Transport{}
		defer transport.CloseIdleConnections()
	}
	p.writer = newWriter(transport, p.opt.Brokers)
	defer p.writer.Close()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	group, readCtx := errgroup.WithContext(ctx)
	for n := range p.opt.Partitions {
		group.Go(func() error { return p.read(readCtx, n, 0) })
	}
	err := p.play(readCtx)
	cancel()
	if readErr := group.Wait(); readErr != nil && !errors.Is(readErr, context.Canceled) {
		err = errors.Join(err, readErr)
	}
	p.show(true)
	return p.progress, err
}

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
		if p.progress.Rankings == p.opt.Impressions && p.agenda.Len() == 0 {
			return nil
		}
		if err := p.listen(ctx, len(batch) == 0); err != nil {
			return err
		}
	}
}

// next makes the records of the next moments: impressions within the users' patience, and due reactions. When all impressions are ranked,
// the clock advances stride by stride to the next due record.
func (p *Platform) next() []kafka.Message {
	var batch []kafka.Message
	for p.progress.Impressions < p.opt.Impressions && p.progress.Impressions-p.progress.Rankings < p.opt.Unanswered &&
		len(batch) < atOnce {
		i, at, along := p.users.Impression(p.progress.Impressions)
		p.progress.Impressions++
		p.clock.Store(max(p.clock.Load(), at))
		batch = p.release(batch)
		i.Time, i.HasTime = p.opt.Stamp(at), true
		batch = append(batch, p.impression(&i))
		p.schedule(along)
	}
	if at, ok := p.agenda.Next(); ok && p.progress.Rankings == p.opt.Impressions {
		p.advance(at)
	}
	return p.release(batch)
}

// The clock advances by at most stride at a time, once per pace. A worker that has read a topic to its end takes the clock for that topic's
// time. It must have read the records sent since before a deadline passes.
const (
	stride = 12 * time.Hour
	pace   = 20 * time.Millisecond
)

func (p *Platform) advance(to event.Millis) {
	now := p.clock.Load()
	p.clock.Store(max(now, min(to, now+stride.Milliseconds())))
}

// PassTo advances the clock to a moment, after the play.
func (p *Platform) PassTo(ctx context.Context, to event.Millis) error {
	tick := time.NewTicker(pace)
	defer tick.Stop()
	for p.clock.Load() < to {
		p.advance(to)
		select {
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// release sends the due records.
func (p *Platform) release(batch []kafka.Message) []kafka.Message {
	for len(batch) < 2*atOnce {
		r, at, ok := p.agenda.Take(p.clock.Load())
		if !ok {
			break
		}
		if r.Topic == event.Selections {
			p.progress.Selections++
		} else {
			p.progress.Payoffs++
		}
		batch = append(batch, p.response(&r, p.opt.Stamp(at)))
	}
	return batch
}

func (p *Platform) schedule(records []Record) {
	for _, r := range records {
		p.agenda.Add(r.At, r)
	}
}

// listen reads all available rankings. The reactions to them go out in one batch, whose acknowledgement it waits for. With nothing else to
// do, it waits for rankings, or for the clock's next stride.
func (p *Platform) listen(ctx context.Context, wait bool) error {
	for {
		select {
		case messages := <-p.rankings:
			if err := p.ranked(messages); err != nil {
				return err
			}
			wait = false
			continue
		default:
		}
		break
	}
	if !wait {
		return nil
	}
	answered := p.progress.Rankings == p.opt.Impressions
	patience := p.opt.Patience
	if answered {
		patience = pace
	}
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case messages := <-p.rankings:
		return p.ranked(messages)
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-timer.C:
		if answered {
			return nil
		}
		return fmt.Errorf("no ranking came for %v: %d of %d impressions are answered", p.opt.Patience,
			p.progress.Rankings, p.progress.Impressions)
	}
}

func (p *Platform) ranked(records []partition.Record) error {
	dec := event.NewDecoder(event.Limits{})
	for _, m := range records {
		if m.Value == nil { // an order record
			continue
		}
		var r event.Ranking
		if err := dec.Ranking(&r, m.Value); err != nil {
			return fmt.Errorf("reading the ranking at offset %d: %w", m.Offset, err)
		}
		n, ok := p.opt.Number(r.ID)
		if !ok {
			continue
		}
		if n >= p.progress.Impressions {
			return fmt.Errorf("a ranking names impression %q, which was not made yet", r.ID)
		}
		if p.answered[n] {
			return fmt.Errorf("impression %q was ranked twice", r.ID)
		}
		p.answered[n] = true
		p.progress.Rankings++
		then, err := p.users.Respond(n, r.Items)
		if err != nil {
			return fmt.Errorf("responding to the ranking at offset %d: %w", m.Offset, err)
		}
		p.schedule(then)
	}
	return nil
}

func (p *Platform) show(last bool) {
	p.progress.Scheduled, p.progress.Clock = p.agenda.Len(), p.clock.Load()
	if p.opt.Progress != nil && (last || p.progress.Impressions > 0) {
		p.opt.Progress(p.progress)
	}
}
