package config

import (
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/ranker-worker/ranker-worker/policy"
)

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

// checkParking checks the time and room for parked records. Without either none could wait, which is refused, since topics have no order
// among each other.
func checkParking(s *section, j *Join, maxRecordBytes int) {
	if !s.ok("parking_time", "max_parked") {
		return
	}
	d := Defaults().Join
	switch {
	case j.MaxParked == 0 && j.ParkingTime == 0:
		s.fault("max_parked", "is 0, and so is parking_time: no record could wait for its impression. Topics are read beside each "+
			"other, so that after a restart payoffs may be read before their impressions, and would be lost. Leave the keys out: "+
			"then %d records may wait for %s", d.MaxParked, FormatDuration(d.ParkingTime))
	case j.MaxParked == 0:
		s.warn("max_parked", "0: a payoff or selection that is read before its impression is an orphan at once")
	case j.ParkingTime == 0:
		s.warn("parking_time", "0: a payoff or selection before its impression is an orphan once all topics have been read so far; and "+
			"with remember: 0 an impression is forgotten at its end, so that a repeated one is ranked again")
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

// leastSteps is the least number of distinct payoffs in a range. A millionth of a range is far below the noise of payoffs.
const leastSteps = 1 << 20

// checkRange requires that payoffs stay distinct when normalised to [0,1]: (x−min)/(max−min). Subtraction and division are exact to a bit,
// so precision is lost only in x. The doubles of the range are at most one unit in the last place of its larger end apart, which must be
// small against the width. So a narrow range of large numbers is refused, [1e9, 1e9+1e-7], and one of denormals, [0, 5e-324].
func checkRange(low, high float64) error {
	if !(low < high) {
		return fmt.Errorf("the first number must be below the second, not [%s, %s]", formatFloat(low), formatFloat(high))
	}
	width := high - low
	if math.IsInf(width, 0) {
		return errors.New("is too wide to be normalised")
	}
	largest := max(math.Abs(low), math.Abs(high))
	unit := largest - math.Nextafter(largest, 0)
	if steps := width / unit; steps < leastSteps {
		return fmt.Errorf("[%s, %s] is too narrow: numbers of that size are %s apart, which leaves payoffs steps of 1/%.0f of the "+
			"range; give them in another unit, or as differences from the first number", formatFloat(low), formatFloat(high),
			formatFloat(unit), steps)
	}
	return nil
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
	if !s.ok("policy", "sigma", "prior", "prior.sd") || !l.believes() && !l.Policy.Kind().Confident {
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
