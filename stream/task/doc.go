// Package task is the protocol of one partition number as a pure machine: acquire, fence, check, replay and adopt,
// steady state, checkpoints, drain. Requests go out, replies come in; the shell (package stream) executes them, and
// so does the randomised model. It does no I/O, reads no clock and starts no goroutine.
//
// # File map
//
// Types of state that belongs together, each with its own rules:
//
//	runner.go       what lives from the end of an acquire to the next restart; the types below are parts of it
//	checkpoint.go   checkpoints: changes on their way to the store
//	outbox.go       outbox: rankings and dead letters on their way to Kafka
//	lookup.go       lookups: ids that the store is asked for
//	queue.go        queues: input records that are fetched and not yet stepped
//	owner.go        ownership: whether the stored state is ours; probe.go asks
//	commit.go       commits: offsets for the group's coordinator
//	expiry_walk.go  expiryWalk: the walk over ids whose deadlines are past; expire.go does it
//	replay.go       replay: cursor.go, the decisions in the log, and recorded.go, the order in which records were taken in
//	clock.go        clock: Kafka's time
//	failures.go     failures: what keeps failing, each with a backoff
//	timer.go        timers
//	witness.go      witness: what a record of a topic must still be
//
// Methods of Task, which ask them and send the requests:
//
//	task.go         Advance, Handle, Drain; what an error means
//	ask.go          requests and replies; request.go: what can be asked for
//	acquire.go      taking the partition over; acquisition.go: what that has found out
//	fence.go        fencing earlier owners
//	check.go        comparing topics and store with the state; facts.go: what has to hold
//	run.go          the round of the steady state
//	choose.go       which queue's record is next; step.go steps it
//	read.go         fetching inputs; adopt.go: fetching decisions in a replay
//	produce.go      producing; size.go: what a batch takes
//	save.go         saving checkpoints and committing offsets
//	stop.go         stopping, and trying again; phase.go: the phases and reasons
//	status.go       the task's condition, for metrics and people
package task
