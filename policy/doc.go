// Package policy decides in which order an impression shows its candidates, from statistics of past payoffs. Each policy is one algorithm,
// from the paper or from elsewhere. Specs lists them; a Spec makes one from Parameters. Package delay calls policies in learners, which
// hold the statistics. Configuration, commands and internal/lab read Specs.
//
// A Policy reads an Input: candidates in increasing utility, a Table of item statistics, and a Key for random numbers. It writes their
// positions in the order shown. EpsilonGreedy does so too, but sometimes ranks at random. Both are for stochastic payoffs. Adversarial and
// Robust write selection probabilities; package delay then draws a ranking by admissible.Sampler. From the paper are Elimination
// (Algorithm 1) with Find-Permutation (Algorithm 2), ε-greedy (section 4.1), and OSMD (Algorithm 5).
//
// Utility is the users' order of candidates; a payoff is the platform's gain. A Policy places a leader, then all candidates of lower utility
// that have no place yet. The leader blocks them: no user who shares the order selects one. So those without a place are a suffix of the
// Input. The package is pure: no I/O, no clock, no global randomness.
package policy
