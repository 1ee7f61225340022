// Package redis runs a real redis-server on loopback for tests, benchmarks and examples. Nothing here depends on the testing package.
package redis
