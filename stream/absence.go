package stream

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/ranker-worker/ranker-worker/state"
	"github.com/ranker-worker/ranker-worker/stream/partition"
	"github.com/ranker-worker/ranker-worker/stream/task"
)

// absence is the time that a worker stands by.
type absence struct {
	cause       *partition.UnfitError
	began, said time.Duration
	over        chan struct{} // closed when it is time to join again
}

// why says it in plain words.
func (a *absence) why() string {
	return fmt.Sprintf("stands by: other workers of the group have learner %q as it is stored, and take the partitions: %v", a.cause.Learner, a.cause)
}

// StandsBy says in plain words why this worker has left its group for a while; "": it has not.
func (w *Worker) StandsBy() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.away == nil {
		return ""
	}
	return w.away.why()
}

// lookWhetherToStandBy looks at the partitions, and says of this worker what the others have to know.
func (w *Worker) lookWhetherToStandBy(self *state.WorkerInfo) {
	w.mu.Lock()
	shares := make(map[int32]share, len(w.loops))
	for p, l := range w.loops {
		shares[p] = shareOf(l.status.Load())
	}
	w.mu.Unlock()
	w.standby.look(shares)
	self.Refuses, self.StandsBy = w.standby.refuses(), w.standby.away
}

func shareOf(s *task.Status) (one share) {
	switch {
	case s == nil:
		return share{begins: true}
	case s.Phase == task.Acquiring:
		return share{begins: s.Err == nil}
	case s.Phase == task.Stopped:
		errors.As(s.Err, &one.unfit)
		return one
	}
	return share{served: true, used: s.Account != partition.Account{}}
}

// decideWhetherToStandBy takes what all workers say of themselves.
func (w *Worker) decideWhetherToStandBy(self *state.WorkerInfo, all []state.WorkerInfo) {
	now := time.Since(w.start)
	fitting := w.standby.decide(now, all)
	w.mu.Lock()
	defer w.mu.Unlock()
	switch a := w.away; {
	case w.standby.away && a == nil:
		a = w.beginAbsence(now)
		w.opt.Logger.Warn("stands by: leaves the group to workers whose learners are as stored", "learner", a.cause.Learner, "workers", fitting, "error", a.cause)
	case !w.standby.away && a != nil:
		close(a.over)
		w.away = nil
		w.opt.Metrics.StandingBy(false)
		w.opt.Logger.Warn("joins the group again: no worker whose learners are as stored is there any more", "learner", a.cause.Learner,
			"lasted", (now - a.began).Round(time.Second))
	case a != nil && now-a.said >= causeAgain:
		a.said = now
		w.opt.Logger.Warn("stands by still: the learners of other workers are as stored", "learner", a.cause.Learner, "workers", fitting,
			"lasted", (now - a.began).Round(time.Second))
	}
}

// beginAbsence ends the present generation, so that Run goes on with standBy; mu is held.
func (w *Worker) beginAbsence(now time.Duration) *absence {
	a := &absence{cause: w.standby.cause(), began: now, said: now, over: make(chan struct{})}
	w.away, w.leaves = a, a
	w.opt.Metrics.StandingBy(true)
	if w.end != nil {
		w.end()
	}
	return a
}

// standBy leaves the group where that was decided, and returns when it is time to join again, or drain is done.
func (w *Worker) standBy(drain context.Context) {
	w.mu.Lock()
	a := w.leaves
	w.leaves = nil
	w.mu.Unlock()
	if a == nil {
		return
	}
	if err := w.opt.Membership.Leave(); err != nil {
		w.opt.Logger.Warn("the others get this worker's partitions when its session is over", "error", err)
	}
	select {
	case <-a.over:
	case <-drain.Done():
	}
}
