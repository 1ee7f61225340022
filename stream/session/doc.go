// Package session keeps connections to Kafka logged in, and logs in again before the broker's session ends (KIP-368). kafka-go logs in
// once, and brokers then close its connections at the session's end. Package broker and stream.Membership dial through it.
//
// The goroutine that writes a request first logs in again, if no answer is outstanding. There are no other goroutines. An unused connection
// is left alone: brokers accept a login after the session's end.
package session
