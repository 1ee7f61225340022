// Package evaluate says what another policy would have been worth, by what a log holds of the one that ran: off-policy evaluation.
//
// Payoffs depend on a ranking through the selection alone. So what was paid is weighed by how much likelier the other policy would
// have made the selection, π(y), than the log's policy did, p(y) (policy/propensity). The estimators are importance sampling (Horvitz and
// Thompson, JASA 1952), its self-normalised form (Hájek 1971), and doubly robust estimation (Dudík, Langford, Li, ICML 2011); with
// intervals for one look, and a sequence that holds at every look though the log's policy learns and payoffs drift
// (Waudby-Smith, Wu, Ramdas, Karampatziakis, Mineiro, arXiv 2210.10768).
//
// Where a log cannot tell, the answer is that it cannot, with the reason.
package evaluate
