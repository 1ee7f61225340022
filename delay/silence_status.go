package delay

import "github.com/ranker-worker/ranker-worker/policy"

// SilenceStatus is what silence has come to with a learner, for people and metrics.
type SilenceStatus struct {
	Law SilenceLaw
	// Weight is what this partition's own awaited selections count as, in selections that were never paid.
	Weight float64
	// Known tells that the rest is: with SilenceAges, from the first payoff on.
	Known bool
	// Share is which part of all selections is paid, and Median and P90 are after how many milliseconds half and nine tenths of the
	// payoffs that come have come; of all partitions, as of the last pass.
	Share       float64
	Median, P90 int64
}

// String is the law's name in the configuration.
func (l SilenceLaw) String() string { return [...]string{"waits", "at_once", "ages"}[l] }

// status says what silence has come to. It does not look at items.
func (f *flights) status() SilenceStatus {
	s := SilenceStatus{Law: f.silence.Law}
	switch a := f.awaiting; {
	case a != nil:
		s.Weight = float64(a.silent) / weightUnits
		e, paid := a.now(), a.all.Paid
		if a.whole != nil {
			paid = a.whole.all.Paid
		}
		if s.Known = e.late[sideAbove].Known() && (a.inParts || paid > 0); s.Known {
			s.Median, s.P90 = e.late[sideAbove].Age(&a.grid, 0.5), e.late[sideAbove].Age(&a.grid, 0.9)
			if !a.inParts { // of parts it is not known which come
				s.Share = e.share
			}
		}
	case f.silence.Law == SilenceAtOnce:
		s.Weight = float64(f.total)
	}
	return s
}

// weightUnits is how many units, in which weights are added up, make 1: sums of weights are exact.
const weightUnits = 1 << 20

// silentOf is what this partition's own awaited selections of an item count as.
func (f *flights) silentOf(i policy.Item) float64 {
	switch {
	case f.awaiting != nil:
		return float64(f.awaiting.silentOf.Get(i)) / weightUnits
	case f.silence.Law == SilenceAtOnce:
		return float64(f.Own(i))
	}
	return 0
}
