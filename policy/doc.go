// Package policy turns item statistics into rankings: the paper's Find-Permutation and elimination
// (Algorithms 1 and 2), and the policies that share its shape. The package is pure: it does no I/O, reads no
// clock and draws no global randomness.
//
// Every policy builds a ranking the same way: it chooses a *leader* of the remaining candidates, places it and
// then everything of lower utility that is not yet placed (its *blocked* items, which no user can select any
// more; index policies place them in falling mean), and goes on with what remains, which is always a suffix of the candidates in utility order.
package policy
