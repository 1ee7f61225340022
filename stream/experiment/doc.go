// Package experiment holds the statistics of experiments: which arm a unit is given, what units of each arm came to, and whether an arm
// is better or worse than the control, whenever one looks. It is pure.
//
// A unit is an impression, or, by user, what a group of users sees in a period: impressions of one user are not independent of each
// other once the user has an arm. Its arm is a hash of the experiment, the run and the unit (Draw), so that all partitions agree without
// asking.
//
// Arms are compared at equal age: a unit is counted once its payoff deadline has passed, for young units hold only what pays fast.
// Units wait in cohorts of near deadlines (Cohorts), of which sums are known by arm (Counts). A cohort that is past is folded into the
// experiment's totals (Totals). By user a period is a cohort (Groups).
//
// With m the mean of all units folded before, and π an arm's share of the two that are compared, a unit with payoff x counts as
//
//	δ = (x−m)/π of the arm, or −(x−m)/π of the control
//
// Units are given arms at random, hence the mean of δ is what a unit would gain by the arm over the control, whatever m is and however
// payoffs drift: S = Σδ divided by n units is the lift, and with V = Σδ² no lift is outside (S ± B(V))/n at any look with a probability
// above α, B being a bound for all times (policy/confidence). For two means, each with an interval of its own, drift would do harm.
//
// Payoffs are whole numbers of units of 2⁻³⁰. So sums do not depend on the order in which they are added, and the bounds are the same
// on whichever way totals of partitions come together.
package experiment
