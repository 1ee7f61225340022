// Package policy ranks candidates from item statistics, by the paper's Find-Permutation and elimination (Algorithms 1 and 2) and OSMD
// (Algorithm 5). MOSS, KL-UCB, Thompson sampling and others share their shape. Policy and Explorer are for stochastic payoffs, Adversarial
// and Robust for others; Kinds lists them all. Table holds the statistics. The package is pure: no I/O, no clock, no global randomness.
//
// A ranking is built by leaders. A policy chooses a *leader* among the remaining candidates, and places it. Behind it follow all
// candidates of lower utility: its *blocked* items, which no user who shares the order can select. The rest is always a suffix of
// the candidates in utility order.
package policy
