package policy

// Key is a random-access stream of random numbers: number k is a function of the key and k. A replay with the same key draws the
// same numbers, in any order. Ranking records hold it as "seed".
//
// Number k is output k, from 0, of SplitMix64 seeded with the key: G. L. Steele, D. Lea, C. H. Flood, "Fast splittable pseudorandom
// number generators", OOPSLA 2014, with the finaliser of their reference implementation (D. Stafford's variant 13).
type Key uint64

// goldenGamma is SplitMix64's increment: the odd integer nearest to 2⁶⁴ divided by the golden ratio.
const goldenGamma = 0x9e3779b97f4a7c15

// mix64 is SplitMix64's finaliser, a bijection.
func mix64(z uint64) uint64 {
	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9
	z = (z ^ (z >> 27)) * 0x94d049bb133111eb
	return z ^ (z >> 31)
}

// Uint64 returns number counter, uniform on the 64-bit integers.
func (k Key) Uint64(counter uint64) uint64 {
	return mix64(uint64(k) + (counter+1)*goldenGamma)
}

// Float64 returns number counter as a multiple of 2⁻⁵³, uniform on [0,1).
func (k Key) Float64(counter uint64) float64 {
	return float64(k.Uint64(counter)>>11) * 0x1p-53
}

// DecisionKey returns the key of a learner's decision for the impression at offset of partition. seed is the learner's configured
// one; salt belongs to the stored state, so that two deployments of one configuration draw different numbers. Its values must never
// change: logged rankings were made with them.
func DecisionKey(seed, salt uint64, learner string, partition int32, offset int64) Key {
	h := absorb(0, seed)
	h = absorb(h, salt)
	// The length goes first, so that names padded to whole words stay distinct.
	h = absorb(h, uint64(len(learner)))
	for len(learner) > 0 {
		n := min(8, len(learner))
		var word uint64
		for i := range n {
			word |= uint64(learner[i]) << (8 * i)
		}
		h = absorb(h, word)
		learner = learner[n:]
	}
	h = absorb(h, uint64(uint32(partition)))
	return Key(absorb(h, uint64(offset)))
}

// absorb adds one word to a hash state. It is a bijection of the word, so decisions that differ in one part have different keys.
func absorb(h, word uint64) uint64 {
	return mix64(mix64(h+goldenGamma) + word)
}
