package broker

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/s2"
	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"

	"github.com/ranker-worker/ranker-worker/stream/task"
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

// CompressionOverhead bounds how much larger than n bytes of records their compressed form can be.
func CompressionOverhead(n int) int { return n/64 + 128 }

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

// errTooBig is a batch that would take more memory than one may.
func errTooBig(limit int) error {
	return fmt.Errorf("%w: it takes more than %d bytes uncompressed", ErrCorrupt, limit)
}

// decompress returns src uncompressed, in new memory of at most limit bytes and little more on the way.
func decompress(c Compression, src []byte, limit int) ([]byte, error) {
	switch c {
	case Gzip:
		r, err := gzip.NewReader(bytes.NewReader(src))
		if err != nil {
			return nil, fmt.Errorf("%w: gzip: %w", ErrCorrupt, err)
		}
		return readAll(r, len(src), limit)
	case Snappy:
		return unsnappy(src, limit)
	case LZ4:
		r := lz4Readers.Get().(*lz4.Reader)
		defer lz4Readers.Put(r)
		r.Reset(bytes.NewReader(src))
		return readAll(r, len(src), limit)
	case Zstd:
		return unzstd(src, limit)
	}
	return nil, fmt.Errorf("%w: unknown compression: %v", task.ErrUnsupported, c)
}

var lz4Readers = sync.Pool{New: func() any { return lz4.NewReader(nil) }}

func readAll(r io.Reader, compressed, limit int) ([]byte, error) {
	buf := bytes.NewBuffer(make([]byte, 0, min(3*compressed+bytes.MinRead, limit+bytes.MinRead)))
	n, err := buf.ReadFrom(io.LimitReader(r, int64(limit)+1))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	if n > int64(limit) {
		return nil, errTooBig(limit)
	}
	return buf.Bytes(), nil
}

func unsnappy(src []byte, limit int) ([]byte, error) {
	if len(src) < len(xerialHeader) || !bytes.Equal(src[:8], xerialHeader[:8]) {
		return appendSnappy(nil, src, limit) // a bare block, as librdkafka writes it
	}
	src = src[len(xerialHeader):]
	dst := make([]byte, 0, min(3*len(src), limit))
	for len(src) > 0 {
		if len(src) < 4 {
			return nil, fmt.Errorf("%w: snappy block cut off", ErrCorrupt)
		}
		n := int64(binary.BigEndian.Uint32(src))
		src = src[4:]
		if n > int64(len(src)) {
			return nil, fmt.Errorf("%w: snappy block of %d bytes in %d", ErrCorrupt, n, len(src))
		}
		var err error
		if dst, err = appendSnappy(dst, src[:n], limit); err != nil {
			return nil, err
		}
		src = src[n:]
	}
	return dst, nil
}

func appendSnappy(dst, block []byte, limit int) ([]byte, error) {
	n, err := s2.DecodedLen(block)
	if err != nil {
		return nil, fmt.Errorf("%w: snappy: %w", ErrCorrupt, err)
	}
	// A snappy element of 3 bytes gives at most 64: what claims more is not worth the memory.
	if n > limit-len(dst) {
		return nil, errTooBig(limit)
	}
	if n > 64*len(block) {
		return nil, fmt.Errorf("%w: snappy: %d bytes claim to hold %d", ErrCorrupt, len(block), n)
	}
	dst = grow(dst, n)
	out := dst[len(dst) : len(dst)+n]
	if _, err := s2.Decode(out, block); err != nil {
		return nil, fmt.Errorf("%w: snappy: %w", ErrCorrupt, err)
	}
	return dst[:len(dst)+n], nil
}

// zstdDecoder decodes whole frames into their result, as far as that has room, so that a window that a frame announces is
// never allocated beside it: a frame of a few bytes may announce 128 MiB.
var zstdDecoder = sync.OnceValue(func() *zstd.Decoder {
	d, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(0), zstd.WithDecoderLowmem(true),
		zstd.WithDecoderMaxWindow(maxZstdWindow), zstd.WithDecodeAllCapLimit(true))
	if err != nil {
		panic(fmt.Sprintf("zstd refuses constant options: %v", err))
	}
	return d
})

// maxZstdWindow is the largest window that zstd's levels without --long use.
const maxZstdWindow = 128 << 20

func unzstd(src []byte, limit int) ([]byte, error) {
	var h zstd.Header
	if err := h.Decode(src); err != nil {
		return nil, fmt.Errorf("%w: zstd: %w", ErrCorrupt, err)
	}
	room := 4 * len(src) // more than records mostly need
	if h.HasFCS {
		room = int(min(h.FrameContentSize, uint64(limit)))
	}
	for {
		room = min(room, limit)
		out, err := zstdDecoder().DecodeAll(src, make([]byte, 0, room))
		switch {
		case err == nil:
			return out, nil
		case !errors.Is(err, zstd.ErrDecoderSizeExceeded):
			return nil, fmt.Errorf("%w: zstd: %w", ErrCorrupt, err)
		case room == limit:
			return nil, errTooBig(limit)
		}
		room = max(4*room, 1<<10)
	}
}
