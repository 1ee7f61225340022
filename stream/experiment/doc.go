// Package experiment holds the statistics of experiments (A/B tests). It gives each unit an arm, and sums the payoffs of each arm's units.
// Bounds that hold at every look decide whether an arm is better or worse than the control. It is pure.
//
// A unit is an impression. With assignment by user, it is all impressions of a group of users in a period, since impressions of one user
// are not independent. A unit's arm is a hash of experiment, run and unit (Draw), so all partitions agree without communication.
//
// Arms are compared at equal age: a unit counts once its payoff deadline has passed, since young units hold only fast payoffs. Units wait
// in cohorts of near deadlines (Cohorts), as sums by arm (Counts). A past cohort is folded into the experiment's totals (Totals). By user,
// a period is a cohort (Groups).
//
// Let m be the mean payoff of all units folded before, and π an arm's share of the two arms compared. A unit with payoff x counts as
//
//	δ = (x−m)/π of the arm, or −(x−m)/π of the control
//
// Arms are assigned at random. So the mean of δ is the gain of a unit by the arm over the control, for any m and however payoffs drift. S =
// Σδ divided by n units estimates the lift. With V = Σδ², the lift is outside (S ± B(V))/n at any look with probability at most α. B is a
// bound that holds for all times (policy/confidence). Two means, each with an interval of its own, would not survive drift.
//
// Payoffs are whole numbers of units of 2⁻³⁰. So sums do not depend on the order of addition, nor the bounds on the order in which
// partitions' totals are merged.
package experiment
