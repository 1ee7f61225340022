package policy

import (
	"math"

	"testing"

	"github.com/stretchr/testify/require"
)

// The first outputs of the reference implementation, as in other languages' tests of it.
func TestKey_IsSplitMix64(t *testing.T) {
	for k, want := range []uint64{6457827717110365317, 3203168211198807973, 9817491932198370423, 4593380528125082431} {
		require.Equal(t, want, Key(1234567).Uint64(uint64(k)))
	}
	require.Equal(t, uint64(0xe220a8397b1dcdaf), Key(0).Uint64(0))
	require.Equal(t, float64(0xe220a8397b1dcdaf>>11)/(1<<53), Key(0).Float64(0))
}

// Rankings in the log were made with these; they were computed by another program.
func TestDecisionKey_StaysAsItIs(t *testing.T) {
	require.Equal(t, Key(0xa37f9fb35041fabe), DecisionKey(1, 2, "feed", 3, 1042))
	require.Equal(t, Key(0x76af0845bc47b2a4), DecisionKey(0, 0, "", 0, 0))
	require.Equal(t, Key(0x8bf9ab07af3773b), DecisionKey(math.MaxUint64, 1, "front-page", -1, 1<<40))
}

func TestDecisionKey_EveryPartMatters(t *testing.T) {
	seen := map[Key]bool{}
	count := 0
	add := func(seed, salt uint64, learner string, partition int32, offset int64) {
		seen[DecisionKey(seed, salt, learner, partition, offset)] = true
		count++
	}
	for _, learner := range []string{"", "\x00", "a", "a\x00", "feed", "feed-12345", "feed-12346", "feed-123\x00\x00"} {
		for part := range int32(3) {
			for offset := range int64(100) {
				for word := range uint64(3) {
					add(word, 5, learner, part, offset)
					add(5, word+10, learner, part, offset)
				}
			}
		}
	}
	add(0, 0, "", -1, 0)
	add(0, 0, "", 0, math.MaxUint32)
	require.Len(t, seen, count)
}

// The numbers that decisions draw, over consecutive offsets and consecutive counters, are uniform: Pearson's χ² on 256
// cells, of the high and the low byte, and each bit. Z is χ² made normal by Wilson and Hilferty's cube root; |Z| > 6 has
// a probability of 2·10⁻⁹. 2·128 further ones for the bits of neighbours make a false alarm likely once in 10⁶ at most.
func TestKey_Uniform(t *testing.T) {
	const decisions, draws = 20_000, 10
	var high, low, pairs [256]int
	var ones, flips [64]int
	var mean float64
	for offset := range int64(decisions) {
		key := DecisionKey(1, 7, "feed", 0, offset)
		next := DecisionKey(1, 7, "feed", 0, offset+1)
		for c := range uint64(draws) {
			x := key.Uint64(c)
			high[x>>56]++
			low[x&0xff]++
			pairs[x>>60<<4|key.Uint64(c+1)>>60]++
			mean += key.Float64(c)
			different := x ^ next.Uint64(c)
			for b := range 64 {
				ones[b] += int(x >> b & 1)
				flips[b] += int(different >> b & 1)
			}
		}
	}
	const total = decisions * draws
	for name, cells := range map[string][256]int{"high": high, "low": low} {
		var chi2 float64
		const expected = total / 256.0
		for _, n := range cells {
			chi2 += (float64(n) - expected) * (float64(n) - expected) / expected
		}
		const freedom = 255.0
		z := (math.Cbrt(chi2/freedom) - (1 - 2/(9*freedom))) / math.Sqrt(2/(9*freedom))
		require.Less(t, math.Abs(z), 6.0, name)
	}
	for _, n := range pairs { // neighbours in one stream: each cell has about 781 ± 28
		require.InDelta(t, total/256.0, n, 6*math.Sqrt(total/256.0))
	}
	for b := range 64 {
		require.InDelta(t, total/2, ones[b], 6*math.Sqrt(total)/2, "bit %d", b)
		require.InDelta(t, total/2, flips[b], 6*math.Sqrt(total)/2, "bit %d of neighbours", b)
	}
	require.InDelta(t, 0.5, mean/total, 6*math.Sqrt(1.0/12/total))
}
