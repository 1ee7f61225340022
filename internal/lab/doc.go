// Package lab is the regret laboratory. It plays learners, with the worker's own code, against simulated users of known payoffs,
// and measures their regret against the best ranking in hindsight. A Scenario defines windows, utilities and payoffs, among them
// the paper's worst case. A World is one run of it, an impression at a time. An Experiment plays Combinations in worlds, see Run, and
// returns Results.
//
// Definitions number items from 1, the code from 0; item 1 has the lowest utility unless noted. Impressions are t = 1..T; a payoff
// with delay k is known from decision t+k+1 on, and a selection unpaid at the payoff horizon H expires then. Event time is a
// multiple of t. Random numbers come from counter-based streams by seed, run and purpose: all combinations meet the same users, and
// results do not depend on the number of cores.
package lab
