package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/ranker-worker/ranker-worker/internal/platform"
)

const progressEvery = 2 * time.Second

// progress prints a play's progress on standard error. The play's goroutine updates it, another one prints.
type progress struct {
	p     *play
	start time.Time // of the play

	mu    sync.Mutex
	now   platform.Progress
	tally tally
	whole time.Duration // from start to the last ranking; 0 before
}

func (s *progress) begin(p *play) { s.p, s.start = p, time.Now() }

// last is called when the last ranking was read.
func (s *progress) last() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.whole = time.Since(s.start)
}

func (s *progress) update(now platform.Progress) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.now, s.tally = now, s.p.players.tally
}

// run prints a line every two seconds until ctx is done, and one at the end.
func (s *progress) run(ctx context.Context) {
	tick := time.NewTicker(progressEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			s.print()
		case <-ctx.Done():
			s.print()
			return
		}
	}
}

func (s *progress) print() {
	s.mu.Lock()
	defer s.mu.Unlock()
	took := s.whole
	if took == 0 {
		took = time.Since(s.start)
	}
	fmt.Fprintf(s.p.errOut, "%-12s %3.0f %%  ranked %7d  payoffs %7d, to come %6d  mean payoff %.4f (by utility %.4f)  %6.0f/s\n", s.p.policy,
		100*float64(s.now.Rankings)/float64(s.p.opt.impressions), s.now.Rankings, s.now.Payoffs, s.now.Scheduled,
		s.tally.mean(s.tally.payoff), s.tally.mean(s.tally.byUtility),
		float64(s.now.Rankings)/took.Seconds())
}

func (s *progress) rankingTime() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.whole
}
