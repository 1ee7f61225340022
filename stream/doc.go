// Package stream is the shell around the pure core: it talks to Kafka and to the store, and owns every goroutine of
// the worker. What is decided, and in which order things become durable, is decided by package task; here requests
// are carried out.
//
// # File map
//
//	worker.go      the supervisor: joins the group, runs one loop per partition number, drains
//	loop.go        one partition's loop: advances its task, carries its requests out, hands back the replies
//	stalls.go      says what partitions wait for, a line for each cause
//	placing.go     says by which partitioners producers place their keys, where that parts records
//	drops.go       says which learners drop, or have dropped, what would teach them, and which fields are misspelt
//	executor.go    Executor: the requests that concern Kafka or the store alone, one method each
//	traces.go      spans of batches, and of the requests for their sake, which tracedshell.go carries out
//	follow.go      reads what other partitions publish of their statistics, and hands it to the loops
//	announce.go    compares this worker's learners with those of the group's other workers
//	membership.go  the group membership: joins, a graceful leave
//	generation.go  what we own until the next rebalance: the supervisor, heartbeats, commits
//	heartbeat.go   the heartbeat request on the wire
//	balancer.go    which member owns which partition number: sticky, co-partitioned
//	metrics.go     the Prometheus metrics: counters and histograms
//	snapshot.go    what each partition is like at present, and the gauges made of it
//	server.go      /livez, /readyz, /metrics, /version
//	logging.go     kafka-go's log, passed on
//	failpoint.go   failpoints before and after each request, for tests
//
// # Ownership of goroutines
//
// Membership owns those of kafka.ConsumerGroup and of its own connections; they end by Close. Within a generation
// there are kafka-go's heartbeats, our watch over the topics' partition counts, and the one supervisor that
// Generation.Run was given. Each loop belongs to the supervisor, each request under way to its loop.
//
// # What once went wrong
//
//   - kafka-go's Client.Heartbeat (v0.4.51) never reports an error: it reads the response's fields in the wrong order,
//     so that the error code ends up in the throttle time. It also does not go to the coordinator. Hence heartbeat.go.
//   - kafka-go stops its own heartbeats when a generation ends, though tasks drain for a while after that: without
//     ours, a drain longer than the session timeout lost the membership (see Generation.Run).
//   - A function that returns ends its generation, and the group is joined again at once: a Close right after it then
//     waits for everybody's rebalance. Hence Run keeps the generation when its function has returned.
//   - kafka-go asks for topics in a way that creates missing ones where the broker allows it. Hence a look before the
//     first join.
package stream
