package faults

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"golang.org/x/sync/errgroup"

	"github.com/ranker-worker/ranker-worker/internal/deadlines"
	"github.com/ranker-worker/ranker-worker/internal/simulate"
	"github.com/ranker-worker/ranker-worker/stream/event"
)

// Traffic is a platform that never waits for rankings: its users select and pay on their own, so that selections and payoffs
// come early, late, twice and in any order. It has two producers, of which one writes in transactions and aborts some.
type Traffic struct {
	g            *Group
	population   *simulate.Population
	rate         atomic.Int64 // impressions per second
	instructions [2]chan instruction
	held         atomic.Bool // by Hold
	quiet        atomic.Bool // no new impressions are sent
	behind       atomic.Bool // the lag is so large that nothing is sent for now

	Sent      [event.Inputs]atomic.Int64 // acknowledged, aborted ones included
	Aborted   atomic.Int64               // transactions
	Committed atomic.Int64
	Errors    atomic.Int64 // batches that were not acknowledged
}

// instruction asks a producer for something odd with its next batch, once.
type instruction struct {
	make func(rng *rand.Rand, p *producer) []*kgo.Record
	hang time.Duration // how long the transaction stays open
	done chan struct{}
}

func newTraffic(g *Group, seed uint64, rate int) (*Traffic, error) {
	c := simulate.Defaults(seed)
	c.Items, c.Candidates, c.Late = 40, 5, 0
	population, err := simulate.NewPopulation(c)
	if err != nil {
		return nil, err
	}
	t := &Traffic{g: g, population: population, instructions: [2]chan instruction{make(chan instruction), make(chan instruction)}}
	t.rate.Store(int64(rate))
	return t, nil
}

func (t *Traffic) Run(ctx context.Context, seed uint64) error {
	var all errgroup.Group
	for which := range t.instructions {
		p := &producer{t: t, which: which, rng: rand.New(rand.NewPCG(seed, uint64(which))), next: which}
		all.Go(func() error { return p.run(ctx) })
	}
	return all.Wait()
}

// Hold stops all traffic, and returns once pending records are sent.
func (t *Traffic) Hold(ctx context.Context) error {
	t.held.Store(true)
	for which := range t.instructions { // a producer does one thing after the other
		if err := t.instruct(ctx, which, instruction{}); err != nil {
			return fmt.Errorf("hold the traffic: %w", err)
		}
	}
	return nil
}

func (t *Traffic) Go() { t.held.Store(false) }

// instruct lets a producer execute an instruction, and waits for it. which is 1 for the transactional one.
func (t *Traffic) instruct(ctx context.Context, which int, o instruction) error {
	o.done = make(chan struct{})
	select {
	case t.instructions[which] <- o:
	case <-ctx.Done():
		return ctx.Err()
	}
	select {
	case <-o.done:
	case <-ctx.Done():
	}
	return ctx.Err()
}

// producer is one of the two. Its impressions are every other of the population's.
type producer struct {
	t      *Traffic
	which  int
	rng    *rand.Rand
	client *kgo.Client
	next   int
	agenda deadlines.Queue[*kgo.Record]
	last   int // the number of the last impression sent
}

const (
	sendEvery   = 20 * time.Millisecond
	maxBatch    = 4000
	abortShare  = 0.1
	sendTimeout = 40 * time.Second
)

func (p *producer) run(ctx context.Context) error {
	defer func() {
		if p.client != nil {
			p.client.Close()
		}
	}()
	tick := time.NewTicker(sendEvery)
	defer tick.Stop()
	began, made, rate := time.Now(), 0, int64(0)
	for {
		var o *instruction
		select {
		case <-ctx.Done():
			return nil
		case got := <-p.t.instructions[p.which]:
			o = &got
		case <-tick.C:
		}
		now := time.Now()
		if r := p.t.rate.Load(); r != rate {
			began, made, rate = now, 0, r
		}
		due := int(now.Sub(began).Seconds()*float64(rate)/2) - made
		held := p.t.held.Load()
		if held || p.t.quiet.Load() || p.t.behind.Load() {
			began, made, due = now, 0, 0
		}
		if p.t.g.settings.Tidy && p.which == 1 {
			due = 0
		}
		for range min(due, maxBatch/4) {
			p.impression(now.UnixMilli())
			made++
		}
		made += max(0, due-int(10*rate)) // a backlog of more than ten seconds is dropped
		var batch []*kgo.Record
		if !held {
			batch = p.take(now.UnixMilli())
		}
		if o != nil && o.make != nil {
			batch = append(batch, o.make(p.rng, p)...)
		}
		if err := p.send(ctx, batch, o); err != nil && ctx.Err() == nil {
			p.t.Errors.Add(1)
			p.t.g.c.say("a producer restarts: %v", err)
			p.client.Close()
			p.client = nil
		}
		if o != nil {
			close(o.done)
		}
	}
}

func (p *producer) take(now int64) (batch []*kgo.Record) {
	for len(batch) < maxBatch {
		r, _, ok := p.agenda.Take(now)
		if !ok {
			break
		}
		batch = append(batch, r)
	}
	return batch
}

