package broker

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"math/bits"

	"github.com/klauspost/compress/zstd"
)

// zstdReader unpacks zstd frame by frame, with windows no larger than the blocks require.
//
// A frame announces its decoder's window: up to 128 MiB at zstd's highest level, even for a few bytes. The decoder would allocate it before
// the first block. But a frame refers back only to its own output, whose size its blocks' headers bound. If that bound is lower, the
// decoder gets a frame with a smaller window.
type zstdReader struct {
	src    []byte // frames not begun
	dec    *zstd.Decoder
	within bool // in a frame
	header [zstd.HeaderMaxSize]byte
}

func (z *zstdReader) end() {
	z.src, z.within = nil, false
	if z.dec != nil {
		_ = z.dec.Reset(nil) // fails on a closed decoder only
	}
}

func (z *zstdReader) Read(p []byte) (int, error) {
	for {
		if z.within {
			n, err := z.dec.Read(p)
			if err == io.EOF {
				z.within, err = false, nil
			}
			if n > 0 || err != nil {
				return n, err
			}
		} else if len(z.src) == 0 {
			return 0, io.EOF
		} else if err := z.begin(); err != nil {
			return 0, err
		}
	}
}

// begin begins the next frame, or skips one without content.
func (z *zstdReader) begin() (err error) {
	f, err := readZstdFrame(z.src)
	if err != nil {
		return err
	}
	frame := z.src[:f.size]
	z.src = z.src[f.size:]
	if f.skip {
		return nil
	}
	if z.dec == nil {
		// Without goroutines of its own.
		if z.dec, err = zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true),
			zstd.WithDecoderMaxWindow(maxWindow)); err != nil {
			return err
		}
	}
	header := z.header[:copy(z.header[:f.header], frame)]
	if f.descriptor != 0 {
		header[zstdDescriptorAt] = f.descriptor
	}
	z.within = true
	return z.dec.Reset(io.MultiReader(bytes.NewReader(header), bytes.NewReader(frame[f.header:])))
}

// zstdFrame holds properties of a frame that are known before it is unpacked.
type zstdFrame struct {
	size       int  // with header and checksum
	header     int  // its header's
	skip       bool // it has no content
	window     uint64
	descriptor byte // replaces the header's by a lower one; 0: none
}

// Positions and sizes in a frame's header (RFC 8878, section 3.1.1.1).
const (
	zstdDescriptorAt = 5 // behind magic number and frame header descriptor, where a window is announced
	zstdMinLog       = 10
	zstdBlock        = 128 << 10 // largest output of a block
)

// errZstdFrame: the frame contradicts its header.
var errZstdFrame = errors.New("malformed frame")

func readZstdFrame(src []byte) (f zstdFrame, err error) {
	var h zstd.Header
	if err := h.Decode(src); err != nil {
		return f, err
	}
	if f.header = h.HeaderSize; h.Skippable {
		f.skip = true
		if int64(h.SkippableSize) > int64(len(src)-f.header) {
			return f, io.ErrUnexpectedEOF
		}
		f.size = f.header + int(h.SkippableSize)
		return f, nil
	}
	gives, size, err := zstdBlocks(src[f.header:])
	if err != nil {
		return f, err
	}
	if f.size = f.header + size; h.HasCheckSum {
		f.size += 4
	}
	if f.size > len(src) {
		return f, io.ErrUnexpectedEOF
	}
	if h.HasFCS {
		if h.FrameContentSize > gives {
			return f, fmt.Errorf("%w: it claims to hold %d bytes, its blocks %d at most", errZstdFrame, h.FrameContentSize, gives)
		}
		gives = h.FrameContentSize
	}
	if h.SingleSegment {
		f.window = gives
		return f, nil
	}
	f.window = h.WindowSize
	log := bits.Len64(max(gives, zstdBlock) - 1) // of the smallest sufficient power of two
	if window := uint64(1) << log; window < f.window {
		f.window, f.descriptor = window, byte(log-zstdMinLog)<<3
	}
	return f, nil
}

// zstdBlocks returns a bound of a frame's output, and the size of its blocks.
func zstdBlocks(src []byte) (gives uint64, size int, err error) {
	for {
		if len(src)-size < 3 {
			return 0, 0, io.ErrUnexpectedEOF
		}
		header := uint32(binary.LittleEndian.Uint16(src[size:])) | uint32(src[size+2])<<16
		last, kind, n := header&1 != 0, header>>1&3, int(header>>3)
		size += 3
		switch kind {
		case 0: // raw
			gives += uint64(n)
			size += n
		case 1: // one byte, n times
			gives += uint64(n)
			size++
		case 2: // compressed
			gives += zstdBlock
			size += n
		default:
			return 0, 0, fmt.Errorf("%w: a block of no known kind", errZstdFrame)
		}
		if last {
			return gives, size, nil
		}
	}
}

// zstdWindow returns the largest window of all frames.
func zstdWindow(src []byte) (largest int64, err error) {
	for len(src) > 0 {
		f, err := readZstdFrame(src)
		if err != nil {
			return 0, err
		}
		largest = max(largest, int64(min(f.window, math.MaxInt64)))
		src = src[f.size:]
	}
	return largest, nil
}
