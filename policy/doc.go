// Package policy ranks candidates from item statistics: the paper's Find-Permutation and elimination (Algorithms 1 and 2), OSMD
// (Algorithm 5), and policies that share their shape (MOSS, KL-UCB, Thompson sampling and others). Policy and Explorer are for
// stochastic payoffs, Adversarial and Robust for others; Kinds lists them all. Table holds the statistics. The package is pure: no
// I/O, no clock, no global randomness.
//
// A ranking is built by leaders: a policy chooses a *leader* among the remaining candidates, places it, and behind it all
// candidates of lower utility (its *blocked* items, which no user who shares the order can select). The rest is always a suffix of
// the candidates in utility order.
package policy
