package faults

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ranker-worker/ranker-worker/stream/event"
)

type Options struct {
	Duration time.Duration // of the faults; checks come on top
	Seed     uint64
	Rate     int           // the most impressions per second; 0: 1,500
	Pace     time.Duration // mean time between two faults; 0: 300 ms, which lets hardly anything through
	// Match selects kinds; nil: all.
	Match func(kind string) bool
	// Each plays every kind by itself, with all checks after it, instead of a mix for Duration.
	Each bool
	// Quick waits as little as possible within a fault.
	Quick bool
	// CheckEvery is the interval of interruptions of a mix for all checks; 0: two minutes.
	CheckEvery time.Duration
	Partitions int // 0: 4
	Workers    int // 0: 3
	Say        func(format string, args ...any)
}

type Result struct {
	Seed       uint64
	Took       time.Duration
	Injected   map[string]int // by kind
	Unfit      map[string]int // by kind: could not be injected, mostly since the step did not come
	Read       [event.Topics]int64
	Sent       [event.Inputs]int64
	Aborted    int64
	Account    map[string]int64
	Checks     int   // with all faults healed and all records processed
	Beside     int   // while faults were on
	Ruled      int64 // rankings under pins and caps, in the largest check
	Resident   int64 // the most memory of a worker, in bytes
	Restarts   int
	Violations []string
}

func (r *Result) Faults() (n int) {
	for _, k := range r.Injected {
		n += k
	}
	return n
}

type soak struct {
	opt   Options
	c     *Cluster
	g     *Group
	rng   *rand.Rand
	free  chan *Worker
	kinds []Fault

	faults sync.WaitGroup
	apart  sync.WaitGroup // those that checks do not wait for
	based  atomic.Int64   // bases taken
	mu     sync.Mutex     // guards the fields below
	deck   *deck
	result Result
}

// Soak injects faults into a group of workers under traffic, and checks that they keep
// the laws. An error means that the soak itself failed; violations are in the result.
func (c *Cluster) Soak(ctx context.Context, opt Options) (Result, error) {
	s := &soak{opt: opt, c: c, rng: rand.New(rand.NewPCG(opt.Seed, 0))}
	s.defaults()
	began := time.Now()
	err := s.run(ctx)
	s.result.Took = time.Since(began)
	return s.result, err
}

func (s *soak) defaults() {
	o := &s.opt
	def := func(v *int, d int) {
		if *v == 0 {
			*v = d
		}
	}
	def(&o.Rate, 1500)
	def(&o.Partitions, 4)
	def(&o.Workers, 3)
	if o.CheckEvery == 0 {
		o.CheckEvery = 2 * time.Minute
	}
	if o.Pace == 0 {
		o.Pace = 300 * time.Millisecond
	}
	if o.Say == nil {
		o.Say = func(string, ...any) {}
	}
	for _, f := range Faults() {
		if f.Least > 0 {
			f.Takes = max(f.Least, min(f.Takes, o.Duration/4*3))
		}
		switch {
		case o.Match != nil && !o.Match(f.Kind):
		case !o.Each && f.Takes > o.Duration/5*4:
			o.Say("left out, since it takes %v: %s", f.Takes, f.Kind)
		default:
			s.kinds = append(s.kinds, f)
		}
	}
	s.deck = newDeck(s.kinds, rand.New(rand.NewPCG(o.Seed, 1)))
	s.result = Result{Seed: o.Seed, Injected: map[string]int{}, Unfit: map[string]int{}}
	for _, f := range s.kinds {
		s.result.Injected[f.Kind] = 0
	}
}

