package stream

import (
	"log/slog"
	"maps"
	"regexp"
	"slices"
	"time"

	"github.com/ranker-worker/ranker-worker/stream/event"
	"github.com/ranker-worker/ranker-worker/stream/task"
)

const (
	causesEvery = 250 * time.Millisecond
	// causeGrace is how long a cause has lasted when it is first said. What a broker does in its first second, such as electing
	// leaders, is over by then; and by then all partitions that have the cause show it.
	causeGrace = time.Second
	causeAgain = 30 * time.Second
	// causeOver is how long a cause is not seen when it is over. A stopped partition that tries again has none for a moment.
	causeOver = 5 * time.Second
)

// causeKey tells causes apart. What differs in numbers only, such as partitions, offsets and ports, is one cause.
type causeKey struct {
	reason      task.StopReason // of stopped partitions
	doing, text string
}

// cause is what keeps partitions from working, as last seen.
type cause struct {
	first, last, said time.Duration
	told              bool
	partitions        []int32
	status            task.Status // of the first of them
}

// causes says what keeps a worker's partitions from working: a line for each cause, with its partitions, and again every 30 s while
// it lasts.
type causes struct {
	log    *slog.Logger
	names  [event.Topics]string
	latest bool // a group that has never run begins at the end
	known  map[causeKey]*cause
	begun  map[int32]bool // partitions whose beginning was said
}

func newCauses(log *slog.Logger, names [event.Topics]string, latest bool) *causes {
	return &causes{log: log, names: names, latest: latest, known: map[causeKey]*cause{}, begun: map[int32]bool{}}
}

// look takes the partitions' conditions of a moment, and says what there is to say.
func (c *causes) look(now time.Duration, statuses map[int32]task.Status) {
	seen := map[causeKey][]int32{}
	for _, p := range slices.Sorted(maps.Keys(statuses)) {
		s := statuses[p]
		if s.Err == nil {
			continue
		}
		key := causeOf(&s)
		seen[key] = append(seen[key], p)
	}
	for key, partitions := range seen {
		k := c.known[key]
		if k == nil {
			k = &cause{first: now}
			c.known[key] = k
		}
		k.last, k.partitions, k.status = now, partitions, statuses[partitions[0]]
	}
	for _, key := range slices.SortedFunc(maps.Keys(c.known), func(a, b causeKey) int { return int(c.known[a].first - c.known[b].first) }) {
		c.say(now, key)
	}
	c.sayBeginnings(statuses)
}

// say says one cause, if it is time, or that it is over.
func (c *causes) say(now time.Duration, key causeKey) {
	k := c.known[key]
	s := &k.status
	switch {
	case now-k.last >= causeOver:
		if k.told {
			c.log.Info("over: no partition waits for this any more", "doing", s.Doing, "lasted", (k.last - k.first).Round(time.Second))
		}
		delete(c.known, key)
	case k.last != now || now-k.first < causeGrace || k.told && now-k.said < causeAgain:
	case s.Phase == task.Stopped:
		k.told, k.said = true, now
		c.log.Error("partition stopped", "partitions", k.partitions, "reason", s.Reason, "again", s.Again.Round(time.Second), "error", s.Err)
	default:
		k.told, k.said = true, now
		c.log.Warn("waiting", "partitions", k.partitions, "phase", s.Phase.String(), "doing", s.Doing,
			"lasted", (now - k.first).Round(time.Second), "error", s.Err)
	}
}

// sayBeginnings says where partitions begin to read of which nothing was stored, once that is settled for all that there are.
func (c *causes) sayBeginnings(statuses map[int32]task.Status) {
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

var digits = regexp.MustCompile(`\d+`)

func causeOf(s *task.Status) causeKey {
	return causeKey{reason: s.Reason, doing: digits.ReplaceAllString(s.Doing, "#"), text: digits.ReplaceAllString(s.Err.Error(), "#")}
}
