// Package faults breaks things around real worker processes under traffic, and checks that nothing is
// lost and nothing counted twice: `make soak`, and a short mix in the tests. Each fault restores its
// damage; then the group must go on by itself, or a partition must stop with the documented reason.
//
//	cluster.go   Kafka and Redis behind proxies (proxy); store.go, state_store.go: Redis
//	group.go     a consumer group; worker.go: its processes; traffic.go, bad_records.go: its users
//	fault.go     kinds of faults, which are scripts (script.go); clocks.go, cuts.go,
//	             outside.go, own_groups.go, unclean.go, quiet.go, coexistence.go: kinds by subject
//	laws.go      the checks. soak.go: runs of faults (deck.go); measure.go, endure.go: measurements
package faults
