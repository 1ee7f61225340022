// Package faults breaks things around real worker processes while traffic goes on, and checks that nothing is lost and
// nothing counted twice: `make soak`, and a short mix in the tests.
//
//	proxy        a TCP proxy that misbehaves
//	cluster.go   three Kafka brokers and a Redis with its replica, each behind proxies (proxies.go); store.go, state_store.go: Redis
//	group.go     a consumer group with its topics; worker.go: its processes, built with the tag failpoints
//	traffic.go   users who do not wait for rankings; bad_records.go: records that no tidy platform sends
//	fault.go     the kinds of faults: of workers; clocks.go: of their clocks; cuts.go: of one worker's connections;
//	             outside.go: of Redis, Kafka, the network and upstream
//	own_groups.go  faults that a group does not outlive, or bears the marks of, in groups of their own; unclean.go: elections
//	             that lose records; quiet.go: pauses of impressions; versions.go: other versions of the worker; coexistence.go: other
//	             configurations and writers
//	laws.go      what has to hold, here and by package checker
//	soak.go      faults one by one, or at random, with checks in between and beside
//	measure.go   pauses, latencies and memory under faults
//
// Each fault brings back what it took away; then the group has to go on by itself. Where a partition has to stop, it has
// to say so, with the reason that docs/operations.md gives.
package faults
