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

	"github.com/ranker-worker/ranker-worker/internal/deadlines"
	"github.com/ranker-worker/ranker-worker/internal/simulate"
	"github.com/ranker-worker/ranker-worker/stream/broker"
	"github.com/ranker-worker/ranker-worker/stream/event"
	"github.com/ranker-worker/ranker-worker/stream/partition"
)

type Options struct {
	Brokers   []string
	Transport kafka.RoundTripper // to publish through, closed by its owner; nil: an own one without TLS and SASL
	Log       *broker.Client     // to read rankings with: unlike kafka-go's Reader it hides transactions' markers
	Topics    [event.Topics]string
	From      []int64 // offsets of the rankings to read from, by partition
	// Number returns the impression of an id; ok is false for another play's. nil: simulate.ImpressionNumber.
	Number func(id []byte) (n int, ok bool)
	// Progress, if not nil, is called every so often (0: 200 ms), and at the end, from Run's goroutine.
	Progress func(Progress)
	Every    time.Duration

	// Rate, unless 0, is that of impressions a second in real time, whether or not rankings come; the rest is unused then. A user reacts
	// as long after the ranking as after the impression on the players' clock.
	Rate float64

	Impressions int
	// Unanswered bounds the impressions that wait for their ranking: the users' patience.
	Unanswered int
	// Stamp turns the players' clock into the time that records carry; nil: the same.
	Stamp func(clock event.Millis) event.Millis
	// Patience is the time without a ranking after which Run gives up.
	Patience time.Duration
}

// Progress counts the records sent to each topic, and those received.
type Progress struct {
	Impressions, Rankings, Selections, Payoffs int
	Scheduled                                  int // selections and payoffs still to come
	Clock                                      event.Millis
	// Latency is the sum of rankings' latencies, measured from just before their impressions were published.
	Latency time.Duration
	// Forgotten counts impressions whose ranking was given up, since too many came after them.
	Forgotten int
	// HeldBack counts impressions that were not published in time: too much was scheduled, or the brokers were too slow.
	HeldBack int
}

// Platform plays once. Clock may be called from any goroutine.
type Platform struct {
	wire
	opt   Options
	users Users
	clock atomic.Int64 // the players', or the real time

	progress   Progress
	agenda     deadlines.Queue[Record]
	open       map[int]shown // impressions without a ranking
	remembered int           // bounds them; older ones are dropped: their user has left
	lastWrite  time.Duration // bounds the wait for unfinished writes at the end
	rate       rate
}

type shown struct {
	at   event.Millis // on the players' clock
	sent time.Time
}

const (
	// mostRemembered bounds the impressions that wait for a ranking.
	mostRemembered = 1 << 16
	// mostScheduled bounds scheduled selections and payoffs of a play at a rate: above it no impressions are sent. Reactions to earlier
	// rankings may exceed it.
	mostScheduled = 1 << 17
	atOnce        = 500
	lastWrite     = 5 * time.Second
)

func New(opt Options, users Users) *Platform {
	if opt.Stamp == nil {
		opt.Stamp = func(c event.Millis) event.Millis { return c }
	}
	if opt.Number == nil {
		opt.Number = func(id []byte) (int, bool) { return simulate.ImpressionNumber(string(id)) }
	}
	opt.Unanswered = cmp.Or(opt.Unanswered, 256)
	opt.Patience = cmp.Or(opt.Patience, time.Minute)
	opt.Every = cmp.Or(opt.Every, 200*time.Millisecond)
	return &Platform{wire: newWire(opt.Log, opt.Topics), opt: opt, users: users, open: map[int]shown{}, remembered: mostRemembered, lastWrite: lastWrite,
		rate: rate{perSecond: opt.Rate}}
}

func (p *Platform) Clock() event.Millis { return p.clock.Load() }

// Run plays until every impression is ranked and all reactions have been sent. At a rate it plays until ctx is done, which is no error,
// and does not send later reactions.
func (p *Platform) Run(ctx context.Context) (Progress, error) {
	transport := p.opt.Transport
	if transport == nil {
		own := &kafka.Transport{}
		defer own.CloseIdleConnections()
		transport = own
	}
	sending, end := context.WithCancel(context.WithoutCancel(ctx))
	p.writer = newWriter(endable{transport, sending}, p.opt.Brokers)
	defer p.writer.Close()
	defer end()
	reading, cancel := context.WithCancel(ctx)
	defer cancel()
	group, reading := errgroup.WithContext(reading)
	for number, from := range p.opt.From {
		group.Go(func() error { return p.read(reading, number, from) })
	}
	err := p.play(reading)
	cancel()
	if readErr := group.Wait(); ctx.Err() == nil && !errors.Is(readErr, context.Canceled) {
		err = errors.Join(err, readErr)
	}
	p.show()
	return p.progress, err
}

func (p *Platform) atRate() bool { return p.opt.Rate > 0 }

func (p *Platform) play(ctx context.Context) error {
	shown := time.Now()
	for {
		batch := p.next(time.Now())
		if len(batch) > 0 {
			if err := p.write(ctx, batch); err != nil {
				return err
			}
		}
		if time.Since(shown) > p.opt.Every {
			p.show()
			shown = time.Now()
		}
		if p.allRanked() && p.agenda.Len() == 0 {
			return nil
		}
		if err := p.listen(ctx, len(batch) == 0); err != nil {
			if p.atRate() && errors.Is(err, ctx.Err()) {
				return nil
			}
			return err
		}
	}
}

// allRanked is never true at a rate.
func (p *Platform) allRanked() bool { return !p.atRate() && p.progress.Rankings == p.opt.Impressions }

