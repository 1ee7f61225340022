package stream

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/ranker-worker/ranker-worker/state"
	"github.com/ranker-worker/ranker-worker/stream/partition"
	"github.com/ranker-worker/ranker-worker/stream/task"
)

const (
	fitTimeout   = 15 * time.Second // bounds one look whether the worker is fit
	fitPause     = 500 * time.Millisecond
	fitLongest   = 10 * time.Second // fitPause doubles up to it; a store that is back is noticed within it
	fitLookEvery = 2 * time.Second  // at a member some of whose partitions are not served
)

// How long a member may be unfit, with partitions that it does not serve, before it leaves the group.
const (
	// unfitOwn is for what only this worker need have: credentials, rights, learners. It holds where none of its partitions is at work, so that
	// leaving takes nothing. It is longer than a secret takes to be replaced in a file, and as long as a rebalance at most.
	unfitOwn = 15 * time.Second
	// unfitOutage is for all else: a store that cannot be reached, is loading or is full. Who is cut off alone cannot tell that from an
	// outage that all share, so it is twice as long as a partition is ranked without the store. Whoever shares the outage ranks nothing any
	// more when the first leaves, but what came after half of the time had passed.
	unfitOutage = 2 * time.Minute
)

// checkFit tells why this worker could not work on the partitions of its group; nil: it could. The topics are known.
func (w *Worker) checkFit(ctx context.Context) error {
	n := w.partitions()
	if err := w.opt.Store.Fit(ctx, n); err != nil {
		return err
	}
	var unfit error
	for p := range int32(n) {
		fields, err := w.opt.Store.Load(ctx, p, nil)
		if errors.Is(err, state.ErrNoState) || errors.Is(err, state.ErrIncomplete) {
			continue // the task that takes it over says what there is to say
		}
		if err != nil {
			return fmt.Errorf("reading which learners are stored: %w", err)
		}
		refusal, err := partition.Unfit(w.opt.Machine.Learners, fields)
		switch {
		case err != nil:
			continue // likewise
		case refusal == nil:
			return nil // there is something that it can serve
		case unfit == nil:
			unfit = refusal
		}
	}
	return unfit
}

// awaitFit returns once the worker is fit to work and may join the group, or with the end of drain. It fails where topics to be read do
// not exist at the start.
func (w *Worker) awaitFit(drain context.Context) error {
	for pause := fitPause; ; pause = min(2*pause, fitLongest) {
		if err := w.opt.Membership.Look(drain); err != nil {
			return err
		}
		err := w.missing(drain)
		if err == nil { // before anything of the stored state but its version is read
			err = upgrade(drain, &w.opt, upgrades, task.StateLayout, w.partitions())
		}
		if err == nil {
			err = w.lookWhetherFit(drain)
		}
		if drain.Err() != nil {
			return drain.Err()
		}
		w.stayOutside(err, pause)
		if err == nil {
			return nil
		}
		select {
		case <-time.After(pause):
		case <-drain.Done():
			return drain.Err()
		}
	}
}

func (w *Worker) lookWhetherFit(ctx context.Context) error {
	limited, cancel := context.WithTimeout(ctx, fitTimeout)
	defer cancel()
	return w.checkFit(limited)
}

// missing names topics that do not exist, those that are written to included.
func (w *Worker) missing(ctx context.Context) error {
	if w.opt.Missing == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, fitTimeout)
	defer cancel()
	names, err := w.opt.Missing(ctx)
	if err != nil {
		return fmt.Errorf("looking for topics: %w", err)
	}
	if len(names) > 0 {
		return fmt.Errorf("%w: %s; make them with `ranker-worker topics --create`", ErrTopicMissing, strings.Join(names, ", "))
	}
	return nil
}

// stayOutside notes why the worker stays outside of its group, or with nil that it may join.
func (w *Worker) stayOutside(err error, pause time.Duration) {
	w.mu.Lock()
	was := w.outside
	w.outside, w.again, w.leaving = err, pause, false
	w.mu.Unlock()
	w.opt.Metrics.Unfit(err != nil)
	switch {
	case err != nil:
		now := time.Since(w.start)
		w.waits.note(now, workerUnfit, "", nil, err)
		w.waits.look(now)
	case was != nil:
		w.waits.forget(workerUnfit)
		w.opt.Logger.Info("fit to work: joins the group")
	}
}

// Outside says in plain words why this worker stays outside of its group; "": it does not.
func (w *Worker) Outside() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.whyOutside()
}

// whyOutside is Outside; mu is held.
func (w *Worker) whyOutside() string {
	if w.outside == nil {
		return ""
	}
	return fmt.Sprintf("stays outside of group %s until it is fit to work: %v; it looks again every %v", w.opt.Group, w.outside, w.again)
}

// share is how a member serves its partitions.
type share struct {
	works    bool // one at least is at work
	unserved bool // one at least is not: it is being taken over and that has failed, has stopped, or waits for room in the store
}

func shareOf(statuses map[int32]task.Status) (s share) {
	for p := range statuses {
		switch one := statuses[p]; {
		case one.Phase == task.Acquiring && one.Err == nil:
		case one.Phase == task.Acquiring || one.Phase == task.Stopped || one.Full:
			s.unserved = true
		default:
			s.works = true
		}
	}
	return s
}

// fitness decides whether a member leaves its group. Where all that it owns is served, its store does not matter: rankings need none. It is
// pure: times are the worker's.
type fitness struct {
	unfit bool
	since time.Duration // when it began
}

// leaves takes how the partitions are served, and why the worker is unfit, nil where it is not or nobody has looked.
func (f *fitness) leaves(now time.Duration, s share, err error) bool {
	if !s.unserved || err == nil {
		f.unfit = false
		return false
	}
	if !f.unfit {
		f.unfit, f.since = true, now
	}
	var learner *partition.UnfitError
	limit := unfitOutage
	if !s.works && (errors.Is(err, state.ErrForbidden) || errors.As(err, &learner)) {
		limit = unfitOwn
	}
	return now-f.since >= limit
}

// guard looks, while the worker is a member, whether it is still fit to work, until ctx is done.
func (w *Worker) guard(ctx context.Context) {
	var f fitness
	tick := time.NewTicker(fitLookEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		s := shareOf(w.Statuses())
		var err error
		if s.unserved {
			err = w.lookWhetherFit(ctx)
		}
		if ctx.Err() == nil && f.leaves(time.Since(w.start), s, err) {
			f = fitness{}
			w.leave(err)
		}
	}
}

// leave ends the present generation, so that Run leaves the group.
func (w *Worker) leave(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.end == nil {
		return
	}
	w.opt.Logger.Warn("not fit to work any more: leaves the group", "error", err)
	w.outside, w.again, w.leaving = err, fitPause, true
	w.end()
}

// leftGroup leaves the group where that was decided, and tells whether it was.
func (w *Worker) leftGroup() bool {
	w.mu.Lock()
	leaving := w.leaving
	w.mu.Unlock()
	if !leaving {
		return false
	}
	if err := w.opt.Membership.Leave(); err != nil {
		w.opt.Logger.Warn("the others get this worker's partitions when its session is over", "error", err)
	}
	return true
}
