// Package broker is everything that the worker says to Kafka, group membership apart: fetch, idempotent produce, the
// fence, the facts that the protocol checks, and the topics' administration. Its calls map one to one on the effects
// of stream/task.
//
// It stands on kafka-go's Transport, which owns connections, TLS, SASL, version negotiation and coordinator look-ups.
// The requests on the data path are written and read by this package (wire.go), inside the Transport's connections,
// because kafka-go's own types hide what the protocol needs: control batches, lastOffsetDelta, the versions in use.
//
//	batch.go     record batches (magic 2): encode
//	decode.go    record batches: their headers, control records
//	record.go    their records, one by one; source.go: what these are read from
//	trace.go     the traces that records name in their headers
//	unpack.go    gzip, snappy, lz4, zstd, as a stream; snappy.go, zstd.go: what the libraries leave to us of it
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
// Who owns what: a Client is safe for concurrent use. The Transport's goroutines end with Close, or with the deadline
// of the request they carry. A call returns when its context ends; the request may still reach the broker later, as
// any request may whose answer got lost. Nothing that an abandoned request still reads is used again.
package broker
