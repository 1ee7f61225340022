// Package confidence bounds sums of random numbers at all times at once, so that whoever looks at a running experiment may stop whenever
// the bound says enough.
//
// An interval of 1.96 standard errors is right in 95 % of looks. Who looks again and again, and stops at the first interval that
// excludes 0, is wrong far more often than in 5 % of experiments. A confidence sequence is right at every look together in 95 % of them.
//
// Mixture is the bound by the gamma-exponential mixture: S. Howard, A. Ramdas, J. McAuliffe, J. Sekhon, "Time-uniform, nonparametric,
// nonasymptotic confidence sequences", Annals of Statistics 49 (2021), Proposition 9 of arXiv 1810.08240. It is used as I. Waudby-Smith, L. Wu,
// A. Ramdas, N. Karampatziakis and P. Mineiro do, "Anytime-valid off-policy inference for contextual bandits", arXiv 2210.10768.
package confidence
