// Package broker is the worker's Kafka client, except for group membership. It fetches, produces idempotently, fences
// earlier owners, reads the facts that the protocol checks, and creates topics. Each call carries out one request of
// package stream/task.
//
// It uses kafka-go's Transport, which owns connections, TLS, SASL, version negotiation and coordinator look-ups. This
// package encodes and decodes the requests on the data path itself (wire.go), inside the Transport's connections.
// kafka-go's own types hide things that the protocol needs: control batches, lastOffsetDelta, the negotiated
// versions.
//
//	batch.go     record batches (magic 2): encode
//	decode.go    record batches: their headers, control records
//	record.go    their records, one by one; source.go: the bytes they are read from
//	trace.go     the traces that records name in their headers
//	unpack.go    gzip, snappy, lz4, zstd, as a stream; snappy.go, zstd.go: framing that the libraries lack
//	wire.go      requests through the Transport's connections, bounded answers
//	client.go    Client: options, transport, watchdog
//	security.go  SASL mechanisms
//	oauthbearer.go  the one that kafka-go lacks
//	metadata.go  which broker leads which partition
//	fetch.go     Fetch: a piece of a topic, aborted transactions filtered
//	produce.go   Produce: one idempotent batch
//	fence.go     InitProducerID, AddPartitionsToTxn, EndTxn
//	retire.go    WriteTxnMarkers
//	describe.go  Describe, Committed
//	admin.go     Check and Create for the topics command
//
// A Client is safe for concurrent use. The Transport's goroutines end with Close, or with the deadline of their
// request. A call returns when its context ends. Its request may still reach the broker later, as any request may
// whose answer is lost. Memory that an abandoned request still reads is never reused.
package broker
