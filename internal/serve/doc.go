// Package serve takes records over HTTP for those who do not speak Kafka: impressions, selections and payoffs. What is wrong with a
// record is found by the decoder that the worker reads with; what is not is written to its topic, and answered once all
// in-sync replicas have it. The answer to an impression is its ranking, which the door reads from the rankings topic as any
// consumer would, outside the worker's group; a worker that is late is stood in for by the order of utilities.
//
// Goroutines: Run owns one that reads each partition of the rankings (tail), one that looks after what changes (watch), and those
// that write an impression or look for a ranking, each with a deadline and both bounded in number. Run waits for all of them.
package serve
