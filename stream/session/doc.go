// Package session logs connections to Kafka in, and in again before the session ends that the broker has granted (KIP-368). kafka-go
// logs in once, and does not ask how long that counts: brokers then hang up on it in the middle of things.
//
// A connection is logged in again by the goroutine that is about to write a request, before that request, while no answer is awaited on
// the connection. Nothing runs beside. A connection that nobody writes to is left alone: brokers let one log in again whose session
// is over.
package session
