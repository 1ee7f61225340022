// Package usermodel fits to a log how far users look, and how often they select items that they find (Model). It estimates the
// payoff of other rankings in the same impressions (Estimate). It is not from the paper, whose users always select.
//
// A user looks at the first w of a ranking; q is the distribution of w. A share ε of users finds one of these items at random, with equal
// probability; the others find the one of highest utility. A user selects the found item i with probability a_i, or leaves. With
// p_i the probability that i is found (propensity.Of),
//
//	P(i is selected) = a_i·p_i,   P(nothing is selected) = 1 − Σ_i a_i·p_i
//
// q, ε and a are fitted together, since selections alone under-represent windows in which rarely selected items are found.
package usermodel
