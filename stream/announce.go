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
	// announcedByAll is how long the store has to have answered all announcements of a worker that joins until it knows all others, even where
	// the store had lost them right before.
	announcedByAll = announceEvery + announceTimeout
	lookEvery      = time.Second // at what there is to announce
)

// announcer tells the other workers of the group which learners this one is configured with, and finds out which the others
// are. While a configuration is rolled out they differ; what is for a learner that only others know waits for them, see
// task.Elsewhere. A store that does not answer leaves what was last known in place. So does one that has forgotten the others, or whose
// clock makes them look old, as after a failover: a worker counts as there until its announcements have not changed for WorkerCounts, in
// time in which this one has been answered. A worker that joins takes each learner for known to others until it has been answered for
// announcedByAll, or for WorkerCounts at most.
//
// run is one goroutine, of Worker.Run, which announces by itself, too; others read elsewhere.
type announcer struct {
	registry state.Registry
	log      *slog.Logger
	waits    *waits
	outside  func() string        // why this worker is outside of the group, "": it is not; nil: it never is
	clock    func() time.Duration // cannot be set

	elsewhere atomic.Pointer[partition.Elsewhere] // learners that this worker does not know

	mu       sync.Mutex // of all below
	self     state.WorkerInfo
	others   map[string]sighting
	answered time.Duration // when the store has answered last
	watched  time.Duration // for how long it has
	differ   bool          // some worker has other settings of learners, as was said
	since    time.Duration // when the first of the latest announcements was answered that all were; negative: the last was not
	partial  bool          // this worker has joined, and may not know all others yet
	until    time.Duration // how long that may last
}

// sighting is another worker as it was announced last.
type sighting struct {
	says    state.WorkerInfo
	changed time.Duration // when its announcement was seen to change last, in time watched
}

func newAnnouncer(opt *Options) *announcer {
	self := state.WorkerInfo{ID: rand.Text(), Version: opt.Version, Layout: task.StateLayout, Digest: opt.Digest, Learners: map[string]string{}}
	for _, l := range opt.Machine.Learners {
		self.Learners[l.Name] = l.Fingerprint
	}
	start := time.Now()
	a := &announcer{registry: opt.Registry, self: self, log: opt.Logger, waits: newWaits(opt.Logger), others: map[string]sighting{}, since: -1,
		clock: func() time.Duration { return time.Since(start) }}
	a.elsewhere.Store(&partition.Elsewhere{})
	return a
}

// run announces until ctx is done, and withdraws then.
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

// news tells whether there is something new to say of this worker, or to learn of the others.
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

// stillPartial tells whether other workers may not have been answered since this one first was; err is that of the last announcement.
func (a *announcer) stillPartial(now time.Duration, err error) bool {
	return now < a.until && !errors.Is(err, state.ErrForbidden) && (a.since < 0 || now-a.since < announcedByAll)
}

// announce announces once.
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
	case ctx.Err() == nil && !a.self.Outside: // else that says it
		a.waits.note(now, announcerWaits, "", nil, err)
	}
}

// compare compares what the workers of the group say of themselves with this one.
func (a *announcer) compare(now time.Duration, all []state.WorkerInfo) {
	a.watched += min(now-a.answered, 2*announceEvery)
	a.answered = now
	a.compareSettings(all)
	for i := range all {
		w := &all[i]
		if was, known := a.others[w.ID]; w.ID != a.self.ID && !(known && was.says.At == w.At) {
			a.others[w.ID] = sighting{*w, a.watched}
		}
	}
	for id, s := range a.others {
		if a.watched-s.changed > state.WorkerCounts {
			delete(a.others, id)
		}
	}
}

// publish gives the partitions the learners of the others.
func (a *announcer) publish() {
	learners := map[string]bool{}
	for _, s := range a.others {
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
		a.log.Warn("other workers of the group have learners that this one has not; what is for these waits",
			"learners", slices.Sorted(maps.Keys(learners)))
	default:
		a.log.Info("no other worker of the group has a learner that this one has not any more")
	}
}

// compareSettings says when workers begin to have other settings of learners than this one, and when all are the same again. Workers of
// versions that do not tell are passed over.
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