// write waits for the acknowledgement, for a moment even after ctx is done, so that all counted records are sent.
func (p *Platform) write(ctx context.Context, batch []kafka.Message) error {
	writing, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	defer context.AfterFunc(ctx, func() {
		_ = wait(writing, p.lastWrite)
		cancel()
	})()
	if err := p.writer.WriteMessages(writing, batch...); err != nil {
		return fmt.Errorf("publishing %d records: %w", len(batch), err)
	}
	return nil
}

// next makes the records of the next moments: impressions within the users' patience or the rate, and due reactions. When all impressions
// are ranked, the simulated clock advances stride by stride to the next due record.
func (p *Platform) next(now time.Time) []kafka.Message {
	if p.atRate() {
		p.clock.Store(now.UnixMilli())
	}
	var batch []kafka.Message
	for range p.due(now) {
		i, at, along := p.users.Impression(p.progress.Impressions)
		p.open[p.progress.Impressions] = shown{at, now}
		p.progress.Impressions++
		p.forget()
		if !p.atRate() {
			p.clock.Store(max(p.clock.Load(), at))
		}
		batch = p.release(batch)
		i.Time, i.HasTime = p.stamp(at), true
		batch = append(batch, p.impression(&i))
		p.schedule(along, at)
	}
	if at, ok := p.agenda.Next(); ok && p.allRanked() {
		p.advance(at)
	}
	return p.release(batch)
}

// due returns the number of impressions to send now.
func (p *Platform) due(now time.Time) int {
	if !p.atRate() {
		return max(0, min(p.opt.Impressions-p.progress.Impressions, p.opt.Unanswered-len(p.open), atOnce))
	}
	n, lost := p.rate.take(now, atOnce)
	if p.agenda.Len() > mostScheduled {
		n, lost = 0, n+lost
	}
	p.progress.HeldBack += lost
	return n
}

// forget drops the impression that too many came after.
func (p *Platform) forget() {
	oldest := p.progress.Impressions - 1 - p.remembered
	if _, waits := p.open[oldest]; waits {
		delete(p.open, oldest)
		p.progress.Forgotten++
	}
}

// stamp returns the time that a record of a moment carries.
func (p *Platform) stamp(at event.Millis) event.Millis {
	if p.atRate() {
		return p.clock.Load()
	}
	return p.opt.Stamp(at)
}

// The simulated clock advances by at most stride at a time, once per pace. A worker that has read a topic to its end takes the clock for
// that topic's time. It must have read the records sent since before a deadline passes.
const (
	stride = 12 * time.Hour
	pace   = 20 * time.Millisecond
)

func (p *Platform) advance(to event.Millis) {
	now := p.clock.Load()
	p.clock.Store(max(now, min(to, now+stride.Milliseconds())))
}

// PassTo advances the simulated clock to a moment, after the play.
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

// release makes the due records.
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
		batch = append(batch, p.response(&r, p.stamp(at)))
	}
	return batch
}

// schedule schedules reactions to an impression of a moment of the players' clock. At a rate, that moment is the present. Without a
// selections topic, payoffs stand for selections.
func (p *Platform) schedule(records []Record, at event.Millis) {
	var later event.Millis
	if p.atRate() {
		later = p.clock.Load() - at
	}
	for _, r := range records {
		if p.topics[r.Topic] != "" {
			p.agenda.Add(r.At+later, r)
		}
	}
}

// listen reads all available rankings. The reactions to them go out in one batch, whose acknowledgement it waits for. With nothing else to
// do, it waits for rankings, or for the clock's next stride.
func (p *Platform) listen(ctx context.Context, wait bool) error {
	for {
		select {
		case messages := <-p.rankings:
			if err := p.ranked(messages, time.Now()); err != nil {
				return err
			}
			wait = false
			continue
		default:
		}
		break
	}
	if !wait && !p.atRate() {
		return nil
	}
	patience, patient := p.opt.Patience, p.atRate() || p.allRanked()
	if patient {
		patience = pace
	}
	select {
	case messages := <-p.rankings:
		return p.ranked(messages, time.Now())
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(patience):
		if patient {
			return nil
		}
		return fmt.Errorf("no ranking came for %v: %d of %d impressions are answered", p.opt.Patience,
			p.progress.Rankings, p.progress.Impressions)
	}
}

// ranked lets the users respond to their rankings. At a rate, the log may hold rankings of others.
func (p *Platform) ranked(records []partition.Record, now time.Time) error {
	if p.atRate() {
		p.clock.Store(now.UnixMilli())
	}
	dec := event.NewDecoder(event.Limits{})
	for _, m := range records {
		if m.Value == nil { // an order record
			continue
		}
		var r event.Ranking
		if err := dec.Ranking(&r, m.Value); err != nil && p.atRate() {
			continue
		} else if err != nil {
			return fmt.Errorf("reading the ranking at offset %d: %w", m.Offset, err)
		}
		n, ok := p.opt.Number(r.ID)
		if !ok {
			continue
		}
		s, waits := p.open[n]
		switch {
		case waits:
		case p.atRate():
			continue
		case n >= p.progress.Impressions:
			return fmt.Errorf("a ranking names impression %q, which was not made yet", r.ID)
		default:
			return fmt.Errorf("impression %q was ranked twice", r.ID)
		}
		delete(p.open, n)
		p.progress.Rankings++
		p.progress.Latency += now.Sub(s.sent)
		then, err := p.users.Respond(n, r.Items)
		if err != nil {
			return fmt.Errorf("responding to the ranking at offset %d: %w", m.Offset, err)
		}
		p.schedule(then, s.at)
	}
	return nil
}

func (p *Platform) show() {
	p.progress.Scheduled, p.progress.Clock = p.agenda.Len(), p.clock.Load()
	if p.opt.Progress != nil {
		p.opt.Progress(p.progress)
	}
}
