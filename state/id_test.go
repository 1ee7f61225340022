package state

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestIDOf_UUIDs(t *testing.T) {
	const text = "0190b8f2-7c1e-7d7a-9c1e-3f4b5a6c7d8e"
	id := IDOf([]byte(text))
	require.False(t, id.Hashed())
	require.Equal(t, strings.ReplaceAll(text, "-", ""), hex.EncodeToString(id[:]))
	require.Equal(t, text, id.String())
	require.Zero(t, testing.AllocsPerRun(100, func() { IDOf([]byte(text)) }))
	for _, other := range []string{
		strings.ToUpper(text), text[:35], text + "0", "{" + text + "}", strings.ReplaceAll(text, "-", ""), strings.ReplaceAll(text, "-", "_"),
		"0190b8f2-7c1e-7d7a-9c1e-3f4b5a6c7d8g", "0190b8f27-c1e-7d7a-9c1e-3f4b5a6c7d8e",
		"0190b8f2-7c1e-7d7a-1c1e-3f4b5a6c7d8e", "0190b8f2-7c1e-7d7a-cc1e-3f4b5a6c7d8e", // of other variants
	} {
		require.True(t, IDOf([]byte(other)).Hashed(), other)
	}
}

func TestIDOf_OtherTexts(t *testing.T) {
	for _, text := range []string{"", "i-1", strings.Repeat("x", 1000), strings.Repeat("-", 36)} {
		sum := sha256.Sum256([]byte(text))
		sum[8] |= 0xc0
		id := IDOf([]byte(text))
		require.Equal(t, sum[:16], id[:])
		require.True(t, id.Hashed())
		require.Equal(t, "sha256:"+hex.EncodeToString(sum[:16]), id.String())
	}
}

// FuzzIDOf: a text that is not hashed is returned by Text, and no UUID equals a digest.
func FuzzIDOf(f *testing.F) {
	f.Add([]byte("0190b8f2-7c1e-7d7a-9c1e-3f4b5a6c7d8e"))
	f.Add([]byte("00000000-0000-0000-8000-000000000000"))
	f.Add([]byte("i-1"))
	f.Fuzz(func(t *testing.T, text []byte) {
		id := IDOf(text)
		if !id.Hashed() {
			require.Equal(t, text, id.AppendText(nil))
			return
		}
		sum := sha256.Sum256(text)
		require.True(t, bytes.Equal(sum[:8], id[:8]))
	})
}

func TestPartitionOfIsTheJavaClientsDefaultPartitioner(t *testing.T) {
	const n = 1_000_003
	for key, hash := range map[string]int32{
		"21": -973932308, "foobar": -790332482, "a-little-bit-long-string": -985981536,
		"a-little-bit-longer-string":                       -1486304829,
		"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971,
		"abc": 479470107,
	} {
		require.Equal(t, (hash&0x7fffffff)%n, PartitionOf([]byte(key), n), key)
	}
	require.Equal(t, PartitionOf([]byte{}, 6), PartitionOf(nil, 6))
	require.Zero(t, PartitionOf([]byte("x"), 0))
}

func BenchmarkPartitionOf(b *testing.B) {
	key := []byte("0190b8f2-7c1e-7d7a-9c1e-3f4b5a6c7d8e")
	b.ReportAllocs()
	for b.Loop() {
		PartitionOf(key, 6)
	}
}
