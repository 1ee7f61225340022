// Package generate sends simulated traffic to real topics, to try a worker before producers exist: impressions, and the selections and
// payoffs of simulated users who see its rankings.
package generate
