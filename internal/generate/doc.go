// Package generate makes up the traffic of a platform on a real Kafka, so that there is something to see where no producer is
// yet: impressions at a rate, and the selections and payoffs of simulated users who see the rankings that a worker gives.
package generate
