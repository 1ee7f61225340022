// Package broker is the worker's Kafka client, except for group membership. It fetches, produces idempotently, fences earlier owners, reads
// the facts that the protocol checks, and creates topics. Each call carries out one request of package stream/task.
//
// It uses kafka-go's Transport, which owns connections, TLS, SASL, version negotiation and coordinator look-ups. The requests on the data
// path are encoded here (wire.go), since kafka-go's types hide control batches, lastOffsetDelta and the negotiated versions.
//
// A Client is safe for concurrent use. The Transport's goroutines end with Close, or with the deadline of their request. A call returns
// when its context ends. Its request may still reach the broker later, like any request whose answer is lost. Memory that an abandoned
// request still reads is never reused.
package broker
