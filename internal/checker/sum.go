package checker

import (
	"fmt"
	"math"

	"github.com/ranker-worker/ranker-worker/stream/event"
)

// maxEventsPerID is how many event ids are kept of one impression.
const maxEventsPerID = 1000

// adding is a sum of payoffs as far as it is known: those that certainly count, and those that may.
type adding struct {
	sum    float64
	count  int64
	lo, hi float64 // of what may be added
	open   int64
	events map[uint64]answer
}

// addUp goes through the payoffs where all up to the deadline count, each event id once.
func (r *resolution) addUp(records []record) {
	a := adding{events: map[uint64]answer{}}
	for i := range records {
		rec := &records[i]
		rec.fate = r.addOne(&a, rec) | r.orphaned(rec) | r.forgotten(rec)
	}
	f, e := r.f, r.stored
	if e != nil && e.kind == pending {
		f.count(event.Impressions, isPending)
		r.compareSum(&a, e)
		return
	}
	r.endSum(&a)
}

func (r *resolution) addOne(a *adding, rec *record) fate {
	always, bySelection := r.contradicts(rec)
	t := r.inTime(rec, r.l.payDeadline, r.applyWatermark(rec))
	if r.joined == maybe && r.l.hasSelection {
		t = min(t, maybe)
	}
	var may fate
	if r.mayContradict(rec) {
		t, may = min(t, maybe), isRejected
	}
	switch {
	case always || bySelection:
		may |= isRejected
		if !r.never() {
			may |= isLate
		}
		return may
	case r.joined == no:
		return r.unselectedPayoff(rec, t)
	case t == no:
		return may | isLate
	}
	if rec.event != 0 {
		if a.events[rec.event] == yes {
			if t == maybe {
				may |= isLate
			}
			return may | isDuplicate
		}
		if a.events[rec.event] == maybe {
			may |= isDuplicate
			t = maybe
		}
		if len(a.events) >= maxEventsPerID {
			may |= isRejected
			t = maybe
		}
		a.events[rec.event] = max(a.events[rec.event], t)
	}
	if !r.l.hasSelection {
		t = r.selectBy(rec, t)
	}
	if t == yes {
		a.sum += rec.value
		a.count++
		r.applied = yes
		return isTaken
	}
	a.lo += math.Min(rec.value, 0)
	a.hi += math.Max(rec.value, 0)
	a.open++
	r.applied = max(r.applied, maybe)
	may |= isTaken | isLate
	if r.joined == maybe && r.l.hasSelection || r.never() {
		may |= isParked | isOrphan
	}
	if !r.l.hasSelection {
		may |= isRejected
	}
	return may
}

// selectBy makes a payoff's item the selection, where there is no selections topic: the first to count does.
func (r *resolution) selectBy(rec *record, t answer) answer {
	switch {
	case r.itemSure:
		return t
	case t == yes && r.applied == no:
		r.item, r.itemSure, r.joined = rec.item, true, yes
		return yes
	}
	r.item = noItem
	return maybe
}

// compareSum compares the sum so far of a pending impression.
func (r *resolution) compareSum(a *adding, e *entry) {
	ok := e.count >= a.count && e.count <= a.count+a.open && atLeast(e.sum, a.sum+a.lo, e.count) && atLeast(a.sum+a.hi, e.sum, e.count)
	if !r.f.out.ok(entriesPayoff, ok) {
		r.f.out.breach(entriesPayoff, r.id, fmt.Sprintf("%d to %d payoffs, sum within %v and %v", a.count, a.count+a.open, a.sum+a.lo, a.sum+a.hi),
			fmt.Sprintf("%d payoffs, sum %v", e.count, e.sum))
	}
}

// atLeast tells whether a is not below b, but for the rounding of sums of n terms.
func atLeast(a, b float64, n int64) bool { return a >= b || near(a, b, n) }

// endSum says how an impression has ended whose payoffs were added up, and what its learner was fed.
func (r *resolution) endSum(a *adding) {
	f, e := r.f, r.stored
	if e == nil {
		r.feedSum(a, r.applied)
		r.forgottenEnd()
		return
	}
	possible := e.outcome == paid && r.applied != no || e.outcome != paid && r.applied != yes
	if !f.out.ok(entriesPayoff, possible) {
		f.out.breach(entriesPayoff, r.id, fmt.Sprintf("%d to %d payoffs", a.count, a.count+a.open), e.outcome.String())
	}
	r.checkEnd(e)
	f.count(event.Impressions, 1<<(e.outcome-1))
	switch e.outcome {
	case paid:
		r.feedSum(a, yes)
	case defaulted:
		r.takeDefault(true)
	}
}

func (r *resolution) feedSum(a *adding, fed answer) {
	if fed == no {
		return
	}
	if fed == yes && a.open == 0 && r.itemSure {
		r.l.learner.take(r.l, r.item, normalise(r.cfg, a.sum), takeOrder{-1, -1, -1}, true)
		return
	}
	items := []uint32{r.item}
	if !r.itemSure {
		items = r.l.items // any that was shown
	}
	for _, i := range items {
		r.l.learner.takeSome(r.l, i)
	}
}
