package stream

import (
	"log/slog"

	"github.com/ranker-worker/ranker-worker/stream/task"
)

// rangeWarnings warns about a partition's learners whose payoff range is much wider than their payoffs.
type rangeWarnings struct{ hourly }

func (w rangeWarnings) say(log *slog.Logger, s *task.Status) {
	for i := range s.Learners {
		l := &s.Learners[i]
		if l.Gone || !l.Conduct.RangeTooWide() || !w.due(l.Name, s.Watermark) {
			continue
		}
		log.Warn("payoffs span a tenth of payoff_range or less, which slows learning down: set payoff_range to their span, then run "+
			"state reset, since the statistics use the present range",
			"learner", l.Name, "payoffs", l.Conduct.Payoffs, "least", l.Conduct.Least, "most", l.Conduct.Most)
	}
}
