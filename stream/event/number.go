package event

import (
	"encoding/binary"
	"math"
	"math/bits"
)

// decimal is a short JSON number, ±mantissa·10^-places. Numbers with an exponent, or more than 19 digits behind leading zeros, are left to
// strconv.
type decimal struct {
	mantissa uint64
	places   uint8
	negative bool
	short    bool
}

// mostDigits is the number of digits that always fit into a uint64.
const mostDigits = 19

// scanNumber reads the number at b[i], -?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][-+]?[0-9]+)?, into n, which is 0. It returns the index behind it,
// or that of the flaw. b[i] is a minus or a digit.
func scanNumber(b []byte, i int, n *decimal) (end int, f flaw) {
	if b[i] == '-' {
		n.negative = true
		i++
	}
	from := i
	if i < len(b) && b[i] == '0' {
		i++
		from = i
	} else if n.mantissa, i = digits(b, i, 0); i == from {
		return i, flawNumber
	}
	count := i - from
	if i < len(b) && b[i] == '.' {
		i++
		from = i
		if n.mantissa, i = digits(b, i, n.mantissa); i == from {
			return i, flawNumber
		}
		count += i - from
		n.places = uint8(i - from)
	}
	n.short = count <= mostDigits
	if i < len(b) && b[i]|0x20 == 'e' {
		n.short = false
		i++
		if i < len(b) && (b[i] == '+' || b[i] == '-') {
			i++
		}
		from = i
		if _, i = digits(b, i, 0); i == from {
			return i, flawNumber
		}
	}
	return i, sound
}

// digits appends the digits at b[i] to m, eight at a time, and returns the index behind them. The number is valid up to mostDigits.
func digits(b []byte, i int, m uint64) (uint64, int) {
	for i+8 <= len(b) {
		w := binary.LittleEndian.Uint64(b[i:])
		if ((w+0x46*lowBits)|(w-'0'*lowBits))&highBits != 0 { // above '9', or below '0'
			break
		}
		w -= '0' * lowBits
		w = w*10 + w>>8 // pairs of digits, in every other byte
		const pairs = 0x000000ff000000ff
		w = (w&pairs*(100+1_000_000<<32) + w>>16&pairs*(1+10_000<<32)) >> 32
		m = m*100_000_000 + w
		i += 8
	}
	for i < len(b) && isDigit(b[i]) {
		m = m*10 + uint64(b[i]-'0')
		i++
	}
	return m, i
}

// powers are those of 5 that a uint64 holds, and tens those of 10 that a float64 holds exactly.
var (
	powers = func() (t [28]uint64) {
		t[0] = 1
		for k := 1; k < len(t); k++ {
			t[k] = 5 * t[k-1]
		}
		return t
	}()
	tens = func() (t [23]float64) {
		t[0] = 1
		for k := 1; k < len(t); k++ {
			t[k] = 10 * t[k-1]
		}
		return t
	}()
)

// float returns the float64 nearest to a short decimal; ties go to an even mantissa.
//
// If mantissa and power of ten are float64s, one division is exact enough. Otherwise m·10^-p = (m/5^p)·2^-p is computed to 64 bits by an
// integer division. Both operands are shifted left until the quotient's highest bit is set; the remainder shows whether the rest is exactly
// half. Nothing over- or underflows, since 1 ≤ m < 2⁶⁴ and p ≤ mostDigits.
func (n *decimal) float() float64 {
	x := 0.0
	switch m, p := n.mantissa, int(n.places); {
	case p == 0:
		x = float64(m)
	case m < 1<<53:
		x = float64(m) / tens[p]
	default:
		shift, shift5 := bits.LeadingZeros64(m), bits.LeadingZeros64(powers[p])
		high, low, divisor := m<<shift, uint64(0), powers[p]<<shift5
		scale := shift5 - shift - p - 64
		if high >= divisor { // the quotient would have 65 bits
			high, low = high>>1, high<<63
			scale++
		}
		quotient, rest := bits.Div64(high, low, divisor)
		const cut = 64 - 53
		kept, left := quotient>>cut, quotient&(1<<cut-1)
		if left > 1<<(cut-1) || left == 1<<(cut-1) && (rest != 0 || kept&1 == 1) {
			kept++
		}
		x = float64(kept) * math.Float64frombits(uint64(1023+cut+scale)<<52)
	}
	if n.negative {
		return -x
	}
	return x
}
