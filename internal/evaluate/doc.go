// Package evaluate is off-policy evaluation: it estimates from a log the payoff of another policy. Log evaluates a learner's topics
// and Flat a file of other systems, against Targets, into a Report. It is not from the paper.
//
// Payoffs depend on a ranking through the selection alone. So a payoff's weight is the ratio of the selection's probabilities,
// π(y)/p(y), by the target and by the log's policy (policy/propensity). Estimators are importance sampling (Horvitz, Thompson, JASA
// 1952), its self-normalised form (Hájek 1971) and doubly robust estimation (Dudík, Langford, Li, ICML 2011), each with an interval
// for one look. A confidence sequence holds at all looks, under a learning policy and drifting payoffs (Waudby-Smith, Wu, Ramdas,
// Karampatziakis, Mineiro, arXiv 2210.10768). If a log does not suffice, a target is refused with the reason.
package evaluate
