package broker

import (
	"bytes"
	"encoding/binary"
	"io"
	"math/rand/v2"
	"testing"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/s2"
	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"
	"github.com/stretchr/testify/require"

	"github.com/ranker-worker/ranker-worker/stream/task"
)

var codecs = []Compression{None, Gzip, Snappy, LZ4, Zstd}

// xerialBlock is how much Kafka's Java clients put into a block of snappy.
const xerialBlock = 32 << 10

// compress is src as a producer compresses it.
func compress(t require.TestingT, c Compression, src []byte) []byte {
	var out bytes.Buffer
	write := func(w io.WriteCloser) {
		_, err := w.Write(src)
		require.NoError(t, err)
		require.NoError(t, w.Close())
	}
	switch c {
	case Gzip:
		write(gzip.NewWriter(&out))
	case Snappy:
		out.Write(xerialHeader)
		for len(src) > 0 {
			n := min(len(src), xerialBlock)
			block := s2.EncodeSnappy(nil, src[:n])
			out.Write(binary.BigEndian.AppendUint32(nil, uint32(len(block))))
			out.Write(block)
			src = src[n:]
		}
	case LZ4:
		w := lz4.NewWriter(&out)
		require.NoError(t, w.Apply(lz4.ChecksumOption(false), lz4.BlockSizeOption(lz4.Block64Kb)))
		write(w)
	case Zstd:
		e, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithZeroFrames(true), zstd.WithEncoderConcurrency(1))
		require.NoError(t, err)
		out.Write(e.EncodeAll(src, nil))
		require.NoError(t, e.Close())
	default:
		return src
	}
	return out.Bytes()
}

// compressed is a batch as a producer compresses it.
func compressed(t require.TestingT, c Compression, batch []byte) []byte {
	b := append(batch[:BatchHeaderSize:BatchHeaderSize], compress(t, c, batch[BatchHeaderSize:])...)
	b[atAttributes+1] |= byte(c)
	return reseal(b)
}

// Incompressible data grows by no more than each codec's allowance.
func TestCompressionOverhead(t *testing.T) {
	noise := make([]byte, 3<<20)
	_, _ = rand.NewChaCha8([32]byte{}).Read(noise)
	for _, c := range codecs {
		for _, n := range []int{1, 100, xerialBlock - 1, xerialBlock + 1, len(noise)} {
			require.LessOrEqual(t, len(compress(t, c, noise[:n])), n+task.CompressionOverhead(n), "%v of %d bytes", c, n)
		}
	}
}
