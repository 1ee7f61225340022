package broker

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/klauspost/compress/s2"
)

// xerialHeader begins snappy's xerial framing, written by Kafka's Java clients: a magic and two versions. Blocks with their lengths follow.
var xerialHeader = []byte{0x82, 'S', 'N', 'A', 'P', 'P', 'Y', 0, 0, 0, 0, 1, 0, 0, 0, 1}

// snappyReader unpacks snappy block by block: a bare block, as librdkafka and franz-go write it, or blocks in xerial's framing. As in
// Kafka's Java client, framed streams may be concatenated, each with its header.
type snappyReader struct {
	src    []byte // still packed
	framed bool
	buf    []byte // present block
	unread []byte // part of buf
}

func (s *snappyReader) begin(src []byte) {
	s.src, s.framed, s.unread = src, xerial(src), nil
}

// end releases memory that is not kept for the next batch.
func (s *snappyReader) end() {
	s.src, s.unread = nil, nil
	if cap(s.buf) > smallWindow {
		s.buf = nil
	}
}

func (s *snappyReader) Read(p []byte) (int, error) {
	for len(s.unread) == 0 {
		if len(s.src) == 0 {
			return 0, io.EOF
		}
		block, rest, err := snappyBlock(s.src, s.framed)
		if err != nil {
			return 0, err
		}
		s.src = rest
		if s.buf, err = s2.Decode(s.buf[:cap(s.buf)], block); err != nil {
			return 0, err
		}
		s.unread = s.buf
	}
	n := copy(p, s.unread)
	s.unread = s.unread[n:]
	return n, nil
}

func xerial(src []byte) bool {
	return len(src) >= len(xerialHeader) && bytes.Equal(src[:8], xerialHeader[:8])
}

var errSnappyBlock = errors.New("block cut off")

// snappyBlock splits off the first block of src, which is not empty.
func snappyBlock(src []byte, framed bool) (block, rest []byte, err error) {
	if !framed {
		return src, nil, nil
	}
	for xerial(src) {
		src = src[len(xerialHeader):]
	}
	if len(src) == 0 {
		return []byte{0}, nil, nil // a header without blocks: of no bytes
	}
	if len(src) < 4 {
		return nil, nil, errSnappyBlock
	}
	n := int64(binary.BigEndian.Uint32(src))
	if src = src[4:]; n > int64(len(src)) {
		return nil, nil, fmt.Errorf("%w: %d bytes in %d", errSnappyBlock, n, len(src))
	}
	return src[:n], src[n:], nil
}

// snappyWindow returns the unpacked size of the largest block.
func snappyWindow(src []byte) (largest int64, err error) {
	framed := xerial(src)
	for len(src) > 0 {
		var block []byte
		if block, src, err = snappyBlock(src, framed); err != nil {
			return 0, err
		}
		n, err := s2.DecodedLen(block)
		if err != nil {
			return 0, err
		}
		// An element of 3 bytes yields at most 64: a larger claim is refused before memory is allocated.
		if n > 64*len(block) {
			return 0, fmt.Errorf("%d bytes claim to hold %d", len(block), n)
		}
		largest = max(largest, int64(n))
	}
	return largest, nil
}
