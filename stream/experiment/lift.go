package experiment

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/ranker-worker/ranker-worker/policy/confidence"
)

// Alpha is the probability that any bound of an experiment is ever wrong. Both sides of all its comparisons share it.
const Alpha = 0.05

// viewed is the number of units, in two equal arms, around which bounds are tightest.
const viewed = 500

// Settings determine an experiment's units and bounds. All but ByUser and Period may only change with Run.
type Settings struct {
	Name    string
	Run     int32
	Arms    []Arm
	Control string // the arm that others are compared with
	ByUser  bool
	Period  int64 // by user: milliseconds until arms are drawn again; 0: never
	InParts bool  // a unit's payoff is a sum of partial payoffs
	Falls   bool  // a unit's payoff can fall, or is above 0 without any
}

// Experiment assigns arms to units, and compares the arms. It is immutable, and safe for concurrent use.
type Experiment struct {
	Draw
	Settings
	control int
	rivals  []rival // by arm; the control's is unused
}

type rival struct {
	arm, control float64 // shares
	bound        confidence.Mixture
	// above and below bound the sums of payoffs so far, of the arm and of the control.
	above, below [2]confidence.Mixture
}

// New orders arms by name. It fails unless there are two or more arms with different names, with positive shares that add up to 1, one of
// which is the control.
func New(s Settings) (*Experiment, error) {
	s.Arms = slices.Clone(s.Arms)
	slices.SortFunc(s.Arms, func(a, b Arm) int { return strings.Compare(a.Name, b.Name) })
	sum := 0.0
	for i, a := range s.Arms {
		if !(a.Share > 0) {
			return nil, fmt.Errorf("the share of arm %q is %v, must be above 0", a.Name, a.Share)
		}
		if i > 0 && s.Arms[i-1].Name == a.Name {
			return nil, fmt.Errorf("arm %q is there twice", a.Name)
		}
		sum += a.Share
	}
	control := slices.IndexFunc(s.Arms, func(a Arm) bool { return a.Name == s.Control })
	switch {
	case len(s.Arms) < 2:
		return nil, errors.New("there must be two arms or more")
	case math.Abs(sum-1) > shareSlack:
		return nil, fmt.Errorf("the shares of the arms add up to %v, must be 1", sum)
	case control < 0:
		return nil, fmt.Errorf("the control %q is none of the arms", s.Control)
	}
	e := &Experiment{Draw: newDraw(s.Name, s.Run, s.Arms), Settings: s, control: control}
	alpha := Alpha / float64(len(s.Arms)-1)
	for _, a := range s.Arms {
		both := a.Share + s.Arms[control].Share
		r := rival{arm: a.Share / both, control: s.Arms[control].Share / both}
		r.bound = boundOf(alpha, r.arm, r.control)
		for i, share := range []float64{r.arm, r.control} {
			odds := 1/share - 1
			r.above[i], r.below[i] = confidence.New(alpha/2, max(odds, 1)/2, viewed*odds), confidence.New(alpha/2, 0.5, viewed*odds)
		}
		e.rivals = append(e.rivals, r)
	}
	return e, nil
}

// shareSlack is the tolerance for the sum of shares, for rounded decimals.
const shareSlack = 1e-9

func (e *Experiment) ControlArm() int { return e.control }

// Index returns an arm's index by name, or −1.
func (e *Experiment) Index(arm string) int {
	return slices.IndexFunc(e.Arms, func(a Arm) bool { return a.Name == arm })
}

// Never reports whether users keep their arm for good. Their units at two looks are then the same users, and there are no bounds.
func (e *Experiment) Never() bool { return e.ByUser && e.Period == 0 }

// Verdict is the result of the bounds.
type Verdict uint8

// Refused: there are no bounds, for the reason Lift.Why.
const (
	Open Verdict = iota
	Better
	Worse
	Refused
)

func (v Verdict) String() string { return [...]string{"open", "better", "worse", "refused"}[v] }