func (s *soak) run(ctx context.Context) error {
	var err error
	name := fmt.Sprintf("soak-%x", s.opt.Seed)
	s.g, err = s.c.NewGroup(ctx, name, Settings{Partitions: s.opt.Partitions, Workers: s.opt.Workers, Seed: s.opt.Seed, Rate: s.opt.Rate})
	if err != nil {
		return err
	}
	s.free = make(chan *Worker, len(s.g.Slots))
	for _, w := range s.g.Slots {
		if err := w.Start(); err != nil {
			return errors.Join(err, s.g.Close())
		}
		s.free <- w
	}
	if err := s.g.Slots[0].AwaitReady(ctx); err != nil {
		return errors.Join(err, s.g.Close())
	}
	playing, stop := context.WithCancel(ctx)
	var beside sync.WaitGroup
	beside.Go(func() {
		if err := s.g.Traffic.Run(playing, s.opt.Seed); err != nil {
			s.violate("traffic: %v", err)
		}
	})
	beside.Go(func() { s.g.follow(playing, int64(40*s.opt.Rate)) })
	beside.Go(func() { s.watchMemory(playing) })
	beside.Go(func() { s.checkBeside(playing) })
	beside.Go(func() { s.watchTime(playing) })
	bases := filepath.Join(s.c.dir, name+"-bases")
	beside.Go(func() { s.takeBases(playing, bases) })
	if s.opt.Each {
		err = s.one(ctx)
	} else {
		err = s.mix(ctx)
	}
	s.faults.Wait()
	if err == nil {
		err = s.g.Traffic.Hold(ctx) // faults that are left, apart, are several times as fast without it
	}
	s.apart.Wait()
	if err == nil {
		err = s.check(ctx)
	}
	if err == nil && (s.opt.Each || s.opt.Duration >= s.deck.round()) {
		s.requireAll()
	}
	if err == nil {
		err = s.replay(ctx, bases)
	}
	stop()
	beside.Wait()
	if err == nil && !s.opt.Each && s.opt.Duration >= besideLeast && s.result.Beside == 0 {
		s.violate("no check succeeded while faults were on")
	}
	s.finish(ctx)
	return errors.Join(err, s.g.Close())
}

// requireAll makes each kind that never happened a violation.
func (s *soak) requireAll() {
	for _, f := range s.kinds {
		if s.result.Injected[f.Kind] == 0 {
			s.violate("this never happened, though there was time for it: %s; it was tried in vain %d times", f.Kind, s.result.Unfit[f.Kind])
		}
	}
}

func (s *soak) finish(ctx context.Context) {
	r := &s.result
	for t := range r.Sent {
		r.Sent[t] = s.g.Traffic.Sent[t].Load()
	}
	r.Aborted = s.g.Traffic.Aborted.Load()
	r.Restarts = s.g.restarted()
	if account, err := s.g.Account(ctx); err == nil {
		r.Account = account
	}
}

// replay computes all rankings again, and then those behind the first base: behind a loss of state, only later bases make a replay exact.
func (s *soak) replay(ctx context.Context, bases string) error {
	for _, from := range []string{"", bases} {
		if from != "" && s.based.Load() == 0 {
			break // there was no time for one
		}
		began := time.Now()
		r, different, err := s.g.Replay(ctx, from)
		if err != nil {
			return err
		}
		for _, v := range different {
			s.violate("%s", v)
		}
		if n := s.result.Read[event.Rankings]; from == "" && r.Rankings < n { // traffic goes on after the check
			s.violate("replay: %d rankings were read, and %d or more are in the log", r.Rankings, n)
		}
		s.opt.Say("replayed: %s, %.1f s", &r, time.Since(began).Seconds())
	}
	return nil
}

// basesEvery is the interval of bases. Faults that lose state come about as often.
const basesEvery = 30 * time.Second

// takeBases takes bases under faults.
func (s *soak) takeBases(ctx context.Context, dir string) {
	for pause(ctx, basesEvery); ctx.Err() == nil; pause(ctx, basesEvery) {
		if err := s.g.takeBase(ctx, filepath.Join(dir, fmt.Sprintf("%04d", s.based.Load()))); err != nil {
			s.opt.Say("no base: %s", strings.ReplaceAll(err.Error(), "\n", "; "))
			continue
		}
		s.based.Add(1)
	}
}

