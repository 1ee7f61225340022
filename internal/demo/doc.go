// Package demo plays the whole product in one process: an embedded Kafka broker and an embedded Redis, simulated users with hidden windows
// and late payoffs, and the real worker between them, over real sockets.
package demo
