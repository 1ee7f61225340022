package policy

import (
	"encoding/binary"
	"math"
)

// packedSums packs Sums: a byte with N and how R and Q follow, then N if it is too large for that byte, R, and Q. Payoffs of 0 and 1,
// impressions and few payoffs take 2 to 9 bytes.
func packedSums() Packing[Sums] { return Packing[Sums]{Append: appendSums, Read: readSums} }

// How a sum follows the first byte: two bits for R, and two for Q.
const (
	sumZero  = iota // not at all
	sumWhole        // R: a whole number below mostWhole, as a uvarint. Q: not at all, it equals R
	sumShort        // a float32
	sumLong         // a float64

	mostWhole = 1 << 28 // longer as a uvarint than as a float32
	mostN     = 1<<4 - 1
)

func appendSums(dst []byte, s Sums) []byte {
	r, q := formOf(s.R), formOf(s.Q)
	if whole := uint64(s.R); s.R > 0 && s.R < mostWhole && float64(whole) == s.R {
		r = sumWhole
	}
	if q != sumZero && math.Float64bits(s.Q) == math.Float64bits(s.R) {
		q = sumWhole
	}
	n := uint64(min(uint64(s.N), mostN))
	dst = append(dst, byte(n)<<4|r<<2|q)
	if n == mostN {
		dst = binary.AppendUvarint(dst, uint64(s.N))
	}
	if r == sumWhole {
		dst = binary.AppendUvarint(dst, uint64(s.R))
	} else {
		dst = appendSum(dst, s.R, r)
	}
	return appendSum(dst, s.Q, q)
}

func formOf(x float64) byte {
	switch bits := math.Float64bits(x); {
	case bits == 0:
		return sumZero
	case math.Float64bits(float64(float32(x))) == bits:
		return sumShort
	}
	return sumLong
}

func appendSum(dst []byte, x float64, form byte) []byte {
	switch form {
	case sumShort:
		return binary.LittleEndian.AppendUint32(dst, math.Float32bits(float32(x)))
	case sumLong:
		return binary.LittleEndian.AppendUint64(dst, math.Float64bits(x))
	}
	return dst
}

func readSums(packed []byte) (s Sums) {
	n, r, q := packed[0]>>4, packed[0]>>2&3, packed[0]&3
	s.N = int64(n)
	at := 1
	if n == mostN {
		all, size := binary.Uvarint(packed[at:])
		s.N, at = int64(all), at+size
	}
	if r == sumWhole {
		whole, size := binary.Uvarint(packed[at:])
		s.R, at = float64(whole), at+size
	} else {
		s.R, at = readSum(packed, at, r)
	}
	if s.Q = s.R; q != sumWhole {
		s.Q, _ = readSum(packed, at, q)
	}
	return s
}

func readSum(packed []byte, at int, form byte) (x float64, end int) {
	switch form {
	case sumShort:
		return float64(math.Float32frombits(binary.LittleEndian.Uint32(packed[at:]))), at + 4
	case sumLong:
		return math.Float64frombits(binary.LittleEndian.Uint64(packed[at:])), at + 8
	}
	return 0, at
}
