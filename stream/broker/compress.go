package broker

import (
	"encoding/binary"
	"fmt"
	"io"
	"sync"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/s2"
	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"
)

// Compression is the codec of a batch's records, by its number on the wire.
type Compression uint8

// The codecs that Kafka knows. None is the default: see BenchmarkAppendBatch for what each costs.
const (
	None Compression = iota
	Gzip
	Snappy
	LZ4
	Zstd
)

var compressionNames = [...]string{"none", "gzip", "snappy", "lz4", "zstd"}

// String is the codec's name in Kafka's own configuration.
func (c Compression) String() string {
	if int(c) < len(compressionNames) {
		return compressionNames[c]
	}
	return fmt.Sprintf("codec %d", uint8(c))
}

// ParseCompression finds a codec by its name; the empty name is None.
func ParseCompression(name string) (Compression, error) {
	if name == "" {
		return None, nil
	}
	for c, n := range compressionNames {
		if n == name {
			return Compression(c), nil
		}
	}
	return None, fmt.Errorf("unknown compression %q: none, gzip, snappy, lz4 or zstd", name)
}

// The xerial framing of snappy, which Kafka's Java clients write: a magic, two versions, then blocks with their
// lengths.
var xerialHeader = []byte{0x82, 'S', 'N', 'A', 'P', 'P', 'Y', 0, 0, 0, 0, 1, 0, 0, 0, 1}

const xerialBlock = 32 << 10

var (
	zstdEncoder = sync.OnceValue(func() *zstd.Encoder {
		// One encoder serves all goroutines: EncodeAll keeps no state between calls.
		e, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithZeroFrames(true))
		if err != nil {
			panic(fmt.Sprintf("zstd refuses constant options: %v", err))
		}
		return e
	})
	gzipWriters = sync.Pool{New: func() any { return gzip.NewWriter(nil) }}
	lz4Writers  = sync.Pool{New: func() any {
		w := lz4.NewWriter(nil)
		if err := w.Apply(lz4.ChecksumOption(false), lz4.BlockSizeOption(lz4.Block64Kb)); err != nil {
			panic(fmt.Sprintf("lz4 refuses constant options: %v", err))
		}
		return w
	}}
)

// compress appends src to dst, compressed. Writing to memory cannot fail.
func compress(dst []byte, c Compression, src []byte) []byte {
	switch c {
	case Gzip:
		w := gzipWriters.Get().(*gzip.Writer)
		defer gzipWriters.Put(w)
		out := appender{dst}
		w.Reset(&out)
		mustWrite(w, src)
		return out.b
	case Snappy:
		dst = append(dst, xerialHeader...)
		for len(src) > 0 {
			n := min(len(src), xerialBlock)
			at := len(dst)
			dst = grow(dst, 4+s2.MaxEncodedLen(n))
			block := s2.EncodeSnappy(dst[at+4:cap(dst)], src[:n])
			dst = dst[:at+4+len(block)]
			binary.BigEndian.PutUint32(dst[at:], uint32(len(block)))
			src = src[n:]
		}
		return dst
	case LZ4:
		w := lz4Writers.Get().(*lz4.Writer)
		defer lz4Writers.Put(w)
		out := appender{dst}
		w.Reset(&out)
		mustWrite(w, src)
		return out.b
	case Zstd:
		return zstdEncoder().EncodeAll(src, dst)
	}
	return append(dst, src...)
}

func mustWrite(w io.WriteCloser, src []byte) {
	_, err := w.Write(src)
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		panic(fmt.Sprintf("compressing into memory: %v", err))
	}
}

type appender struct{ b []byte }

func (a *appender) Write(p []byte) (int, error) {
	a.b = append(a.b, p...)
	return len(p), nil
}
