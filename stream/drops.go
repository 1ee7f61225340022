package stream

import (
	"log/slog"
	"sync"
	"time"

	"github.com/ranker-worker/ranker-worker/stream/event"
	"github.com/ranker-worker/ranker-worker/stream/partition"
	"github.com/ranker-worker/ranker-worker/stream/task"
)

// warnEvery is how much event time passes between two warnings of one learner.
var warnEvery = time.Hour.Milliseconds()

// dropWarnings says for one partition which learners drop what would have told them something.
type dropWarnings map[string]event.Millis // by learner: event time of the last warning

func (w dropWarnings) say(log *slog.Logger, s *task.Status) {
	for i := range s.Learners {
		l := &s.Learners[i]
		if l.Gone || !l.Drops.Misleads() {
			continue
		}
		if last, said := w[l.Name]; said && s.Watermark < last+warnEvery {
			continue
		}
		w[l.Name] = s.Watermark
		log.Warn("on_expiry: drop drops what would teach: set on_expiry: {default: 0}, then give state rebuild for what was dropped",
			"learner", l.Name, "paid", l.Drops.Paid, "expired", l.Drops.Expired,
			"items", l.Drops.Items, "informative", l.Drops.Informative())
	}
}

// untaughtNotes says once in a process, of each learner, that it has not learned from all that has expired.
type untaughtNotes struct{ said sync.Map }

func (u *untaughtNotes) say(log *slog.Logger, learners []partition.LearnerStatus) {
	for i := range learners {
		l := &learners[i]
		if l.Gone || l.Untaught == 0 {
			continue
		}
		if _, said := u.said.LoadOrStore(l.Name, true); !said {
			log.Info("selections expired without teaching the learner anything: stop the workers and give state rebuild to take them in",
				"learner", l.Name, "selections", l.Untaught)
		}
	}
}
