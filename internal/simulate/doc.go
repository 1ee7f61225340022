// Package simulate creates users for the demo and the examples. Population draws Impressions and Responses: utilities, attention
// windows, selections, payoffs and their delays. Ledger sums the regret of rankings against the best permutation in hindsight, and
// that of ranking by utility. Selections follow the paper's section 2.
//
// The package is pure. Random numbers come from Config.Seed by PCG generators, and impression k is a function of seed and k, so
// that all programs see the same users. Times are milliseconds of the simulated world.
package simulate
