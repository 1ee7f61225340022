// Package usermodel fits, to selections from rankings and impressions without one, how far users look and how often they take items that they
// find. By it, it estimates the payoff of other rankings in the same impressions.
//
// A user looks at the first w of a ranking, w drawn from the windows q. A share ε of the users finds any of these items, each as likely as the
// others. All others find the one of the highest utility. The user takes the item i that he finds with probability a_i, or leaves. With p_i
// how likely item i is found, by propensity.Of,
//
//	P(i is selected) = a_i·p_i,   P(nothing is selected) = 1 − Σ_i a_i·p_i
//
// q, ε and a are fitted together. Selections alone show the windows of users who take something: those of users who find an
// item that is seldom taken would be missing.
package usermodel
