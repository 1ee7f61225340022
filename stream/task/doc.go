// Package task is the protocol by which a worker owns one partition. It does no I/O, reads no clock and starts no goroutine. Task takes
// over, fences earlier owners, checks topics and store, and loads a partition.Machine; then it replays, runs, checkpoints and drains.
// Advance returns Requests; the caller executes each by a Shell, and passes its Reply to Handle. Package stream does this for workers,
// internal/admin for commands, and sim_test.go in a simulation.
//
//	task.go         Advance, Handle, Drain; errors. ask.go, request.go: requests and replies
//	acquire.go      taking over; fence.go: earlier owners; check.go, facts.go: topics and store
//	run.go          one round; runner.go: state between restarts; choose.go, step.go: records
//	queue.go        fetched inputs (read.go); lookup.go: look-ups; outbox.go: rankings (produce.go)
//	replay.go       cursor.go: decisions in the log (adopt.go); recorded.go: their input order
//	checkpoint.go   changes to save (save.go); commit.go: offsets; expire.go: the expiry walk
//	stop.go         stops and retries (phase.go, failures.go); status.go: metrics
package task
