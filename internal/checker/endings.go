package checker

import (
	"fmt"
	"math"

	"github.com/ranker-worker/ranker-worker/config"
	"github.com/ranker-worker/ranker-worker/stream/event"
)

// ended says how the impression must have ended, and what its learner was fed.
func (r *resolution) ended() {
	f, e := r.f, r.stored
	if e != nil && e.kind == pending {
		f.count(event.Impressions, isPending)
		return
	}
	if r.applied == yes || r.applied == maybe {
		r.takeFirst()
	}
	if e != nil {
		r.checkEnd(e)
		f.count(event.Impressions, 1<<(e.outcome-1))
		if e.outcome == defaulted {
			r.takeDefault(true)
		}
		return
	}
	r.forgottenEnd()
}

// forgottenEnd is for an impression that Redis has forgotten.
func (r *resolution) forgottenEnd() {
	f := r.f
	switch {
	case r.applied == yes:
		f.count(event.Impressions, wasPaid)
		return
	case !r.l.hasSelection:
		f.count(event.Impressions, r.ifPaid()|wasExpired)
		return
	}
	may := r.ifPaid()
	if r.joined != yes {
		may |= wasUnselected
	}
	if r.joined != no {
		drop, def := r.onExpiry()
		if drop {
			may |= wasExpired
		}
		if def {
			may |= wasDefaulted
			r.takeDefault(may == wasDefaulted)
		}
	}
	f.count(event.Impressions, may)
}

func (r *resolution) ifPaid() fate {
	if r.applied == maybe {
		return wasPaid
	}
	return 0
}

// onExpiry tells what may have become of a selection that was never paid, by all configurations.
func (r *resolution) onExpiry() (drop, def bool) {
	for _, v := range r.l.learner.variants {
		drop = drop || v.OnExpiry.Default == nil
		def = def || v.OnExpiry.Default != nil
	}
	return drop, def
}

// checkEnd: an impression ends by a payoff or because event time has passed its deadline, and as its selection says.
func (r *resolution) checkEnd(e *entry) {
	out, w := r.f.out, r.f.state.watermark
	deadline := int64(math.MinInt64)
	switch {
	case e.outcome == unselected:
		deadline = r.next
	case e.outcome != paid || r.cfg.Aggregate == config.Sum:
		deadline = r.l.payDeadline
	}
	if !out.ok(entriesEarly, w > deadline) {
		out.breach(entriesEarly, r.id, fmt.Sprintf("nothing ended before %d has passed", deadline),
			fmt.Sprintf("%s at watermark %d", e.outcome, w))
	}
	if r.l.hasSelection && !out.ok(entriesOutcome, (e.outcome != unselected) == e.wasSelected) {
		out.breach(entriesOutcome, r.id, "unselected, or something selected", fmt.Sprintf("%s, selected: %t", e.outcome, e.wasSelected))
	}
	drop, def := r.onExpiry()
	if !out.ok(entriesOutcome, e.outcome != defaulted || def) {
		out.breach(entriesOutcome, r.id, "no default, by any configuration", e.outcome.String())
	}
	if !out.ok(entriesOutcome, e.outcome != expired || drop || !r.l.hasSelection) {
		out.breach(entriesOutcome, r.id, "a default, by all configurations", e.outcome.String())
	}
}
