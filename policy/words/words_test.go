package words

import (
	"errors"
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

var errText = errors.New("faulty")

// TestReader_ReadsAsWritten reads numbers of a text back.
func TestReader_ReadsAsWritten(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ints := rapid.SliceOfN(rapid.Int64(), 1, 5).Draw(t, "ints")
		floats := rapid.SliceOf(rapid.Float64()).Draw(t, "floats")
		text := AppendFloats(Append(nil, ':', ints...), ':', floats...)
		read := make([]int64, len(ints))
		r := Of(text, ':')
		r.Ints(read, math.MinInt64, math.MaxInt64)
		require.Equal(t, ints, read)
		require.True(t, slices.Equal(floats, r.Floats(math.Inf(-1), math.Inf(1))))
		require.NoError(t, r.End(errText))
	})
}

// TestReader_IntHasOneSpelling refuses numbers in other forms and beyond their bounds.
func TestReader_IntHasOneSpelling(t *testing.T) {
	for _, text := range []string{"", "+1", "01", "-0", " 1", "1 ", "1:", ":1", "1:2", "0", "-9", "4", "x", "0x1", "1_0", "1.0", "9223372036854775808"} {
		r := Of(text, ':')
		r.Int(1, 3)
		require.ErrorIs(t, r.End(errText), errText, text)
	}
	r := Of([]byte("-2:3"), ':')
	require.EqualValues(t, []int64{-2, 3}, []int64{r.Int(-2, 3), r.Int(-2, 3)})
	require.NoError(t, r.End(errText))
}

// TestReader_FloatIsBounded refuses NaN, and numbers beyond their bounds.
func TestReader_FloatIsBounded(t *testing.T) {
	for _, text := range []string{"", "NaN", "Inf", "-0.1", "1.1", "x", "0.5:"} {
		r := Of(text, ':')
		r.Float(0, 1)
		require.ErrorIs(t, r.End(errText), errText, text)
	}
}

// TestReader_ReadsNothingAfterAFault reads behind a faulty word.
func TestReader_ReadsNothingAfterAFault(t *testing.T) {
	r := Of("1 x 2 3", ' ')
	require.EqualValues(t, 1, r.Int(0, 9))
	require.Zero(t, r.Int(0, 9))
	require.Zero(t, r.Int(0, 9))
	require.False(t, r.Left())
	require.Empty(t, r.Word())
	require.Empty(t, r.Rest())
	require.Empty(t, r.Floats(0, 9))
	require.ErrorIs(t, r.End(errText), errText)
}

// TestReader_Rest returns separators, too, and fails where no word is left.
func TestReader_Rest(t *testing.T) {
	r := Of("a b c", ' ')
	require.Equal(t, "a", string(r.Word()))
	require.Equal(t, "b c", string(r.Rest()))
	require.NoError(t, r.End(errText))
	require.Empty(t, r.Rest())
	require.ErrorIs(t, r.End(errText), errText)
}

// TestReader_AllocatesNothing reads numbers, as a follower does for each published field.
func TestReader_AllocatesNothing(t *testing.T) {
	text := []byte("9007199254740993 -5 0.123456789")
	require.Zero(t, testing.AllocsPerRun(100, func() {
		r := Of(text, ' ')
		r.Int(math.MinInt64, math.MaxInt64)
		r.Int(-5, 0)
		r.Float(0, 1)
		require.NoError(t, r.End(errText))
	}))
}
