// Package usermodel fits, to what users did with rankings, how far they look and how often they take what they find, and estimates by it what
// another ranking would have earned in the same impressions.
//
// A user looks at the first w of a ranking, w drawn from the windows q. A share ε of the users finds any of these items, each as likely as the
// others. All others find the one of the highest utility. The user takes the item i that he finds with probability a_i, or leaves. With p_i
// how likely item i is found, by propensity.Of,
//
//	P(i is selected) = a_i·p_i,   P(nothing is selected) = 1 − Σ_i a_i·p_i
//
// q, ε and a are fitted together. Selections alone show the windows of users who take something: those of users who find what is
// seldom taken would be missing.
package usermodel
