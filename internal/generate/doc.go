// Package generate sends simulated traffic to real topics, for trying a worker out before producers exist:
// impressions at a rate, and the selections and payoffs of simulated users who see the worker's rankings.
package generate
