// Package generate sends simulated traffic to real topics, to try a worker before producers exist: impressions at a rate, and the
// selections and payoffs of simulated users who see the worker's rankings.
package generate
