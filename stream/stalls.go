package stream

import (
	"log/slog"
	"maps"
	"slices"
	"time"

	"github.com/ranker-worker/ranker-worker/stream/event"
	"github.com/ranker-worker/ranker-worker/stream/task"
)

// causesEvery is the interval at which a worker checks its partitions' waits.
const causesEvery = 250 * time.Millisecond

// stalls logs why a worker's partitions do not work, and where they begin.
type stalls struct {
	waits  *waits
	log    *slog.Logger
	names  [event.Topics]string
	latest bool           // a new group begins at the end of the inputs
	begun  map[int32]bool // partitions whose beginning was logged
}

func newCauses(w *waits, names [event.Topics]string, latest bool) *stalls {
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
