package broker

import (
	"bytes"
	"fmt"
	"io"
	"runtime"

	"github.com/klauspost/compress/gzip"
	"github.com/pierrec/lz4/v4"

	"github.com/ranker-worker/ranker-worker/stream/task"
)

// Compressed records are unpacked as a stream. Their unpacked size is not bounded: a legal batch of a megabyte can unpack to gigabytes.
// Memory is bounded by an answer's records and the codec's window (zstd) or block (snappy and lz4).
const (
	// smallWindow is the window of zstd's levels up to 19. Gzip and lz4 never need as much.
	smallWindow = 8 << 20
	// maxWindow is the largest window that zstd, and so Kafka's Java client, accepts by default.
	maxWindow = 128 << 20
	// unpackAhead is the number of bytes unpacked ahead of the reader.
	unpackAhead = 32 << 10
)

// unpackers is shared by the process. Unpacking waits only for the processor, so more at a time than processors would only use memory. One
// batch at a time may need more than a smallWindow.
var unpackers = newUnpackerSet(runtime.GOMAXPROCS(0))

type unpackerSet struct{ small, large chan *unpacker }

func newUnpackerSet(n int) *unpackerSet {
	s := &unpackerSet{small: make(chan *unpacker, n), large: make(chan *unpacker, 1)}
	for range n {
		s.small <- &unpacker{home: s.small}
	}
	s.large <- &unpacker{home: s.large, once: true}
	return s
}

// Compression is the codec of a batch's records, by its number on the wire.
type Compression uint8

const (
	None Compression = iota
	Gzip
	Snappy
	LZ4
	Zstd
)

var compressionNames = [...]string{"none", "gzip", "snappy", "lz4", "zstd"}

// String returns the codec's name in Kafka's configuration.
func (c Compression) String() string {
	if int(c) < len(compressionNames) {
		return compressionNames[c]
	}
	return fmt.Sprintf("codec %d", uint8(c))
}

// unpacker unpacks one batch after another, and reuses its codecs' buffers.
type unpacker struct {
	home  chan *unpacker
	once  bool // its buffers are not kept
	codec Compression
	in    bytes.Reader
	out   io.Reader
	ahead [unpackAhead]byte

	gzip   *gzip.Reader
	lz4    *lz4.Reader
	snappy snappyReader
	zstd   zstdReader
}

// unpack begins to unpack src. It waits for a free unpacker; the caller returns it with close.
func (s *unpackerSet) unpack(c Compression, src []byte) (*unpacker, error) {
	window, err := windowOf(c, src)
	if err != nil {
		return nil, err
	}
	from := s.small
	if window > smallWindow {
		from = s.large
	}
	u := <-from
	if err := u.begin(c, src); err != nil {
		u.close()
		return nil, fmt.Errorf("%w: %v: %w", ErrCorrupt, c, err)
	}
	return u, nil
}

// windowOf returns the number of unpacked bytes needed at a time, or 0 if it is never more than a smallWindow.
func windowOf(c Compression, src []byte) (window int64, err error) {
	switch c {
	case Gzip, LZ4:
		return 0, nil
	case Snappy:
		window, err = snappyWindow(src)
	case Zstd:
		window, err = zstdWindow(src)
	default:
		return 0, fmt.Errorf("%w: unknown compression: %v", task.ErrUnsupported, c)
	}
	switch {
	case err != nil:
		return 0, fmt.Errorf("%w: %v: %w", ErrCorrupt, c, err)
	case window > maxWindow:
		return 0, fmt.Errorf("%w: %v needs a window of %d bytes, more than %d", task.ErrUnsupported, c, window,
			maxWindow)
	}
	return window, nil
}

func (u *unpacker) begin(c Compression, src []byte) (err error) {
	u.codec = c
	u.in.Reset(src)
	switch c {
	case Gzip:
		if u.gzip == nil {
			u.gzip = new(gzip.Reader)
		}
		u.out, err = u.gzip, u.gzip.Reset(&u.in)
	case LZ4:
		if u.lz4 == nil {
			u.lz4 = lz4.NewReader(nil)
		}
		u.lz4.Reset(&u.in)
		u.out = u.lz4
	case Snappy:
		u.snappy.begin(src)
		u.out = &u.snappy
	case Zstd:
		u.zstd.src = src
		u.out = &u.zstd
	}
	return err
}

// Read turns a codec's error into ErrCorrupt.
func (u *unpacker) Read(p []byte) (int, error) {
	n, err := u.out.Read(p)
	if err != nil && err != io.EOF {
		err = fmt.Errorf("%w: %v: %w", ErrCorrupt, u.codec, err)
	}
	return n, err
}

// close returns the unpacker. The large one's memory is released, since it is rarely needed.
func (u *unpacker) close() {
	u.in.Reset(nil)
	u.out = nil
	u.snappy.end()
	u.zstd.end()
	if u.once {
		u = &unpacker{home: u.home, once: true}
	}
	u.home <- u
}
