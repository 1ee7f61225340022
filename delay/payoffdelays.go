package delay

import (
	"github.com/ranker-worker/ranker-worker/delay/history"
	"github.com/ranker-worker/ranker-worker/policy"
)

// PayoffDelays learns the delays of a learner's payoffs from its records, by source, as the learner does with SilenceAges. Items are not kept
// apart, since delays are those of all. Times are event times in milliseconds; those of a source's calls ascend, or count as the last.
type PayoffDelays struct {
	silence Silence
	by      map[int32]*flights
}

// NewPayoffDelays returns an empty PayoffDelays for selections in flight with SilenceAges.
func NewPayoffDelays(s Silence) *PayoffDelays { return &PayoffDelays{s, map[int32]*flights{}} }

// of returns a source's selections in flight as of a time, all as of one item.
func (l *PayoffDelays) of(source int32, at int64) *flights {
	f := l.by[source]
	if f == nil {
		f = newFlights()
		f.silence, f.awaiting = l.silence, newAwaiting(l.silence, &f.column)
		l.by[source] = f
	}
	f.awaiting.reach(at)
	return f
}

// Selected begins a selection at a time.
func (l *PayoffDelays) Selected(source int32, at int64, fb Feedback) {
	f := l.of(source, at)
	fb.Item = policy.Item(0)
	f.begin(&fb)
}

// Paid ends a selection with its only payoff, or takes a partial payoff, as in Learner.Paid and Learner.Partial. Expired ends one without.
func (l *PayoffDelays) Paid(source int32, at int64, fb Feedback) {
	f := l.of(source, at)
	if fb.Item = 0; l.silence.InParts {
		f.awaiting.part(&fb, over(history.PayoffsOf(fb.Payoff), f.silence.Default)-over(fb.previous(), f.silence.Default))
		return
	}
	f.end(&fb, isPaid)
}

func (l *PayoffDelays) Expired(source int32, at int64, fb Feedback) {
	fb.Item, fb.InParts = 0, false
	l.of(source, at).end(&fb, isDropped)
}

// Status returns the status as of a time, by the delays of all sources, and by the time that one of them covers.
func (l *PayoffDelays) Status(source int32, at int64) SilenceStatus {
	own := l.of(source, at)
	global := newAwaiting(l.silence, &newFlights().column)
	for n := range l.by {
		a := l.of(n, at).awaiting
		global.theirs[n] = &sourceAges{ages: a.ages, tick: a.tick, tickRead: true, newest: a.newest}
		global.all = global.all.Add(a.all)
	}
	global.readTicks()
	global.estimate(global.until())
	own.awaiting.global = global
	s := own.status()
	own.awaiting.global = nil
	return s
}
