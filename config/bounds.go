package config

import (
	"fmt"
	"time"

	"github.com/ranker-worker/ranker-worker/policy"
)

// Bounds of single records. Together they keep each record, and all that is made of it, within Kafka's and Redis's limits:
//
//   - A ranking repeats its impression's items, and adds for each a propensity, a rank and whether it is undecided,
//     up to 48 bytes, and 15 for an expected payoff. 16 MiB + 100,000·63 bytes are 22 MiB. A worker reads back 64 MiB
//     in one batch, and a broker takes 100 MiB in one request (socket.request.max.bytes).
//   - A pending impression takes up to 26 bytes of Redis for each candidate: number, propensity, rank, undecided,
//     expected. That is 3 MB, and 16 records parked under one id are 256 MiB. Redis holds 512 MB in one value
//     (proto-max-bulk-len).
//
// TestTheLargestRecordFits makes such an impression.
const (
	mostCandidates  = 100_000
	mostRecordBytes = 16 << 20
)

// longest of all durations.
const longest = 3650 * day

// withoutHint returns a value's fault without a hint.
func withoutHint[V any](_ V, err error) error { return err }

// lengthFault explains the bound of a record's length.
func lengthFault(n int, err error) error {
	if n > mostRecordBytes {
		return fmt.Errorf("%w: a ranking is longer than its impression, and up to 16 records wait under one id; Kafka and "+
			"Redis have to hold them in one piece", err)
	}
	return err
}

// leastCandidateBytes is a candidate's least size in a record: {"item":"ab"}, without a utility. There are too few shorter items for many
// candidates.
const leastCandidateBytes = len(`{"item":"ab"},`)

// checkLimits warns of a bound that another one makes unreachable.
func checkLimits(s *section, l *Limits) {
	if !s.ok("max_candidates", "max_record_bytes") || !s.has("max_candidates") {
		return
	}
	if l.MaxCandidates == 1 {
		s.warn("max_candidates", "1 leaves nothing to rank")
	}
	if most := l.MaxRecordBytes / leastCandidateBytes; l.MaxCandidates > most {
		s.warn("max_candidates", "no more than %d fit into a record of max_record_bytes %s", most,
			formatSize(int64(l.MaxRecordBytes)))
	}
}

// checkRemember requires that an ended impression is remembered at least as long as records are parked, for producers' retries.
func checkRemember(s *section, j *Join) {
	switch {
	case !s.ok("parking_time", "remember"), j.Remember == UntilHorizon, j.Remember >= j.ParkingTime:
	case s.has("remember"):
		s.fault("remember", "%s is below parking_time, %s: a record that is parked that long, because it was sent too early or "+
			"twice, has to find its impression. Write %s or more, or horizon", FormatDuration(j.Remember), FormatDuration(j.ParkingTime), FormatDuration(j.ParkingTime))
	default:
		j.Remember = j.ParkingTime
	}
}

// shortest is a wait below which another unit was probably meant.
const shortest = time.Second

func warnShort(s *section, key string, d time.Duration) {
	if s.has(key) && s.ok(key) && d < shortest {
		s.warn(key, "%s from the impression is hardly enough for a ranking to be shown and answered", FormatDuration(d))
	}
}

// warnDoubtful warns of valid settings that are rarely intended.
func warnDoubtful(s *section, l *Learner, topics Topics) {
	warnShort(s, "payoff_horizon", l.PayoffHorizon)
	warnShort(s, "selection_timeout", l.SelectionTimeout)
	warnSilence(s, l, topics)
	warnBelief(s, l)
}

// warnSilence warns of doubtful payoffs for unpaid selections.
func warnSilence(s *section, l *Learner, topics Topics) {
	switch {
	case !s.has("on_expiry") || !s.ok("on_expiry", "payoff_range"):
	case !topics.HasSelections():
		if l.OnExpiry.Default != nil {
			s.warn("on_expiry", "has no effect without a selections topic: unpaid selections are unknown")
		}
	case l.OnExpiry.Default == nil && l.PayoffRange.Min == 0 && l.Delay != QPMD:
		s.warn("on_expiry", "drop learns from paid selections only: if payoffs are sent only when they are good, "+
			"every item that ever pays looks as good as any other; {default: 0} counts an unpaid selection as 0")
	}
}

// warnBelief warns of a learner that explores, or keeps its prior, for longer than there are payoffs.
func warnBelief(s *section, l *Learner) {
	const wild, firm = 1, 1e6
	if !s.ok("policy", "sigma", "prior", "prior.sd") || !l.believes() && !l.Policy.Spec().Confident {
		return
	}
	if l.Sigma > wild {
		s.warn("sigma", "payoffs within their range vary by 0.5 at most; with %s the learner goes on trying (%s/0.5)² times as long",
			formatFloat(l.Sigma), formatFloat(l.Sigma))
	}
	if !l.believes() || l.Prior.Kind != policy.FixedPrior || l.Prior.SD == 0 { // a missing one is a fault
		return
	}
	if weight := l.Sigma * l.Sigma / (l.Prior.SD * l.Prior.SD); weight > firm {
		s.warn("prior", "is so firm (sd %s, and sigma %s) that it takes %.0g payoffs of an item to move it half-way",
			formatFloat(l.Prior.SD), formatFloat(l.Sigma), weight)
	}
}
