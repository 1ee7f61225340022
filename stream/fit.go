package stream

import (
	"cmp"
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
	fitTimeout   = 15 * time.Second // bounds one fitness check
	fitPause     = 500 * time.Millisecond
	fitLongest   = 10 * time.Second // the longest fitPause, which doubles; a store that is back is noticed within it
	fitLookEvery = 2 * time.Second  // interval of checks while some of a member's partitions are not served
)

// How long a member with unserved partitions may be unfit before it leaves the group.
const (
	// unfitOwn is for faults that may be this worker's own: credentials, rights, learners. It applies if none of its partitions
	// works, so leaving costs nothing. It exceeds the time to replace a secret in a file, and is at most as long as a rebalance.
	unfitOwn = 15 * time.Second
	// unfitOutage is for other faults: the store cannot be reached, is loading, or is full. A worker that
	// is cut off alone cannot distinguish this from an outage of all, so the time is twice as long as a partition
	// ranks without the store. In an outage of all nothing is ranked any more when the first worker leaves.
	unfitOutage = 2 * time.Minute
)

// checkFit returns why this worker could not serve the partitions of its group; nil if it could. The topics are known.
func (w *Worker) checkFit(ctx context.Context) error {
	n := w.partitions()
	if err := w.opt.Store.Fit(ctx, n); err != nil {
		return err
	}
	var unfit error
	var hashes []string
	if len(w.opt.Machine.Experiments) > 0 {
		hashes = []string{partition.ExperimentsHash}
	}
	for p := range int32(n) {
		_, fields, err := w.opt.Store.View(ctx, p, hashes) // atomic: another worker may change the partition
		if errors.Is(err, state.ErrNoState) || errors.Is(err, state.ErrIncomplete) {
			continue // the task that takes it over reports why
		}
		if err != nil { // of this one's server, or while its slot moves
			unfit = cmp.Or(unfit, fmt.Errorf("reading which learners are stored: %w", err))
			continue
		}
		refusal, err := partition.Unfit(w.opt.Machine.Learners, w.opt.Machine.Experiments, fields)
		switch {
		case err != nil:
			continue // likewise
		case refusal == nil:
			return nil // it can serve this one
		case unfit == nil:
			unfit = refusal
		}
	}
	return unfit
}

// awaitFit returns once the worker is fit and may join the group, or when drain ends. It fails if input topics do not exist at the start.
func (w *Worker) awaitFit(drain context.Context) error {
	for pause := fitPause; ; pause = min(2*pause, fitLongest) {
		if err := w.opt.Membership.Look(drain); err != nil {
			return err
		}
		err := w.missing(drain)
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

// missing returns an error with the names of missing topics, output topics included.
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

// stayOutside records and logs why the worker stays outside of its group; with nil, that it may join.
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

// Outside returns why this worker stays outside of its group; "" if it does not.
func (w *Worker) Outside() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.whyOutside()
}

// whyOutside is Outside with mu held.
func (w *Worker) whyOutside() string {
	if w.outside == nil {
		return ""
	}
	return fmt.Sprintf("stays outside of group %s until it is fit to work: %v; it looks again every %v", w.opt.Group, w.outside, w.again)
}

// share describes how a member serves its partitions.
type share struct {
	works    bool // at least one works
	unserved bool // at least one does not: its take-over failed, it has stopped, or it waits for room in the store
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

// fitness decides when a member leaves its group. While all its partitions are served,
// the store does not matter: rankings do not need it. It is pure: times are the worker's.
type fitness struct {
	unfit bool
	since time.Duration // when it became unfit
}

// leaves reports whether to leave, given the partitions' service and the fitness error, nil if fit or not checked.
func (f *fitness) leaves(now time.Duration, s share, err error) bool {
	switch {
	case !s.unserved && !s.works: // between two generations nothing is known; frequent rebalances must not keep an unfit member
		return false
	case !s.unserved || err == nil:
		f.unfit = false
		return false
	}
	if !f.unfit {
		f.unfit, f.since = true, now
	}
	limit := unfitOutage
	if !s.works && (errors.Is(err, state.ErrForbidden) || errors.Is(err, partition.ErrLearner) || errors.Is(err, partition.ErrExperiment)) {
		limit = unfitOwn
	}
	return now-f.since >= limit
}

// guard checks, while the worker is a member, that it is still fit, until ctx is done.
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

// leave ends the generation, so that Run leaves the group.
func (w *Worker) leave(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.end == nil {
		return
	}
	w.opt.Logger.Warn("no longer fit to work: leaves the group", "error", err)
	w.outside, w.again, w.leaving = err, fitPause, true
	w.end()
}

// leftGroup leaves the group if that was decided, and reports whether it did.
func (w *Worker) leftGroup(force context.Context) bool {
	w.mu.Lock()
	leaving := w.leaving
	w.mu.Unlock()
	if !leaving {
		return false
	}
	w.noteLeft(w.opt.Membership.Leave(force))
	return true
}

func (w *Worker) noteLeft(err error) {
	if err != nil {
		w.opt.Logger.Warn("the others get this worker's partitions when its session is over", "error", err)
	}
}