// Lift is an arm's gain over the control, in payoff ranges.
type Lift struct {
	Units        int64   // folded units of both
	Estimate     float64 // 0 without units
	Lower, Upper float64 // of the true lift, at every look; −1 and 1 if refused
	Verdict      Verdict
	Why          string // of Refused
}

// Lift compares an arm with the control.
func (e *Experiment) Lift(arm int, t Totals) Lift {
	l := e.Bounds(arm, t)
	if e.Never() {
		return l.refuse("users keep their arm for good, so that units at one look are those at the next")
	}
	return l
}

// boundOf bounds S for α and the shares of an arm and the control.
func boundOf(alpha, arm, control float64) confidence.Mixture {
	return confidence.New(alpha, 1/min(arm, control), viewed*(1/arm+1/control))
}

// mean returns the mean lift of n units with sum S, which b bounds.
func mean(s, b float64, n int64) Interval {
	units := float64(n)
	return Interval{s / units, max((s-b)/units, -1), min((s+b)/units, 1)}
}

// verdictOf returns the result of bounds on a lift.
func verdictOf(lower, upper float64) Verdict {
	switch {
	case lower > 0:
		return Better
	case upper < 0:
		return Worse
	}
	return Open
}

// Bounds is Lift also for users who keep their arm for good: then the bounds hold for one look, at units counted once each.
func (e *Experiment) Bounds(arm int, t Totals) Lift {
	units, s, v := e.sums(arm, t)
	l := Lift{Units: units, Lower: -1, Upper: 1}
	if l.Units == 0 {
		return l
	}
	of := mean(s, e.rivals[arm].bound.Bound(v), units)
	l.Estimate = of.Estimate
	if !e.InShares(arm, t) {
		return l.refuse(fmt.Sprintf("%d and %d units do not fit the shares: impressions of one arm are lost or repeated", t[arm].N, t[e.control].N))
	}
	l.Lower, l.Upper, l.Verdict = of.Lower, of.Upper, verdictOf(of.Lower, of.Upper)
	return l
}

// sums returns the units of an arm and the control, with S and V.
func (e *Experiment) sums(arm int, t Totals) (units int64, s, v float64) {
	r, a, c := &e.rivals[arm], t[arm], t[e.control]
	s = (float64(a.D)/r.arm - float64(c.D)/r.control) / perTotal
	v = (float64(a.E)/(r.arm*r.arm) + float64(c.E)/(r.control*r.control)) / perTotal
	return a.N + c.N, s, v
}

// OutOfService is the lift of an arm that a guard took out of service, as of then. The estimate is the middle of the bounds.
func OutOfService(units int64, lower, upper float64) Lift {
	return Lift{Units: units, Estimate: (lower + upper) / 2, Lower: lower, Upper: upper, Verdict: Worse}
}

func (l Lift) refuse(why string) Lift {
	l.Lower, l.Upper, l.Verdict, l.Why = -1, 1, Refused, why
	return l
}

// InShares reports whether the numbers of units of an arm and the control fit their shares.
func (e *Experiment) InShares(arm int, t Totals) bool {
	return e.rivals[arm].fit(t[arm].N, t[e.control].N)
}

// fit allows six standard deviations and 20 units: the probability of a false alarm at any look is far below one in a million.
func (r *rival) fit(n, control int64) bool {
	off := float64(n)*r.control - float64(control)*r.arm
	return math.Abs(off) <= 6*math.Sqrt(float64(n+control)*r.arm*r.control)+20
}

// Trips reports whether a guard stops the arm: it is worse than the control by more than the margin.
func (l Lift) Trips(margin float64) bool { return l.Verdict != Refused && l.Upper < -margin }

// Mean returns the mean payoff of an arm's folded units, in payoff ranges; 0 without any.
func (s Sums) Mean() float64 {
	if s.N == 0 {
		return 0
	}
	return float64(s.X) / perTotal / float64(s.N)
}
