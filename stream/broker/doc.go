// Package broker is the worker's Kafka client, except for group membership. It fetches, produces idempotently, fences earlier owners, reads
// the facts that the protocol checks, and creates topics. Each call carries out one request of package stream/task.
//
// kafka-go's Transport owns connections, TLS, SASL and coordinator look-ups, kmsg encodes requests and decodes answers (stream/wire), and
// record batches are encoded and decoded here, since libraries unpack a batch whole.
//
// A Client is safe for concurrent use. The Transport's goroutines end with Close, or with the deadline of their request. A call returns
// when its context ends. Its request may still reach the broker later, like any request whose answer is lost. Memory that an abandoned
// request still reads is never reused.
package broker
