// Package preference finds the order of the users' utilities where impressions come without them (the paper's appendix
// C.1, "Unknown utilities"): from selections alone where users know what they like (Sorted), or from the estimates that
// they publish with their selections where they learn it from each other (Social). The package is pure: it does no I/O,
// reads no clock and draws no global randomness.
package preference
