package stream

import (
	"maps"
	"slices"
	"time"

	"github.com/ranker-worker/ranker-worker/state"
	"github.com/ranker-worker/ranker-worker/stream/partition"
)

const (
	// standbyLinger is how long no worker that fits has been announced when one that stands by joins again: two announcements, so that a
	// worker that is restarted is waited for.
	standbyLinger = 2 * announceEvery
	// standbyPause is how long a worker that has joined again stays at least. It doubles each time, up to standbyLongest, and is the first
	// again for one that has stood by for that long.
	standbyPause   = 10 * time.Second
	standbyLongest = 5 * time.Minute
)

// standby decides whether a worker leaves its group to others, because its learners do not fit what is stored, and when it joins again.
// The rules:
//
//   - it stands by only where at least one of its partitions is stopped for its learners, none begins just now, and it goes on with the
//     state of none: what it can serve it keeps;
//   - and only for a worker that is announced, that has each of its learners as it is stored in every partition that it was refused,
//     and that is not refused anything itself;
//   - it joins again when no such worker has been announced for a while.
//
// Where all that is stored was learned by one configuration, workers that have it are never refused, so that they never stand by and all
// others may. Where partitions were begun by several, two workers can be refused what the other could take. Who is refused says so in an
// announcement before it decides by the answer, and a Registry takes announcements one by one: so of two the later one sees the
// other's, and stays; and the earlier one, when it sees the later one's, joins again. Both say so until they are given partitions that they
// can serve, so that this happens once.
//
// It is pure: times are the worker's.
type standby struct {
	id       string
	learners map[string]string // our fingerprints by name

	refused map[int32]*partition.UnfitError // partitions that we were refused, and why
	ready   bool                            // to leave: the first rule

	away     bool
	left     time.Duration // when
	seen     time.Duration // when a worker that fits was last announced
	pause    time.Duration
	earliest time.Duration // when it may leave again
}

func newStandby(self *state.WorkerInfo) *standby {
	return &standby{id: self.ID, learners: self.Learners, refused: map[int32]*partition.UnfitError{}}
}

// share is one of a worker's partitions, as far as it matters here.
type share struct {
	begins bool                  // it is being taken over, and nothing has failed yet
	served bool                  // it is at work
	used   bool                  // and has read something
	unfit  *partition.UnfitError // it is stopped for its learners; nil: it is not
}

// look takes the partitions at hand, none while it is away or between two generations.
func (s *standby) look(shares map[int32]share) {
	s.ready = false
	served, kept := 0, false
	for p, one := range shares {
		switch {
		case one.unfit != nil:
			s.refused[p], s.ready = one.unfit, true
		case one.served:
			served++
		}
		kept = kept || one.begins || one.used
	}
	s.ready = s.ready && !kept
	if served > 0 && served == len(shares) {
		clear(s.refused)
	}
}

// refuses tells whether we were refused something that we have not been able to make up for.
func (s *standby) refuses() bool { return len(s.refused) > 0 }

// decide takes all workers that are announced, after we were, as look left us, and may change away. It tells how many of them fit.
func (s *standby) decide(now time.Duration, all []state.WorkerInfo) (fitting int) {
	for i := range all {
		if s.fits(&all[i]) {
			fitting++
		}
	}
	switch {
	case s.away && fitting > 0:
		s.seen = now
	case s.away && now-s.seen >= standbyLinger:
		if now-s.left >= standbyLongest {
			s.pause = 0
		}
		s.pause = min(max(2*s.pause, standbyPause), standbyLongest)
		s.away, s.earliest = false, now+s.pause
	case !s.away && s.ready && fitting > 0 && now >= s.earliest:
		s.away, s.left, s.seen = true, now, now
	}
	return fitting
}

// fits tells whether a worker can serve all that we were refused.
func (s *standby) fits(w *state.WorkerInfo) bool {
	if w.ID == s.id || w.Refuses || !s.refuses() {
		return false
	}
	for _, refusal := range s.refused {
		for name, fingerprint := range refusal.Stored {
			theirs, has := w.Learners[name]
			if _, ours := s.learners[name]; has && theirs != fingerprint || !has && ours {
				return false
			}
		}
	}
	return true
}

// cause is why we were refused what we were: of the first partition.
func (s *standby) cause() *partition.UnfitError {
	return s.refused[slices.Min(slices.Collect(maps.Keys(s.refused)))]
}
