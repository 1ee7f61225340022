// Package copier reads impressions and writes each back as it is: the least that a worker between two topics can do,
// with the very client that the worker uses. `make bench` holds the worker's speed against it.
package copier
