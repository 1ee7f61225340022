package stream

import (
	"cmp"
	"context"
	"log/slog"
	"maps"
	"regexp"
	"slices"
	"sync"
	"time"

	"github.com/ranker-worker/ranker-worker/stream/event"
	"github.com/ranker-worker/ranker-worker/stream/task"
)

type waitKind struct {
	message string
	level   slog.Level
	noun    string        // attribute's key for the numbers that wait
	grace   time.Duration // duration before the first message
	over    time.Duration // time without a sighting after which it is over; more than the interval of sightings
}

// waitAgain is the interval of messages about a wait.
const waitAgain = 30 * time.Second

// causeGrace is the grace of partitions' waits. A broker's first second, with its
// elections of leaders, is over by then, and all affected partitions show the cause.
const causeGrace = time.Second

// causeOver is the over of partitions' waits. A stopped partition has no cause for a moment while it retries.
const causeOver = 5 * time.Second

var (
	partitionWaits   = &waitKind{"waiting", slog.LevelWarn, "partitions", causeGrace, causeOver}
	partitionStopped = &waitKind{"partition stopped", slog.LevelError, "partitions", causeGrace, causeOver}
	followerWaits    = &waitKind{"other partitions' statistics cannot be followed; their last ones stay", slog.LevelWarn, "sources", causeGrace, 2 * waitAgain}
	announcerWaits   = &waitKind{"workers cannot compare their configurations; records for a learner that only others have are refused",
		slog.LevelWarn, "", 0, waitAgain}
	membershipWaits = &waitKind{"cannot join the group yet; trying again", slog.LevelWarn, "", 0, 2 * waitAgain}
	workerUnfit     = &waitKind{"stays outside of its group until it is fit to work", slog.LevelWarn, "", 0, 2 * waitAgain}
)

// waitKey identifies a wait. Waits that differ in numbers only, such as partitions, offsets and ports, are one.
type waitKey struct {
	kind        *waitKind
	doing, text string
}

type wait struct {
	first, last, said time.Duration
	logged            bool
	doing             string
}

// waits logs a worker's waits: one line each, with all affected partitions, repeated every 30 s.
type waits struct {
	log *slog.Logger

	mu    sync.Mutex
	known map[waitKey]*wait
}

func newWaits(log *slog.Logger) *waits {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return &waits{log: log, known: map[waitKey]*wait{}}
}

var digits = regexp.MustCompile(`\d+`)

func keyOf(kind *waitKind, doing string, err error) waitKey {
	return waitKey{kind, digits.ReplaceAllString(doing, "#"), digits.ReplaceAllString(err.Error(), "#")}
}

// note records a sighting of a wait, and logs it if due.
func (w *waits) note(now time.Duration, kind *waitKind, doing string, numbers []int32, err error, more ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	key := keyOf(kind, doing, err)
	k := w.known[key]
	if k == nil {
		k = &wait{first: now}
		w.known[key] = k
	}
	k.last, k.doing = now, doing
	if now-k.first < kind.grace || k.logged && now-k.said < waitAgain {
		return
	}
	k.logged, k.said = true, now
	var attrs []any
	if kind.noun != "" {
		attrs = append(attrs, kind.noun, numbers)
	}
	attrs = append(attrs, more...)
	if kind.level < slog.LevelError {
		attrs = append(attrs, "lasted", (now - k.first).Round(time.Second))
	}
	w.log.Log(context.Background(), kind.level, kind.message, append(attrs, "error", err)...)
}

// look logs waits that are over.
func (w *waits) look(now time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	byAge := func(a, b waitKey) int { return cmp.Compare(w.known[a].first, w.known[b].first) }
	for _, key := range slices.SortedFunc(maps.Keys(w.known), byAge) {
		k := w.known[key]
		if now-k.last < key.kind.over {
			continue
		}
		delete(w.known, key)
		if k.logged {
			w.log.Info("over: no wait for this any more", "wait", key.kind.message, "doing", k.doing, "lasted", (k.last - k.first).Round(time.Second))
		}
	}
}

// forget ends all waits of a kind whose end another line reports.
func (w *waits) forget(kind *waitKind) {
	w.mu.Lock()
	defer w.mu.Unlock()
	maps.DeleteFunc(w.known, func(key waitKey, _ *wait) bool { return key.kind == kind })
}

// stallsEvery is the interval at which a worker checks its partitions' waits.
const stallsEvery = 250 * time.Millisecond

// stalls logs why a worker's partitions do not work, and where they begin.
type stalls struct {
	waits  *waits
	log    *slog.Logger
	names  [event.Topics]string
	latest bool           // a new group begins at the end of the inputs
	begun  map[int32]bool // partitions whose beginning was logged
}

func newStalls(w *waits, names [event.Topics]string, latest bool) *stalls {
	return &stalls{waits: w, log: w.log, names: names, latest: latest, begun: map[int32]bool{}}
}

// look logs changes, given the partitions' statuses.
func (c *stalls) look(now time.Duration, statuses map[int32]task.Status) {
	seen := map[waitKey][]int32{}
	var order []waitKey
	for _, p := range slices.Sorted(maps.Keys(statuses)) {
		s := statuses[p]
		if s.Err == nil {
			continue
		}
		key := keyOf(kindOf(&s), doingOf(&s), s.Err)
		if seen[key] == nil {
			order = append(order, key)
		}
		seen[key] = append(seen[key], p)
	}
	for _, key := range order {
		s := statuses[seen[key][0]]
		if s.Phase == task.Stopped {
			c.waits.note(now, partitionStopped, doingOf(&s), seen[key], s.Err, "reason", s.Reason, "again", s.Again.Round(time.Second))
		} else {
			c.waits.note(now, partitionWaits, doingOf(&s), seen[key], s.Err, "phase", s.Phase.String(), "doing", s.Doing)
		}
	}
	c.waits.look(now)
	c.sayBeginnings(statuses)
}

func kindOf(s *task.Status) *waitKind {
	if s.Phase == task.Stopped {
		return partitionStopped
	}
	return partitionWaits
}

// doingOf returns the part of a wait, besides its error, that identifies its cause.
func doingOf(s *task.Status) string {
	if s.Phase == task.Stopped {
		return string(s.Reason)
	}
	return s.Doing
}

// sayBeginnings logs where new partitions begin to read, once that is known for all of them.
func (c *stalls) sayBeginnings(statuses map[int32]task.Status) {
	var begun []int32
	var skipped [event.Inputs]int64
	other := ""
	for p, s := range statuses {
		if s.Phase == task.Acquiring {
			return
		}
		if s.Began && !c.begun[p] {
			begun = append(begun, p)
			for topic, n := range s.Skipped {
				skipped[topic] += n
			}
			if s.RankedBy != "" && !c.latest {
				other = s.RankedBy
			}
		}
	}
	if len(begun) == 0 {
		return
	}
	slices.Sort(begun)
	var counts []any
	for topic, n := range skipped {
		if c.names[topic] != "" {
			counts = append(counts, slog.Int64(c.names[topic], n))
		}
	}
	for _, p := range begun {
		c.begun[p] = true
	}
	c.log.Info("the group has never run in these partitions: it begins where kafka.start says", "partitions", begun,
		slog.Group("skipped", counts...))
	if other != "" {
		c.log.Warn("another group has ranked impressions that this one ranks again; else take kafka.start: latest and a new kafka.group",
			"other", other)
	}
}
