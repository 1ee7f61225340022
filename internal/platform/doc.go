// Package platform plays the platform around a worker, over a real wire: it publishes impressions, reads the rankings,
// and gives back what the users do with them: selections soon, payoffs late. The demo and the examples share it.
package platform
