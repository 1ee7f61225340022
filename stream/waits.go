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
)

// waitKind is a kind of wait: how it is said.
type waitKind struct {
	message string
	level   slog.Level
	noun    string        // what the numbers are that wait, as the key of an attribute
	grace   time.Duration // how long it has lasted when it is first said
	over    time.Duration // how long it is not seen when it is over; above the time between two sights of it
}

// waitAgain is how long nothing more is said of a wait.
const waitAgain = 30 * time.Second

// causeGrace is the grace of what partitions wait for. What a broker does in its first second, such as electing leaders, is over by
// then; and by then all partitions that have the cause show it.
const causeGrace = time.Second

// causeOver is how long a partition's cause is not seen when it is over. A stopped partition that tries again has none for a moment.
const causeOver = 5 * time.Second

var (
	partitionWaits   = &waitKind{"waiting", slog.LevelWarn, "partitions", causeGrace, causeOver}
	partitionStopped = &waitKind{"partition stopped", slog.LevelError, "partitions", causeGrace, causeOver}
	followerWaits    = &waitKind{"other partitions' statistics cannot be followed; their last ones stay", slog.LevelWarn, "sources", causeGrace, 2 * waitAgain}
	announcerWaits   = &waitKind{"workers cannot compare their configurations; what is for a learner that only others know is refused",
		slog.LevelWarn, "", 0, waitAgain}
	membershipWaits = &waitKind{"cannot join the group yet; trying again", slog.LevelWarn, "", 0, 2 * waitAgain}
	workerUnfit     = &waitKind{"stays outside of its group until it is fit to work", slog.LevelWarn, "", 0, 2 * waitAgain}
)

// waitKey tells waits apart. What differs in numbers only, such as partitions, offsets and ports, is one wait.
type waitKey struct {
	kind        *waitKind
	doing, text string
}

// wait is one as last seen.
type wait struct {
	first, last, said time.Duration
	told              bool
	doing             string
}

// waits say what a worker waits for: a line for each wait, with all partitions that it keeps, and again every 30 s while it lasts.
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

// note takes a wait that is seen now, with the numbers that it keeps, and says it if it is time.
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
	if now-k.first < kind.grace || k.told && now-k.said < waitAgain {
		return
	}
	k.told, k.said = true, now
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

// look says which waits are over.
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
		if k.told {
			w.log.Info("over: nothing waits for this any more", "wait", key.kind.message, "doing", k.doing, "lasted", (k.last - k.first).Round(time.Second))
		}
	}
}

// forget ends all waits of a kind, of which another line says that they are over.
func (w *waits) forget(kind *waitKind) {
	w.mu.Lock()
	defer w.mu.Unlock()
	maps.DeleteFunc(w.known, func(key waitKey, _ *wait) bool { return key.kind == kind })
}
