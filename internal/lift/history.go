package lift

import (
	"github.com/ranker-worker/ranker-worker/delay"
	"github.com/ranker-worker/ranker-worker/internal/joinedlog"
	"github.com/ranker-worker/ranker-worker/stream/event"
)

// controlDelays is the distribution of the delays of the control's payoffs, in the experiment and outside of it.
type controlDelays struct {
	late *delay.PayoffDelays
	rows map[int32]fedRow
}

// fedRow is a row whose payoff the control learns from.
type fedRow struct {
	began     event.Millis
	horizon   event.Millis
	partition int32
	selected  bool
	paid      bool    // in part
	worth     float64 // of partial payoffs so far
}

func newControlDelays(s delay.Silence) controlDelays {
	return controlDelays{delay.NewPayoffDelays(s), map[int32]fedRow{}}
}

// feeds accepts a ranking if its payoff is fed to the control: its own, and with shared learning that of any arm.
func (u *Units) feeds(row int32, r *event.Ranking) bool {
	e := u.Experiment
	if u.Silence.Law != delay.SilenceAges {
		return false
	}
	if string(r.Learner) != e.Control && (!u.Shared || r.Decision.Assignment.Experiment != e.Name) {
		return false
	}
	u.rows[row] = fedRow{began: r.Decision.Began, horizon: r.Decision.PayoffDeadline - r.Decision.Began, partition: r.Decision.Partition}
	return true
}

// learn learns from a row's outcome.
func (u *Units) learn(row int32, at event.Millis, how joinedlog.How, raw float64) {
	x, ok := u.rows[row]
	if !ok || u.AsOf != 0 && at > u.AsOf {
		return
	}
	fb := delay.Feedback{Began: x.began, Horizon: x.horizon}
	if how == joinedlog.Unselected {
		delete(u.rows, row)
		return
	}
	if !x.selected { // a payoff may select
		x.selected = true
		u.late.Selected(x.partition, at, fb)
	}
	switch how {
	case joinedlog.Paid:
		fb.Payoff, fb.Age = u.normalise(raw), max(0, at-x.began)
		fb.Before, fb.InParts = x.worth, x.paid
		u.late.Paid(x.partition, at, fb)
		x.worth, x.paid = fb.Payoff, true
	case joinedlog.Unpaid:
		u.late.Expired(x.partition, at, fb)
	}
	u.rows[row] = x
	if how == joinedlog.Unpaid || how == joinedlog.Paid && !u.Experiment.InParts {
		delete(u.rows, row)
	}
}
