package delay

import (
	"github.com/ranker-worker/ranker-worker/delay/history"
	"github.com/ranker-worker/ranker-worker/delay/inflight"
	"github.com/ranker-worker/ranker-worker/policy"
)

func (f *flights) status() SilenceStatus {
	s := SilenceStatus{Law: f.silence.Law}
	switch a := f.awaiting; {
	case a != nil:
		s.Weight = float64(a.ownWeights.sum) / weightUnits
		below := float64(a.ownWeights.below) / weightUnits
		s.Payoffs = f.silence.Default*(s.Weight-below) + a.now().low*below
		e := a.now()
		if of, one := f.learnedFrom(); of != nil {
			s.Known, s.Delays, s.Covers = true, Delays{a.grid, e.late[sideAbove]}, max(0, a.pass-a.since)
			s.Median, s.P90 = e.late[sideAbove].Age(&a.grid, 0.5), e.late[sideAbove].Age(&a.grid, 0.9)
			s.Seen = s.P90 <= inflight.Seen(&a.grid, e.until, one, of.agesOf(sideAbove)...)
			s.Returns = a.law.InParts && e.below > 0
			if !a.law.InParts { // partial payoffs do not show which selections are paid
				s.Share = e.share
			}
		}
	case f.silence.Law == SilenceAtOnce:
		s.Weight = float64(f.total)
		s.Payoffs = f.silence.Default * s.Weight
	}
	if s.Law != SilenceWaits {
		s.Payoffs += float64(over(f.open, f.silence.Default)) / history.Units
	}
	return s
}

// learnedFrom returns the selections in flight from which delays are estimated, of all partitions where they share, and the amount of a
// payoff of 1 there; nil before the first payoff.
func (f *flights) learnedFrom() (a *awaiting, one float64) {
	a = f.awaiting
	if a == nil || !a.now().late[sideAbove].Known() {
		return nil, 0
	}
	if a.global != nil {
		a = a.global
	}
	switch {
	case a.law.InParts:
		return a, history.Units
	case a.all.Paid > 0:
		return a, 1
	}
	return nil, 0
}

// coming returns the share of payoffs that come at the greatest ages seen so far (inflight.Coming); 0 before the first payoff.
func (f *flights) coming() float64 {
	a, one := f.learnedFrom()
	if a == nil {
		return 0
	}
	return inflight.Coming(&a.grid, a.now().until, one, a.agesOf(sideAbove)...)
}

// ownWeight returns the weight of this partition's selections in flight of an item.
func (f *flights) ownWeight(i policy.Item) float64 {
	switch {
	case f.awaiting != nil:
		return float64(f.awaiting.ownWeight.Get(i).sum) / weightUnits
	case f.silence.Law == SilenceAtOnce:
		return float64(f.Own(i).N)
	}
	return 0
}
