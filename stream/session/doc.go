// Package session keeps connections to Kafka logged in, and logs in again before the broker's session ends (KIP-368). kafka-go
// logs in once, and brokers then close its connections at the session's end. Package broker and stream.Membership dial through it.
//
// The goroutine that is about to write a request logs the connection in again first, if no answer is awaited on it. Nothing runs
// beside. An unused connection is left alone: brokers accept a login after the session's end.
package session
