package stream

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/ranker-worker/ranker-worker/stream/partition"
)

type contextCounters struct {
	clamped *prometheus.CounterVec
	missing *prometheus.CounterVec
	unknown *prometheus.CounterVec
	before  map[learnerKey]partition.ContextStatus
}

func newContextCounters(f factory) contextCounters {
	return contextCounters{
		clamped: f.counters("context_clamped_total", "Numbers of contexts outside the range declared for their feature, which counted as its nearer end.",
			"learner", "feature"),
		missing: f.counters("context_missing_total", "Numbers that contexts lacked, which counted as the middle of their range.", "learner"),
		unknown: f.counters("context_unknown_segments_total", "Impressions of users with an undeclared segment, who counted as in none.", "learner"),
		before:  map[learnerKey]partition.ContextStatus{},
	}
}

// observe counts the increase since the last call.
func (c *contextCounters) observe(k learnerKey, now partition.ContextStatus) {
	if !now.Looks {
		return
	}
	before := c.before[k]
	c.before[k] = now
	c.missing.WithLabelValues(k.learner).Add(float64(increase(before.Missing, now.Missing)))
	c.unknown.WithLabelValues(k.learner).Add(float64(increase(before.UnknownSegments, now.UnknownSegments)))
	for i, f := range now.Clamped {
		var then int64
		if i < len(before.Clamped) && before.Clamped[i].Name == f.Name {
			then = before.Clamped[i].N
		}
		c.clamped.WithLabelValues(k.learner, f.Name).Add(float64(increase(then, f.N)))
	}
}
