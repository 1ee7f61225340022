package experiment

import (
	"cmp"
	"math"
	"slices"
)

// RunTotals is a run of an experiment, with its totals.
type RunTotals struct {
	*Experiment
	Totals
}

// AtShare is the lift of an arm in all runs that gave it the same share of its own and the control's units.
type AtShare struct {
	Share float64 `json:"share"`
	Runs  []int32 `json:"runs"`  // in their order
	Units int64   `json:"units"` // of arm and control
	Lift  float64 `json:"lift"`
	Lower float64 `json:"lower"` // of the true lift, at every look and every share together
	Upper float64 `json:"upper"`
}

// AtShares returns the lifts of an arm by its share, in rising order, and whether two of them certainly differ. With shared
// learning arms change each other's data, so that a lift may depend on the share, even in sign.
//
// A run's S and V are those of Bounds. Sums over runs with one share are sums of one martingale, with one c. The j-th share in the order of
// runs gets α/2ʲ of an arm's α, so all intervals hold together with probability 1 − α, however many shares later runs add. If two of them
// are disjoint, the mean lifts at these shares differ, or an interval is wrong. Runs that lack the arm or the control, or whose units do not
// fit their shares, are left out. runs come in their order.
func AtShares(arm string, runs []RunTotals) (all []AtShare, differ bool) {
	type sums struct{ s, v, control, alpha float64 }
	var by []sums
	for _, t := range runs {
		k := t.Index(arm)
		if k < 0 || k == t.control {
			continue
		}
		r := &t.rivals[k]
		at := slices.IndexFunc(all, func(x AtShare) bool { return math.Abs(x.Share-r.arm) < shareSlack })
		if at < 0 {
			at = len(all)
			all, by = append(all, AtShare{Share: r.arm}), append(by, sums{control: r.control, alpha: Alpha})
		}
		n, s, v := t.sums(k, t.Totals)
		if n == 0 || !t.InShares(k, t.Totals) {
			continue
		}
		x, sum := &all[at], &by[at]
		x.Runs, x.Units = append(x.Runs, t.Run), x.Units+n
		sum.s, sum.v, sum.alpha = sum.s+s, sum.v+v, min(sum.alpha, Alpha/float64(len(t.Arms)-1))
	}
	for at := range all {
		x, sum := &all[at], &by[at]
		of := mean(sum.s, boundOf(math.Ldexp(sum.alpha, -at-1), x.Share, sum.control).Bound(sum.v), x.Units)
		x.Lift, x.Lower, x.Upper = of.Estimate, of.Lower, of.Upper
	}
	all = slices.DeleteFunc(all, func(x AtShare) bool { return x.Units == 0 })
	slices.SortFunc(all, func(a, b AtShare) int { return cmp.Compare(a.Share, b.Share) })
	least, most := 1.0, -1.0
	for _, x := range all {
		least, most = min(least, x.Upper), max(most, x.Lower)
	}
	return all, least < most
}
