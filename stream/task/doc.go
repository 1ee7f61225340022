// Package task is the protocol of one partition as a pure machine: acquire, fence, check, replay,
// run, checkpoint, drain. Task returns Requests, and takes their Replies. A Shell executes them:
// package stream, or the randomised model. Task does no I/O, reads no clock and starts no goroutine.
//
//	task.go         Advance, Handle, Drain; errors. ask.go, request.go: requests and replies
//	acquire.go      taking over; fence.go: earlier owners; check.go, facts.go: topics and store
//	run.go          one round; runner.go: state between restarts; choose.go, step.go: records
//	queue.go        fetched inputs (read.go); lookup.go: look-ups; outbox.go: rankings (produce.go)
//	replay.go       cursor.go: decisions in the log (adopt.go); recorded.go: their input order
//	checkpoint.go   changes to save (save.go); commit.go: offsets; expire.go: the expiry walk
//	stop.go         stops and retries (phase.go, failures.go); status.go: metrics
package task
