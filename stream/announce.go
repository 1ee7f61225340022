package stream

import (
	"context"
	"crypto/rand"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/ranker-worker/ranker-worker/state"
	"github.com/ranker-worker/ranker-worker/stream/partition"
)

const (
	announceEvery   = 5 * time.Second
	announceTimeout = 2 * time.Second
	lookEvery       = time.Second // at what there is to announce
)

// announcer tells the other workers of the group which learners this one is configured with, and finds out which the others
// are. While a configuration is rolled out they differ; what is for a learner that only others know waits for them, see
// task.Elsewhere. A store that does not answer leaves what was last known in place.
//
// It is one goroutine, of Worker.Run; others read elsewhere.
type announcer struct {
	registry state.Registry
	self     state.WorkerInfo
	log      *slog.Logger
	look     func(self *state.WorkerInfo)                         // brings what this worker says up to date; nil: it stays
	heard    func(self *state.WorkerInfo, all []state.WorkerInfo) // takes each answer to what was said; nil: nobody wants it

	elsewhere atomic.Pointer[map[string]bool] // names of learners that this worker does not know
	failing   bool                            // a failure is logged once
	differ    bool                            // some worker has other settings of learners, as was said
}

func newAnnouncer(opt *Options) *announcer {
	self := state.WorkerInfo{ID: rand.Text(), Version: opt.Version, Layout: partition.DecisionLayout, Digest: opt.Digest, Learners: map[string]string{}}
	for _, l := range opt.Machine.Learners {
		self.Learners[l.Name] = l.Fingerprint
	}
	a := &announcer{registry: opt.Registry, self: self, log: opt.Logger}
	a.elsewhere.Store(&map[string]bool{})
	return a
}

// run announces until ctx is done, and withdraws then. announce has been called before.
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
			if a.lookAgain() {
				a.announce(ctx)
			}
		case <-ctx.Done():
			a.withdraw(context.WithoutCancel(ctx))
			return
		}
	}
}

// lookAgain tells whether there is something new to say of this worker.
func (a *announcer) lookAgain() bool {
	if a.look == nil {
		return false
	}
	refuses, standsBy := a.self.Refuses, a.self.StandsBy
	a.look(&a.self)
	return a.self.Refuses != refuses || a.self.StandsBy != standsBy
}

// announce announces once.
func (a *announcer) announce(ctx context.Context) {
	if a.registry == nil {
		return
	}
	a.lookAgain()
	limited, cancel := context.WithTimeout(ctx, announceTimeout)
	defer cancel()
	all, err := a.registry.Announce(limited, a.self)
	if err != nil {
		if !a.failing && ctx.Err() == nil {
			a.log.Warn("workers cannot compare their configurations; what is for a learner that only others know is refused", "error", err)
		}
		a.failing = true
		return
	}
	a.failing = false
	a.compare(all)
	if a.heard != nil {
		a.heard(&a.self, all)
	}
}

// compare compares what the workers of the group say of themselves with this one.
func (a *announcer) compare(all []state.WorkerInfo) {
	a.compareSettings(all)
	elsewhere := map[string]bool{}
	for i := range all {
		for name := range all[i].Learners {
			if _, known := a.self.Learners[name]; !known {
				elsewhere[name] = true
			}
		}
	}
	if maps.Equal(elsewhere, *a.elsewhere.Load()) {
		return
	}
	a.elsewhere.Store(&elsewhere)
	if len(elsewhere) > 0 {
		a.log.Warn("other workers of the group have learners that this one has not; what is for these waits",
			"learners", slices.Sorted(maps.Keys(elsewhere)))
		return
	}
	a.log.Info("no other worker of the group has a learner that this one has not any more")
}

// compareSettings says when workers begin to have other settings of learners than this one, and when all are the same again. Workers of
// versions that do not tell are passed over.
func (a *announcer) compareSettings(all []state.WorkerInfo) {
	others := map[string]int{}
	for i := range all {
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
	if err := a.registry.Withdraw(ctx, a.self.ID); err != nil && !a.failing {
		a.log.Warn("this worker's configuration counts for the others for a while yet", "after", state.WorkerCounts, "error", err)
	}
}
