package partition

import (
	"fmt"

	"github.com/ranker-worker/ranker-worker/delay"
	"github.com/ranker-worker/ranker-worker/stream/event"
	"github.com/ranker-worker/ranker-worker/stream/experiment"
)

// history returns the delays of payoffs that the control has learned. It returns nil, and why, if they do not cover a horizon.
func (x *trial) history() (h *experiment.History, no string) {
	s := x.knowing().delay.Status().Silence
	return historyOf(x.Experiment, x.sums.horizon, &s)
}

// RecordedHistory is the history that a worker has of an experiment's control, from its records as of a time.
func RecordedHistory(x *experiment.Experiment, horizon event.Millis, l *delay.PayoffDelays, at event.Millis) (h *experiment.History, no string) {
	s := l.Status(deciding, at)
	return historyOf(x, horizon, &s)
}

func historyOf(x *experiment.Experiment, horizon event.Millis, s *delay.SilenceStatus) (h *experiment.History, no string) {
	switch {
	case s.Law != delay.SilenceAges:
		no = "has no history of delays: its `silence` is not `ages`"
	case !s.Known || s.Covers < horizon:
		no = "has a history of delays of less than its payoff horizon"
	case s.Returns:
		no = "has payoffs that were taken back, so that nothing more is no bound"
	default:
		return experiment.HistoryOf(x.LagHorizon(horizon), s.Delays.By), ""
	}
	return nil, fmt.Sprintf("learner %s %s", x.Control, no)
}
