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
	"pgregory.net/rapid"

	"github.com/ranker-worker/ranker-worker/internal/test/memcap"
	"github.com/ranker-worker/ranker-worker/stream/task"
)

// unpacked is all that a codec gives.
func unpacked(c Compression, src []byte) ([]byte, error) {
	u, err := unpackers.unpack(c, src)
	if err != nil {
		return nil, err
	}
	defer u.close()
	return io.ReadAll(u)
}

// streamed is src in zstd as producers write it that do not know how much is to come: without its size, and flushed now
// and then.
func streamed(t require.TestingT, src []byte, flushEach int, o ...zstd.EOption) []byte {
	var frame bytes.Buffer
	w, err := zstd.NewWriter(&frame, append(o, zstd.WithSingleSegment(false), zstd.WithEncoderConcurrency(1))...)
	require.NoError(t, err)
	for len(src) > 0 {
		n := min(len(src), flushEach)
		_, err = w.Write(src[:n])
		require.NoError(t, err)
		require.NoError(t, w.Flush())
		src = src[n:]
	}
	require.NoError(t, w.Close())
	return frame.Bytes()
}

// text is n bytes that compress well, with matches at any distance.
func text(n int, seed uint64) []byte {
	r := rand.New(rand.NewPCG(seed, 1))
	b := make([]byte, 0, n)
	for len(b) < n {
		if from := len(b) - 1 - r.IntN(1<<uint(r.IntN(25))); from > 0 && r.IntN(10) > 0 {
			b = append(b, b[from:min(len(b), from+r.IntN(500))]...)
		} else {
			b = append(b, byte(r.Uint32()), byte(r.Uint32()), byte(r.Uint32()))
		}
	}
	return b[:n]
}

// Frames of any window, size and level come back, with the smaller window that we show the decoder.
func TestZstdFrames(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var packed, want []byte
		for range rapid.IntRange(1, 3).Draw(t, "frames") {
			if rapid.Bool().Draw(t, "skipped one before") {
				packed = append(packed, 0x50, 0x2a, 0x4d, 0x18, 3, 0, 0, 0, 'x', 'y', 'z')
			}
			src := text(rapid.OneOf(rapid.IntRange(0, 2000), rapid.IntRange(0, 3<<20)).Draw(t, "bytes"), rapid.Uint64().Draw(t, "seed"))
			window := 1 << rapid.IntRange(10, 27).Draw(t, "window")
			level := rapid.SampledFrom([]zstd.EncoderLevel{zstd.SpeedFastest, zstd.SpeedDefault}).Draw(t, "level")
			options := []zstd.EOption{zstd.WithWindowSize(window), zstd.WithEncoderLevel(level),
				zstd.WithEncoderCRC(rapid.Bool().Draw(t, "checksum"))}
			if rapid.Bool().Draw(t, "streamed") {
				packed = append(packed, streamed(t, src, rapid.IntRange(1, 1<<20).Draw(t, "flush")+len(src)/50, options...)...)
			} else {
				e, err := zstd.NewWriter(nil, append(options, zstd.WithZeroFrames(true))...)
				require.NoError(t, err)
				packed = e.EncodeAll(src, packed)
			}
			want = append(want, src...)
		}
		got, err := unpacked(Zstd, packed)
		require.NoError(t, err)
		require.True(t, bytes.Equal(want, got))
		_, err = unpacked(Zstd, append(packed, 1, 2, 3))
		require.ErrorIs(t, err, ErrCorrupt)
	})
}

// A frame of a few bytes that announces a window of 128 MiB, which zstd's highest level does, is read without one.
func TestZstdWindowIsNotBelieved(t *testing.T) {
	src := bytes.Repeat([]byte("records"), 20)
	frame := streamed(t, src, 7, zstd.WithWindowSize(maxWindow))
	var plain []byte
	var err error
	took := memcap.Allocated(func() { plain, err = unpacked(Zstd, frame) })
	require.NoError(t, err)
	require.Equal(t, src, plain)
	require.Less(t, took, uint64(8<<20))

	// More than Kafka's Java client takes.
	frame[zstdDescriptorAt] = (28 - zstdMinLog) << 3
	_, err = unpacked(Zstd, frame)
	require.NoError(t, err, "it needs less")
	huge := []byte{0x28, 0xb5, 0x2f, 0xfd, 0, (28 - zstdMinLog) << 3}
	for range 2000 {
		huge = append(huge, 2|0xf8, 0xff, 0x0f, 'x')
	}
	_, err = unpacked(Zstd, append(huge, 1, 0, 0))
	require.ErrorIs(t, err, task.ErrUnsupported)
	require.ErrorContains(t, err, "134217728")
}