func (s *soak) one(ctx context.Context) error {
	for _, f := range s.kinds {
		s.inject(ctx, f, s.rng.Uint64())
		if err := s.check(ctx); err != nil {
			return fmt.Errorf("after %s: %w", f.Kind, err)
		}
	}
	return nil
}

// mix injects faults as the deck deals them, several at a time.
func (s *soak) mix(ctx context.Context) error {
	end := time.Now().Add(s.opt.Duration)
	checkAt := time.Now().Add(s.opt.CheckEvery)
	for {
		now := time.Now()
		if now.After(end) || ctx.Err() != nil {
			return ctx.Err()
		}
		if now.After(checkAt) && end.Sub(now) > s.opt.CheckEvery/2 {
			s.faults.Wait()
			paused := time.Now()
			if err := s.check(ctx); err != nil {
				return err
			}
			end = end.Add(time.Since(paused)) // checks do not use up the faults' time
			checkAt = time.Now().Add(max(s.opt.CheckEvery, besideShare/2*time.Since(paused)))
		}
		if f, ok := s.deal(time.Until(end)); ok {
			seed := s.rng.Uint64()
			group := &s.faults
			if f.isApart() {
				group = &s.apart
			}
			group.Go(func() { s.giveBack(&f, s.inject(ctx, f, seed)) })
		}
		pause(ctx, time.Duration(float64(s.opt.Pace)*2*s.rng.Float64()))
	}
}

func (s *soak) deal(left time.Duration) (Fault, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.deck.deal(left)
}

func (s *soak) giveBack(f *Fault, happened bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.deck.giveBack(f, happened)
}

// faultTimeout bounds one fault, with its recovery, on a busy machine.
const faultTimeout = 3 * time.Minute

// inject injects a fault, and reports whether it happened.
func (s *soak) inject(ctx context.Context, f Fault, seed uint64) bool {
	ctx, cancel := context.WithTimeout(ctx, max(faultTimeout, 3*f.Takes))
	defer cancel()
	began := time.Now()
	scene := &Scene{Group: s.g, rng: rand.New(rand.NewPCG(seed, 1)), takes: f.Takes, quick: s.opt.Quick, alone: s.opt.Each, free: s.free}
	err := script(ctx, func() { f.Inject(ctx, scene) })
	s.opt.Say("%-55s %6.1f s%s", f.Kind, time.Since(began).Seconds(), suffix(err))
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case errors.Is(err, errNotNow):
		s.result.Unfit[f.Kind]++
	case err != nil:
		s.result.Violations = append(s.result.Violations, fmt.Sprintf("%s: %v", f.Kind, err))
	default:
		s.result.Injected[f.Kind]++
	}
	return !errors.Is(err, errNotNow)
}

func suffix(err error) string {
	if err == nil {
		return ""
	}
	return ": " + strings.ReplaceAll(err.Error(), "\n", "; ")
}

// settlePatience is how long the group may take to catch up after faults.
const settlePatience = 4 * time.Minute

// check heals everything, holds the traffic, lets the group settle, and checks all laws.
func (s *soak) check(ctx context.Context) error {
	if err := s.c.Heal(ctx); err != nil {
		return fmt.Errorf("bring everything back: %w", err)
	}
	defer s.g.Traffic.Go()
	if err := s.g.Traffic.Hold(ctx); err != nil {
		return err
	}
	if err := s.g.Settle(ctx, settlePatience); err != nil {
		if ctx.Err() != nil {
			return err
		}
		s.violate("%v", err)
		return nil
	}
	began := time.Now()
	found, read, err := s.g.Laws(ctx)
	if err != nil {
		return fmt.Errorf("check the laws: %w", err)
	}
	differences, err := s.g.Check(ctx)
	if err != nil {
		return err
	}
	found = append(found, differences...)
	for _, v := range found {
		s.violate("%s", v)
	}
	s.result.Read, s.result.Ruled = read, s.g.ruled.Load()
	s.result.Checks++
	s.opt.Say("checked: %d records, %d violations so far, %.1f s", read[0]+read[1]+read[2]+read[3], len(s.result.Violations), time.Since(began).Seconds())
	return nil
}

