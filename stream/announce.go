package stream

import (
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ranker-worker/ranker-worker/state"
	"github.com/ranker-worker/ranker-worker/stream/partition"
	"github.com/ranker-worker/ranker-worker/stream/task"
)

const (
	announceEvery   = 5 * time.Second
	announceTimeout = 2 * time.Second
	// announcedByAll is how long the store must have answered a joining worker's
	// announcements until it knows all others, even if the store had lost them just before.
	announcedByAll = announceEvery + announceTimeout
	lookEvery      = time.Second // at changes to announce
)

// announcer publishes this worker's learners to the other workers of the group, and reads theirs. They differ during a
// rollout: records for learners that only others have wait (task.Elsewhere). If the store does not answer, or has lost
// the announcements, or its clock makes them look old, as after a failover, the last known ones stay. A worker counts
// until its announcements have not changed for WorkerCounts, in time during which the store answered. A joining worker
// assumes that others have any learner, until it was answered for announcedByAll, or for WorkerCounts at most.
//
// run is one goroutine, of Worker.Run. Other goroutines read elsewhere.
type announcer struct {
	registry state.Registry
	metrics  *Metrics
	log      *slog.Logger
	waits    *waits
	outside  func() string        // why this worker is outside of the group, "": it is a member; nil: it never is outside
	clock    func() time.Duration // monotonic

	elsewhere atomic.Pointer[partition.Elsewhere] // other workers' learners that this worker lacks

	mu       sync.Mutex // guards the fields below
	self     state.WorkerInfo
	others   map[string]sighting
	answered time.Duration // when the store last answered
	watched  time.Duration // total time during which it answered
	differ   bool          // another worker has other settings of learners; logged
	since    time.Duration // time of the first answer since the last failure; negative: the last announcement failed
	partial  bool          // this worker has joined, and may not know all others yet
	until    time.Duration // the latest end of partial
}

type sighting struct {
	says    state.WorkerInfo
	changed time.Duration // time at which it last changed, in terms of watched
}

func newAnnouncer(opt *Options) *announcer {
	self := state.WorkerInfo{ID: rand.Text(), Version: opt.Version, Layout: task.StateLayout, Digest: opt.Digest, Learners: map[string]string{}}
	for _, l := range opt.Machine.Learners {
		self.Learners[l.Name] = l.Fingerprint
	}
	start := time.Now()
	a := &announcer{registry: opt.Registry, metrics: opt.Metrics, self: self, log: opt.Logger, waits: newWaits(opt.Logger), others: map[string]sighting{}, since: -1,
		clock: func() time.Duration { return time.Since(start) }}
	a.elsewhere.Store(&partition.Elsewhere{})
	return a
}

// run announces until ctx is done, and then withdraws.
func (a *announcer) run(ctx context.Context) {
	if a.registry == nil {
		return
	}
	tick, look := time.NewTicker(announceEvery), time.NewTicker(lookEvery)
	defer tick.Stop()
	defer look.Stop()
	for {
		select {
		case <-tick.C:
			a.announce(ctx)
			a.measure(ctx)
		case <-look.C:
			if a.news() {
				a.announce(ctx)
			}
		case <-ctx.Done():
			a.withdraw(context.WithoutCancel(ctx))
			return
		}
	}
}

// news reports whether to announce before the next tick.
func (a *announcer) news() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.outside != nil && a.self.Outside != (a.outside() != "") || a.partial && !a.stillPartial(a.clock(), nil)
}

// join announces a worker that joins the group.
func (a *announcer) join(ctx context.Context) {
	a.mu.Lock()
	a.partial, a.until = a.registry != nil, a.clock()+state.WorkerCounts
	a.mu.Unlock()
	a.announce(ctx)
}

// stillPartial reports whether other workers may be unknown; err is that of the last announcement.
func (a *announcer) stillPartial(now time.Duration, err error) bool {
	return now < a.until && !errors.Is(err, state.ErrForbidden) && (a.since < 0 || now-a.since < announcedByAll)
}

