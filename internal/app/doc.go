// Package app puts a worker together from its configuration.
package app