// A frame's claimed content size is not believed either.
func TestZstdSizeIsNotBelieved(t *testing.T) {
	e, err := zstd.NewWriter(nil, zstd.WithSingleSegment(true))
	require.NoError(t, err)
	frame := e.EncodeAll(bytes.Repeat([]byte{'x'}, 100_000), nil)
	require.EqualValues(t, 0xa0, frame[4]&0xe0, "four bytes of size, no window")
	binary.LittleEndian.PutUint32(frame[5:], 100<<20)
	took := memcap.Allocated(func() { _, err = unpacked(Zstd, frame) })
	require.ErrorIs(t, err, ErrCorrupt)
	require.Less(t, took, uint64(1<<20))
}

// Large windows are unpacked one batch at a time, and their memory is let go.
func TestLargeWindows(t *testing.T) {
	src := text(9<<20, 7)
	frame := streamed(t, src, 1<<20, zstd.WithWindowSize(16<<20))
	for range 2 {
		done := make(chan []byte)
		for range 3 {
			go func() {
				got, _ := unpacked(Zstd, frame)
				done <- got
			}()
		}
		for range 3 {
			require.True(t, bytes.Equal(src, <-done))
		}
	}
	u := <-unpackers.large
	require.Nil(t, u.zstd.dec)
	unpackers.large <- u
}

// Snappy comes in blocks of any size, in xerial's framing or bare, and framed streams may follow each other.
func TestSnappyBlocks(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		src := text(rapid.IntRange(0, 1<<20).Draw(t, "bytes"), rapid.Uint64().Draw(t, "seed"))
		bare := s2.EncodeSnappy(nil, src)
		got, err := unpacked(Snappy, bare)
		require.NoError(t, err)
		require.True(t, bytes.Equal(src, got))

		var framed []byte
		for rest := src; len(rest) > 0 || len(framed) == 0; {
			n := min(len(rest), rapid.IntRange(0, 300_000).Draw(t, "block"))
			if len(framed) == 0 || rapid.Bool().Draw(t, "header") {
				framed = append(framed, xerialHeader...)
			}
			block := s2.EncodeSnappy(nil, rest[:n])
			framed = append(binary.BigEndian.AppendUint32(framed, uint32(len(block))), block...)
			rest = rest[n:]
		}
		got, err = unpacked(Snappy, framed)
		require.NoError(t, err)
		require.True(t, bytes.Equal(src, got))
		_, err = unpacked(Snappy, framed[:len(framed)-1])
		require.ErrorIs(t, err, ErrCorrupt)
	})
	// A block that claims more than it can hold.
	_, err := unpacked(Snappy, binary.AppendUvarint(nil, 100<<20))
	require.ErrorIs(t, err, ErrCorrupt)
	_, err = unpacked(Snappy, xerialHeader)
	require.NoError(t, err)
}

// Bytes behind the last record, compressed, are ignored with gzip and lz4, as in Kafka's Java client.
func TestGarbageBehindTheRecords(t *testing.T) {
	var records []byte
	records = appendRecords(records, []task.OutMessage{message("a"), message("b")})
	gz, l4 := new(bytes.Buffer), new(bytes.Buffer)
	for _, w := range []io.WriteCloser{gzip.NewWriter(gz), lz4.NewWriter(l4)} {
		_, err := w.Write(records)
		require.NoError(t, err)
		require.NoError(t, w.Close())
	}
	for c, packed := range map[Compression][]byte{Gzip: gz.Bytes(), LZ4: l4.Bytes()} {
		b := compressed(t, c, encode(t, 0, BatchInfo{}, message("a"), message("b")))
		b = append(append(b[:BatchHeaderSize:BatchHeaderSize], packed...), "garbage"...)
		batch, _, err := ReadBatch(reseal(b))
		require.NoError(t, err)
		got, _, err := readRecords(&batch, 0, 0)
		require.NoError(t, err)
		require.Len(t, got, 2)
	}
	// Records that the header does not count are no garbage, whatever the codec.
	for _, c := range codecs {
		b := compressed(t, c, encode(t, 0, BatchInfo{}, message("a"), message("b")))
		binary.BigEndian.PutUint32(b[atCount:], 1)
		batch, _, err := ReadBatch(reseal(b))
		require.NoError(t, err)
		_, _, err = readRecords(&batch, 0, 0)
		require.ErrorIs(t, err, ErrCorrupt)
	}
}
