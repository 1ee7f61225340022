package stream

import (
	"iter"
	"log/slog"
	"sync"
	"time"

	"github.com/ranker-worker/ranker-worker/stream/event"
	"github.com/ranker-worker/ranker-worker/stream/partition"
	"github.com/ranker-worker/ranker-worker/stream/task"
)

// warnEvery is the event time between two warnings about one learner, in milliseconds.
var warnEvery = time.Hour.Milliseconds()

// hourly limits messages about each learner to one per hour of event time.
type hourly map[string]event.Millis // by learner: time of the last message

// due reports whether a message is due, and notes it.
func (h hourly) due(learner string, watermark event.Millis) bool {
	if last, said := h[learner]; said && watermark < last+warnEvery {
		return false
	}
	h[learner] = watermark
	return true
}

// faulty iterates over a partition's learners that have a fault of which a message is due.
func (h hourly) faulty(s *task.Status, has func(*partition.LearnerStatus) bool) iter.Seq[*partition.LearnerStatus] {
	return func(yield func(*partition.LearnerStatus) bool) {
		for i := range s.Learners {
			if l := &s.Learners[i]; !l.Gone && has(l) && h.due(l.Name, s.Watermark) && !yield(l) {
				return
			}
		}
	}
}

// dropWarnings warns about a partition's learners whose dropped selections are informative.
type dropWarnings struct{ hourly }

func (w dropWarnings) say(log *slog.Logger, s *task.Status) {
	for l := range w.faulty(s, func(l *partition.LearnerStatus) bool { return l.Drops.Misleads() }) {
		log.Warn("on_expiry: drop loses information: set on_expiry: {default: 0}, then run state rebuild --replace for the dropped selections",
			"learner", l.Name, "paid", l.Drops.Paid, "expired", l.Drops.Expired,
			"items", l.Drops.Items, "informative", l.Drops.Informative())
	}
}

// untaughtNotes logs, once per process and learner, that expired selections did not teach it.
type untaughtNotes struct{ said sync.Map }

func (u *untaughtNotes) say(log *slog.Logger, learners []partition.LearnerStatus) {
	for i := range learners {
		l := &learners[i]
		if l.Gone || l.Untaught == 0 {
			continue
		}
		if _, said := u.said.LoadOrStore(l.Name, true); !said {
			log.Info("selections expired without teaching the learner: stop the workers and run state rebuild --replace to include them",
				"learner", l.Name, "selections", l.Untaught)
		}
	}
}

// misspeltNotes logs, once per process, topic and field, that records have a misspelt field.
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

// refusedAgain is the least time between two messages about a topic and reason.
const refusedAgain = 30 * time.Second

// refusals logs refused records, which become dead letters: the first of each topic and reason at once, then at most one line in 30 s.
type refusals struct {
	mu    sync.Mutex
	known map[refusedKey]*refused
}

type refusedKey struct {
	topic  event.Topic
	reason string
}

// refused counts refusals since the last message.
type refused struct {
	said      time.Duration
	records   int
	partition int32
	last      task.Refusal
}

// note counts a partition's refusals, and logs those of a new kind.
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

// rangeWarnings warns about a partition's learners whose payoff range is much wider than their payoffs.
type rangeWarnings struct{ hourly }

func (w rangeWarnings) say(log *slog.Logger, s *task.Status) {
	for l := range w.faulty(s, func(l *partition.LearnerStatus) bool { return l.UserModel.RangeTooWide() }) {
		raw := func(x float64) float64 { return l.PayoffMin + x*(l.PayoffMax-l.PayoffMin) }
		log.Warn("payoffs span a tenth of payoff_range or less, which slows learning down: set a narrower one, and run state reset",
			"learner", l.Name, "payoffs", l.UserModel.Payoffs, "least", raw(l.UserModel.Least), "most", raw(l.UserModel.Most))
	}
}