// besideEvery is the least interval of checks under faults. Each reads the
// topics from their start; besideShare leaves most of the time to the workers.
const (
	besideEvery = 20 * time.Second
	besideShare = 10
	besideLeast = 5 * time.Minute // of a soak in which one of them succeeds
)

// checkBeside compares the state with the topics under faults. A transient failure to read is ignored.
func (s *soak) checkBeside(ctx context.Context) {
	var took time.Duration
	for pause(ctx, besideEvery); ctx.Err() == nil; pause(ctx, max(besideEvery, besideShare*took)) {
		began, zombies := time.Now(), s.c.zombies.Load()
		found, err := s.g.Check(ctx)
		took = time.Since(began)
		if s.c.hungSince(zombies) {
			s.opt.Say("not checked beside: a broker that hung may have reported an old end")
			continue
		}
		if err != nil {
			s.opt.Say("not checked beside: %s", strings.ReplaceAll(err.Error(), "\n", "; "))
			continue
		}
		for _, v := range found {
			s.violate("while faults are on: %s", v)
		}
		s.mu.Lock()
		s.result.Beside++
		s.mu.Unlock()
	}
}

func (s *soak) violate(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	text := fmt.Sprintf(format, args...)
	s.opt.Say("VIOLATION: %s", text)
	if len(s.result.Violations) < 100 {
		s.result.Violations = append(s.result.Violations, text)
	}
}

func (s *soak) watchMemory(ctx context.Context) {
	every(ctx, time.Second, func() {
		for _, w := range s.g.Slots {
			s.result.Resident = max(s.result.Resident, w.Resident())
		}
	})
}

func (r *Result) Print(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "\n%-55s %8s %8s\n", "fault", "injected", "unfit")
	kinds := maps.Clone(r.Injected)
	for kind := range r.Unfit {
		kinds[kind] += 0
	}
	unfit, happened := 0, 0
	for _, kind := range slices.Sorted(maps.Keys(kinds)) {
		fmt.Fprintf(&b, "%-55s %8d %8d\n", kind, r.Injected[kind], r.Unfit[kind])
		unfit += r.Unfit[kind]
		happened += min(1, r.Injected[kind])
	}
	fmt.Fprintf(&b, "%-55s %8d %8d\n\n", fmt.Sprintf("%d of %d kinds", happened, len(kinds)), r.Faults(), unfit)
	fmt.Fprintf(&b, "%-12s %12s %12s\n", "topic", "sent", "in the log")
	for t, role := range roles {
		fmt.Fprintf(&b, "%-12s %12d %12d\n", role, r.Sent[t], r.Read[t])
	}
	fmt.Fprintf(&b, "%-12s %12s %12d\n", "rankings", "", r.Read[len(roles)])
	fmt.Fprintf(&b, "%d records in, %d transactions upstream aborted\n\naccount\n", r.Read[0]+r.Read[1]+r.Read[2], r.Aborted)
	for _, name := range slices.Sorted(maps.Keys(r.Account)) {
		fmt.Fprintf(&b, "  %-26s %12d\n", name, r.Account[name])
	}
	fmt.Fprintf(&b, "\nworkers started again %d times, at most %d MiB each; %d checks, and %d while faults were on; %d rankings under pins and caps; %v; seed %d\n",
		r.Restarts, r.Resident>>20, r.Checks, r.Beside, r.Ruled, r.Took.Round(time.Second), r.Seed)
	for _, v := range r.Violations {
		fmt.Fprintf(&b, "violation: %s\n", v)
	}
	fmt.Fprintf(&b, "violations: %d\n", len(r.Violations))
	_, err := io.WriteString(w, b.String())
	return err
}
