// Package confidence bounds sums of random numbers at all times at once, so that an experiment may be looked at repeatedly and
// stopped at any time. An interval of 1.96 standard errors is right in 95 % of single looks, and far less often at every look. A
// confidence sequence is right at all looks together in 95 % of experiments.
//
// Mixture is the gamma-exponential mixture bound: S. Howard, A. Ramdas, J. McAuliffe, J. Sekhon, "Time-uniform, nonparametric,
// nonasymptotic confidence sequences", Annals of Statistics 49 (2021), Proposition 9 of arXiv 1810.08240, used as in I. Waudby-Smith,
// L. Wu, A. Ramdas, N. Karampatziakis, P. Mineiro, "Anytime-valid off-policy inference for contextual bandits", arXiv 2210.10768.
package confidence