// impression schedules the next impression and its records.
func (p *producer) impression(now int64) {
	k := p.next
	p.next += len(p.t.instructions)
	p.last = k
	im := p.t.population.Impression(k)
	out := event.Impression{ID: []byte(im.ID), HasUtilities: true, Time: now, HasTime: true, Learner: []byte(p.t.g.learner(k))}
	order := make([]int, len(im.Candidates))
	for i, c := range im.Candidates {
		out.Candidates = append(out.Candidates, event.Candidate{Item: []byte(c.Item), Utility: c.Utility})
		order[i] = i
	}
	excluded := p.t.g.rule(&out, k)
	if p.t.g.knows(k) {
		describe(&out, k)
	}
	p.rng.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
	at := now
	if p.rng.IntN(50) == 0 && !p.t.g.settings.Tidy { // comes after the records that follow it
		at += p.rng.Int64N(3000)
	}
	value := event.AppendImpression(nil, &out)
	if excluded {
		value = append(value[:len(value)-1], `,"exclude":["sold-out"]}`...)
	}
	p.agenda.Add(at, p.record(event.Impressions, out.ID, value))
	res := p.t.population.Respond(im, order)
	if res.Selection == nil {
		return
	}
	selected := now + 20 + p.rng.Int64N(2000)
	s := event.Selection{ID: out.ID, Item: []byte(res.Selection.Item), Time: selected, HasTime: true}
	p.agenda.Add(selected, p.record(event.Selections, out.ID, event.AppendSelection(nil, &s)))
	if p.rng.IntN(60) == 0 { // a second click, perhaps on another item
		s.Item = []byte(im.Candidates[p.rng.IntN(len(im.Candidates))].Item)
		p.agenda.Add(selected+p.rng.Int64N(2000), p.record(event.Selections, out.ID, event.AppendSelection(nil, &s)))
	}
	for i, r := range res.Payoffs {
		paid := selected + 50 + p.rng.Int64N(6000)
		switch {
		case p.rng.IntN(40) == 0:
			paid = now + p.rng.Int64N(2000) // perhaps before its selection
		case p.rng.IntN(40) == 0:
			paid += 15_000 + p.rng.Int64N(15_000)
		}
		r := event.Payoff{ID: out.ID, Payoff: r.Value, Time: paid, HasTime: true, Item: []byte(r.Item), EventID: []byte(r.EventID)}
		p.agenda.Add(paid+int64(i), p.record(event.Payoffs, out.ID, event.AppendPayoff(nil, &r)))
	}
}

// rule pins a candidate of every eleventh impression, two of some, beyond the end of some. It adds a candidate to others that is to be
// excluded, and reports whether it has: decoded impressions have no exclusions. Users select none of these.
func (g *Group) rule(out *event.Impression, k int) (excluded bool) {
	if g.settings.Learners != "" {
		return false
	}
	switch k % 11 {
	case 4:
		out.Candidates[k%2].Pin = int32(1 + k%8)
		if k%3 == 0 {
			out.Candidates[2].Pin = int32(2 + k%8)
		}
	case 7:
		out.Candidates = append(out.Candidates, event.Candidate{Item: []byte("sold-out"), Utility: 9})
		return true
	}
	return false
}

// describe sets the context of impression k. Now and then items change their category, and users have an undeclared segment, or none.
func describe(out *event.Impression, k int) {
	out.Context.Features = []float64{float64(k%21)/10 - 1}
	out.Context.Segment = []byte([]string{"new", "loyal", "stranger", ""}[k%4])
	for i := range out.Candidates {
		item := out.Candidates[i].Item
		one := event.CandidateContext{Features: []float64{float64(item[len(item)-1]%8)/4 - 1}, Predicted: math.NaN()}
		if (k+i)%5 != 0 {
			one.Category = []byte{'a' + (item[len(item)-1]+byte(k/20_000))%4}
		}
		out.Context.Candidates = append(out.Context.Candidates, one)
	}
}

func (p *producer) record(t event.Topic, key, value []byte) *kgo.Record {
	return &kgo.Record{Topic: p.t.g.Topics[t], Key: key, Value: value}
}

// send publishes a batch; the transactional producer's, in one transaction.
func (p *producer) send(ctx context.Context, batch []*kgo.Record, o *instruction) error {
	if len(batch) == 0 && (o == nil || o.hang == 0) {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, sendTimeout)
	defer cancel()
	if p.client == nil {
		opts := []kgo.Opt{kgo.ProducerLinger(0), kgo.MaxBufferedRecords(10 * maxBatch)}
		if p.which == 1 {
			opts = append(opts, kgo.TransactionalID(p.t.g.Name+"-upstream-"+strconv.FormatUint(p.rng.Uint64(), 36)),
				kgo.TransactionTimeout(20*time.Second))
		}
		var err error
		if p.client, err = p.t.g.c.client(opts...); err != nil {
			return err
		}
	}
	if p.which == 0 {
		return p.publish(ctx, batch)
	}
	if err := p.client.BeginTransaction(); err != nil {
		return fmt.Errorf("begin a transaction: %w", err)
	}
	err := p.publish(ctx, batch)
	if o != nil {
		pause(ctx, o.hang)
	}
	commit := kgo.TryCommit
	if err != nil || p.rng.Float64() < abortShare {
		commit = kgo.TryAbort
		p.t.Aborted.Add(1)
	} else {
		p.t.Committed.Add(1)
	}
	if endErr := p.client.EndTransaction(ctx, commit); endErr != nil {
		return errors.Join(err, fmt.Errorf("end a transaction: %w", endErr))
	}
	return err
}

func (p *producer) publish(ctx context.Context, batch []*kgo.Record) error {
	if len(batch) == 0 {
		return nil
	}
	var failed error
	for _, r := range p.client.ProduceSync(ctx, batch...) {
		if r.Err != nil {
			failed = r.Err
			continue
		}
		for t := range p.t.Sent {
			if p.t.g.Topics[t] == r.Record.Topic {
				p.t.Sent[t].Add(1)
			}
		}
	}
	if failed != nil {
		return fmt.Errorf("publish %d records: %w", len(batch), failed)
	}
	return nil
}
