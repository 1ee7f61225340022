// Package recency reads what is known of payoffs whose means change, so that the past counts as far back as it tells of now. What is
// kept is rows by block of event time (package history), of integers that add up over sources and do not depend on the order of
// arrival: Selections of each item, and Surprise of all. An Estimate is what all items have in common, and says what the rows of an
// item come to, which is what policy.Robust decides with. The package is pure: it does no I/O, and reads no clock but the
// payoffs' own.
package recency
