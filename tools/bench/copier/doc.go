// Package copier reads impressions and writes each back unchanged: the least work of a worker between two topics, with the worker's client.
// `make bench` compares the worker's speed with it.
package copier
