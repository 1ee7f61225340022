// Package simulate makes up users for the demo and the examples: what they like, how far they look, what they select
// from a ranking, what that pays and when the payoff arrives. It counts what the rankings cost against the best
// permutation in hindsight, and what ranking by utility would have cost the same users.
//
// The package is pure. All randomness comes from the seed of a Config, by PCG generators: impression k of a
// Population is a function of the seed and of k, whatever else was asked for before, so that two programs, or a
// program that was restarted, see the same users. There is no clock: times are milliseconds of the simulated world.
package simulate
