// Package preference learns the order of users' utilities where impressions lack them (paper, appendix C.1, "Unknown utilities").
// Finder is the interface. Sorted learns from selections alone, of users who know their preferences; Social learns from estimates
// that users publish with their selections. The package is pure: no I/O, no clock, no global randomness.
package preference
