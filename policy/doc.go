// Package policy has the algorithms that decide rankings, the paper's and others; Kinds lists them. Package delay feeds and calls them. A
// Policy ranks candidates from a Table of item statistics; an Explorer sometimes ranks at random instead. Both are for stochastic payoffs.
// Adversarial and Robust return selection probabilities, from which package delay draws a ranking (admissible.Sampler). From the paper are
// Elimination (Algorithm 1) with Find-Permutation (Algorithm 2), and OSMD (Algorithm 5). The package is pure: no I/O, no clock, no global
// randomness.
//
// A Policy places a *leader*, then all remaining candidates of lower utility: its *blocked* items, which no user who shares the order can
// select. The rest is always a suffix of the candidates in utility order.
package policy
