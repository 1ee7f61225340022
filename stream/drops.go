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

// hourly lets something be said of each learner of a partition once an hour of event time.
type hourly map[string]event.Millis // by learner: when it was said last

// due tells whether it is to be said now, and takes it to be said then.
func (h hourly) due(learner string, watermark event.Millis) bool {
	if last, said := h[learner]; said && watermark < last+warnEvery {
		return false
	}
	h[learner] = watermark
	return true
}

// dropWarnings says for one partition which learners drop what would have told them something.
type dropWarnings struct{ hourly }

func (w dropWarnings) say(log *slog.Logger, s *task.Status) {
	for i := range s.Learners {
		l := &s.Learners[i]
		if l.Gone || !l.Drops.Misleads() || !w.due(l.Name, s.Watermark) {
			continue
		}
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

// misspeltNotes say once in a process, of each topic and field, that records have a field that is misspelt.
type misspeltNotes struct{ said sync.Map }

func (m *misspeltNotes) say(log *slog.Logger, topics [event.Topics]string, misspelt [event.Inputs]event.Misspelling) {
	for topic, found := range misspelt {
		if found.Records == 0 {
			continue
		}
		if _, said := m.said.LoadOrStore([2]string{topics[topic], found.Field}, true); !said {
			log.Warn("records have a field that is ignored, next to one of ours in name, which they lack",
				"topic", topics[topic], "field", found.Field, "meant", found.Meant)
		}
	}
}

// refusedAgain is how long nothing more is said of refusals of one topic for one reason.
const refusedAgain = 30 * time.Second

// refusals say that records are refused, and become dead letters: the first of each topic and reason at once, then one line in 30 s at most.
type refusals struct {
	mu    sync.Mutex
	known map[refusedKey]*refused
}

type refusedKey struct {
	topic  event.Topic
	reason string
}

// refused are the refusals that were not said yet, with the last of them.
type refused struct {
	said      time.Duration
	records   int
	partition int32
	last      task.Refusal
}

// note takes refusals in a partition, and says of those of a new kind.
func (r *refusals) note(log *slog.Logger, names [event.Topics]string, now time.Duration, partition int32, all []task.Refusal) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.known == nil {
		r.known = map[refusedKey]*refused{}
	}
	for i := range all {
		key := refusedKey{all[i].Topic, all[i].Reason}
		k := r.known[key]
		if k == nil {
			k = &refused{said: now - refusedAgain}
			r.known[key] = k
		}
		k.records++
		k.partition, k.last = partition, all[i]
		k.say(log, names, now)
	}
}

// look says what is due.
func (r *refusals) look(log *slog.Logger, names [event.Topics]string, now time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, k := range r.known {
		k.say(log, names, now)
	}
}

func (k *refused) say(log *slog.Logger, names [event.Topics]string, now time.Duration) {
	if k.records == 0 || now-k.said < refusedAgain {
		return
	}
	log.Warn("records are refused, and become dead letters: ranker-worker dlq shows them", "topic", names[k.last.Topic], "reason", k.last.Reason,
		"records", k.records, "partition", k.partition, "offset", k.last.Offset, "detail", k.last.Detail)
	k.said, k.records = now, 0
}
