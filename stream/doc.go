// Package stream is the worker's shell around the pure core: it talks to Kafka and the store, and owns all goroutines.
// Package task makes the decisions; stream executes its requests. Package app makes a Worker and calls Run.
//
//	worker.go      Worker: joins, one loop per partition, drains. loop.go: a partition's requests
//	executor.go    Executor: requests to Kafka and store. traces.go: their spans
//	membership.go  group membership. generation.go: one generation; balancer.go
//	follow.go      statistics of other partitions (pooled_state.go). announce.go: other workers' learners
//	fit.go         when a worker may be a member. upgrade.go: stored states of lower versions
//	waits.go       log of waits; partitioners.go: producers; warnings.go: lost learning
//	metrics.go     counters. snapshot.go: gauges. server.go: /livez, /readyz, /metrics, /version
package stream
