// Package propensity computes the probability with which each item of a ranking is selected, and estimates its parameters, windows
// and noise, from selections (Selections). A user looks at the first w of a ranking, with w from the windows q, and selects the
// highest utility among them (paper, section 2). The noise is the share of users who select any item that they look at.
//
// Payoffs depend on a ranking through the selection alone. So importance weights compare two rankings by their probabilities of the
// selection seen; for a randomised policy that is the formula for the ranking drawn.
package propensity
