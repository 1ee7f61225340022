package task

// Upper bounds of a record batch in bytes, beyond keys, values and headers. Package broker encodes within them.
const (
	// BatchHeaderSize is the size of a batch of version 2 without records.
	BatchHeaderSize = 61
	// RecordOverhead bounds a record's length, attributes, timestamp and offset deltas, lengths of key and value, and number of headers.
	RecordOverhead = 5 + 1 + 10 + 5 + 5 + 5 + 5
	HeaderOverhead = 5 + 5
)

// CompressionOverhead bounds by how many bytes n bytes of records can grow by compression. A broker
// compresses if the topic's compression.type names a codec, and applies max.message.bytes to the
// result. Incompressible data is stored in blocks with headers: snappy, the worst, adds 16 bytes and
func CompressionOverhead(n int) int { return n/64 + 128 }

// batchRoom returns the bytes for records in a batch with this max.message.bytes.
func batchRoom(limit int) int { return limit - BatchHeaderSize - CompressionOverhead(limit) }
