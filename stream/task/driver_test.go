package task

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/ranker-worker/ranker-worker/stream/event"
)

// driver drives one task as its shell does, in simulated time: it is called when a reply comes or when it wanted to be
// called, and at no other time. Every request takes latency; one that hold keeps back is never answered.
type driver struct {
	w        *world
	p        *proc
	latency  time.Duration
	busy     time.Duration // how long a call takes that ends for the sake of fairness
	hold     func(Effect) bool
	holdBack func(Request) bool
	answer   func(Effect) error // an error to answer with, or nil
	shell    func(shell) Shell  // executes requests; nil: the simulation alone
	flying   []driven
	advances int
	wake     time.Duration // when the task wants to be called
}

type driven struct {
	Request
	asked, at time.Duration
}

func newDriver(change func(*Config)) *driver { return newDriverOf(&kinds[0], change) }

func newDriverOf(k *kind, change func(*Config)) *driver {
	w := newWorld(1, func(rng *rand.Rand) Config {
		c := k.simConfig(farAway, rng)
		c.CheckpointInterval = 100 * time.Millisecond
		if change != nil {
			change(&c)
		}
		return c
	})
	d := &driver{w: w, latency: time.Millisecond}
	d.start()
	return d
}

// start lets another process take over from the one before, which is dead.
func (d *driver) start() {
	d.w.procs, d.flying = nil, nil
	d.p = d.w.start()
	d.wake = d.w.mono
}

// run drives until done, and gives up after a time.
func (d *driver) run(within time.Duration, done func() bool) error {
	end := d.w.mono + within
	d.advance()
	for d.w.mono < end {
		if done() {
			return nil
		}
		next := end
		for i := range d.flying {
			next = min(next, d.flying[i].at)
		}
		d.w.pass(max(0, min(next, d.wake)-d.w.mono))
		if d.replies() || d.w.mono >= d.wake {
			d.advance()
		}
	}
	s := d.p.task.Status()
	return fmt.Errorf("not done after %v: %s, %s: %w", within, s.Phase, s.Doing, s.Err)
}

// replies hands over all replies that have come, and reports whether there were any.
func (d *driver) replies() (any bool) {
	due := slices.Clone(d.flying)
	due = slices.DeleteFunc(due, func(f driven) bool { return f.at > d.w.mono })
	d.flying = slices.DeleteFunc(d.flying, func(f driven) bool { return f.at <= d.w.mono })
	for _, f := range due {
		any = d.reply(f) || any
	}
	return any
}

func (d *driver) advance() {
	d.advances++
	requests, wake := d.p.task.Advance(d.w.now(d.p))
	for _, r := range requests {
		if (d.hold == nil || !d.hold(r.Do)) && (d.holdBack == nil || !d.holdBack(r)) {
			d.flying = append(d.flying, driven{r, d.w.mono, d.w.mono + d.latency})
		}
	}
	if wake == 0 {
		d.w.pass(d.busy)
	}
	d.wake = d.w.mono + wake
}

// reply answers a request, but for a fetch that finds nothing: that goes on waiting for as long as it may.
func (d *driver) reply(f driven) bool {
	if d.answer != nil {
		if err := d.answer(f.Do); err != nil {
			d.p.task.Handle(d.w.now(d.p), f.Carry(broken{err}))
			return true
		}
	}
	s := watchful{Shell: shell{d.w, d.p}}
	if d.shell != nil {
		s.Shell = d.shell(shell{d.w, d.p})
	}
	reply := f.Carry(&s)
	if fetch, ok := f.Do.(Fetch); ok && s.empty && d.w.mono-f.asked < fetch.MaxWait {
		f.at = d.w.mono + max(d.latency, time.Millisecond)
		d.flying = append(d.flying, f)
		return false
	}
	d.p.task.Handle(d.w.now(d.p), reply)
	return true
}

// watchful is a shell that reports whether a fetch has found nothing yet.
type watchful struct {
	Shell
	empty bool
}

func (s *watchful) Fetch(e Fetch) (Fetched, error) {
	f, err := s.Shell.Fetch(e)
	s.empty = err == nil && f.Next == e.Offset
	return f, err
}

// idle reports whether everything in the topics is in the store.
func (d *driver) idle() bool {
	return d.p.task.Status().Phase == Running && caughtUp(d.w, d.p) && d.p.task.run.machine != nil && !d.p.task.run.checkpoints.moved
}

// impress appends impressions.
func (d *driver) impress(from, n int, at event.Millis) {
	for i := from; i < from+n; i++ {
		id := fmt.Sprintf("i-%d", i)
		d.w.append(event.Impressions, []byte(id), fmt.Appendf(nil,
			`{"impression_id":"%s","candidates":[{"item":"a","utility":1},{"item":"b","utility":2}]}`, id))
		d.w.inputs[event.Impressions][len(d.w.inputs[event.Impressions])-1].timestamp = at
	}
}