func (a *announcer) announce(ctx context.Context) {
	if a.registry == nil {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.self.Outside = a.outside != nil && a.outside() != ""
	limited, cancel := context.WithTimeout(ctx, announceTimeout)
	defer cancel()
	all, err := a.registry.Announce(limited, a.self)
	now := a.clock()
	switch {
	case err != nil:
		a.since = -1
	case a.since < 0:
		a.since = now
	}
	a.partial = a.partial && a.stillPartial(now, err)
	defer a.publish()
	switch {
	case err == nil:
		a.waits.forget(announcerWaits)
		a.compare(now, all)
	case ctx.Err() == nil && !a.self.Outside: // Outside says it otherwise
		a.waits.note(now, announcerWaits, "", nil, err)
	}
}

// measure sets the metric of the store's memory. After an error the last one stays, and announcements say why.
func (a *announcer) measure(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, announceTimeout)
	defer cancel()
	if share, err := a.registry.MemoryUsed(ctx); err == nil {
		a.metrics.memory.Set(share)
	}
}

// compare compares the announcements of the group's workers with this one.
func (a *announcer) compare(now time.Duration, all []state.WorkerInfo) {
	a.watched += min(now-a.answered, 2*announceEvery)
	a.answered = now
	a.compareSettings(all)
	stored := map[string]bool{}
	for i := range all {
		w := &all[i]
		stored[w.ID] = true
		if was, known := a.others[w.ID]; w.ID != a.self.ID && !(known && was.says.At == w.At) {
			a.others[w.ID] = sighting{*w, a.watched}
		}
	}
	// The store returns a dead worker's announcement for WorkerKept. Until then it is known to be old.
	maps.DeleteFunc(a.others, func(id string, s sighting) bool { return !stored[id] && !a.counts(s) })
}

func (a *announcer) counts(s sighting) bool { return a.watched-s.changed <= state.WorkerCounts }

func (a *announcer) publish() {
	learners := map[string]bool{}
	for _, s := range a.others {
		if !a.counts(s) {
			continue
		}
		for name := range s.says.Learners {
			if _, known := a.self.Learners[name]; !known {
				learners[name] = true
			}
		}
	}
	was := a.elsewhere.Load()
	same := maps.Equal(learners, was.Learners)
	if same && a.partial == was.Partial {
		return
	}
	a.elsewhere.Store(&partition.Elsewhere{Learners: learners, Partial: a.partial})
	switch {
	case same:
	case len(learners) > 0:
		a.log.Warn("other workers of the group have learners that this one lacks; records for them wait",
			"learners", slices.Sorted(maps.Keys(learners)))
	default:
		a.log.Info("this worker has all learners of the group again")
	}
}

// compareSettings logs when workers' settings of learners begin and cease
// to differ from this one's. Workers that announce no settings are ignored.
func (a *announcer) compareSettings(all []state.WorkerInfo) {
	others := map[string]int{}
	self := slices.IndexFunc(all, func(w state.WorkerInfo) bool { return w.ID == a.self.ID })
	for i := range all {
		if self >= 0 && time.Duration(all[self].At-all[i].At)*time.Millisecond > state.WorkerCounts {
			continue // it is gone
		}
		if d := all[i].Digest; d != "" && d != a.self.Digest {
			others[d]++
		}
	}
	differ := a.self.Digest != "" && len(others) > 0
	if differ == a.differ {
		return
	}
	a.differ = differ
	if !differ {
		a.log.Info("all workers of the group have the same settings of learners again", "fingerprint", a.self.Digest)
		return
	}
	a.log.Warn("workers of the group have different settings of learners: end the rollout, or start all with one configuration",
		"fingerprint", a.self.Digest, "others", strings.Join(slices.Sorted(maps.Keys(others)), ","), "workers", len(all))
}

func (a *announcer) withdraw(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, announceTimeout)
	defer cancel()
	if err := a.registry.Withdraw(ctx, a.self.ID); err != nil && (a.outside == nil || a.outside() == "") {
		a.log.Warn("this worker's configuration counts for the others for a while yet", "after", state.WorkerCounts, "error", err)
	}
}
