// Package lab is the regret laboratory: it plays policies, with the very code that the worker runs, against simulated
// users with known payoffs, and measures what they lose against the best ranking in hindsight.
//
// A Scenario says how windows, utilities and payoffs come about. Items are numbered from 1 in the definitions and from 0
// in the code; item 1 has the lowest utility, unless the scenario says otherwise. Impressions are t = 1..T, and a payoff
// that is k late can be used from decision t+k+1 on. A selection that is not paid by the payoff horizon H is told then, as
// one that is H late. There is one clock, the impression's number, of which event time is a multiple. Everything random is drawn from counter-based streams that belong
// to a seed, a run and a purpose: all combinations of a policy and a delay handling meet the same users, and a document
// is the same on any number of cores.
package lab
