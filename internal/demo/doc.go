// Package demo plays the whole product in one process, over real sockets: an embedded Kafka broker and Redis, simulated users with hidden
// windows and late payoffs, and the real worker.
package demo
