// Package propensity says how likely each item of a ranking was to be selected, and finds out from selections what that hangs on.
//
// A user looks at the first w of a ranking, w drawn from the windows q, and selects among these the item of the highest utility. Payoffs
// depend on a ranking through the selection alone. So what compares two rankings of the same candidates, as importance weights do, is how
// likely each makes the selection that was seen; for a policy that draws its rankings that is the formula for the one that was drawn, given
// that it was.
//
// Some users take anything they look at. Their share is the noise: without it a selection of an item that stands below a better one could
// not be, and would have no weight.
package propensity
