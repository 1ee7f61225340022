// Package platform plays the platform around a worker, over a real wire: it publishes impressions, reads the rankings,
// and gives back what the users do with them: selections soon, payoffs late. Platform plays so many impressions as fast as they are
// ranked, on a clock of its own; Live plays in real time at a rate. The demo, `generate` and the examples share it.
package platform
