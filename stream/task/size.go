package task

// What a record batch takes at most, in bytes, beyond its keys, values and headers. Package broker encodes by it.
const (
	// BatchHeaderSize is the size of a batch, of Kafka's second version, without its records.
	BatchHeaderSize = 61
	// RecordOverhead bounds what a record takes beyond its key, value and headers: length,
	// attributes, timestamp delta, offset delta, the lengths of key and value, the number of headers.
	RecordOverhead = 5 + 1 + 10 + 5 + 5 + 5 + 5
	// HeaderOverhead bounds what a record's header takes beyond its key and value: their lengths.
	HeaderOverhead = 5 + 5
)

// CompressionOverhead bounds how much larger than n bytes of records their compressed form can be. We do not compress, but a
// broker does where the topic's compression.type names a codec, and holds what comes of it against max.message.bytes. What a
// codec cannot make smaller it stores in blocks, each with a header: with snappy, which adds most, that is 16 bytes and 10 for
// each 32 KiB. The bound is far above that, for how data is cut into blocks is the libraries' own affair.
func CompressionOverhead(n int) int { return n/64 + 128 }

// batchRoom is what the records of one batch may take in a topic with the given max.message.bytes.
func batchRoom(limit int) int { return limit - BatchHeaderSize - CompressionOverhead(limit) }
