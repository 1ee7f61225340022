package event

import (
	"math"
	"math/big"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func requireNumber(t require.TestingT, s string) {
	var n decimal
	end, f := scanNumber([]byte(s), 0, &n)
	require.Equal(t, sound, f, s)
	require.Equal(t, len(s), end, s)
	if !n.short {
		return
	}
	want, err := strconv.ParseFloat(s, 64)
	require.NoError(t, err, s)
	require.Equal(t, math.Float64bits(want), math.Float64bits(n.float()), "%s is %v, not %v", s, want, n.float())
}

// TestNumbers: a short number is read as by the standard library, bit for bit. Values half-way between two floats,
// and their neighbours, are included.
func TestNumbers(t *testing.T) {
	for _, s := range []string{"0", "-0", "0.0", "-0.0000000000000000000", "1", "10", "9007199254740991", "9007199254740992", "9007199254740993",
		"9007199254740995", "9999999999999999999", "0.1", "0.9999999999999999999", "1844674407370955161.5", "0.0000000000000000001",
		"5000000000000000000.0", "4503599627370496.5", "4503599627370497.5", "4503599627370498.50", "-1234567.8901234567890"} {
		requireNumber(t, s)
	}
	rapid.Check(t, func(t *rapid.T) {
		requireNumber(t, rapid.StringMatching(`-?(0|[1-9][0-9]{0,19})(\.[0-9]{1,20})?`).Draw(t, "number"))
		requireNumber(t, rapid.StringMatching(`-?(0|[1-9][0-9]{0,4})\.[0-9]{12,19}`).Draw(t, "number"))

		// Half-way between a float from 2^-3 to 2^10 that has few bits behind the point, and the next, the decimals are few enough.
		x := rapid.Float64Range(1<<47, 1<<52).Draw(t, "x")
		half := new(big.Float).SetPrec(200).Add(big.NewFloat(x), big.NewFloat(math.Nextafter(x, math.Inf(1))))
		half.Quo(half, big.NewFloat(2))
		text := half.Text('f', -1)
		requireNumber(t, text)
		for _, last := range []string{"1", "001"} {
			if strings.Contains(text, ".") {
				requireNumber(t, text+last)
			}
		}
	})
}

// TestNumbers_Half: those that lie half-way are short, so that it is our arithmetic that is tried.
func TestNumbers_Half(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		whole := rapid.Uint64Range(1<<52, 1<<53-1).Draw(t, "whole")
		s := strconv.FormatUint(whole, 10) + ".5"
		var n, above decimal
		_, f := scanNumber([]byte(s), 0, &n)
		require.Equal(t, sound, f)
		require.True(t, n.short)
		require.Equal(t, float64(whole+whole&1), n.float(), s)
		_, f = scanNumber([]byte(s+"01"), 0, &above)
		require.Equal(t, sound, f)
		require.True(t, above.short)
		require.Equal(t, float64(whole+1), above.float(), s)
	})
}
