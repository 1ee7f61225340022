package contextual

import (
	"errors"
	"math/big"
	"math/bits"
)

// Wide is an integer modulo 2¹²⁸ in two's complement; sums of all payoffs ever fit.
type Wide struct{ High, Low uint64 }

func (w *Wide) Add(n int64) {
	var carry uint64
	w.Low, carry = bits.Add64(w.Low, uint64(n), 0)
	w.High += uint64(n>>63) + carry
}

func (w *Wide) Plus(o Wide) {
	var carry uint64
	w.Low, carry = bits.Add64(w.Low, o.Low, 0)
	w.High, _ = bits.Add64(w.High, o.High, carry)
}

func (w *Wide) Minus(o Wide) {
	var borrow uint64
	w.Low, borrow = bits.Sub64(w.Low, o.Low, 0)
	w.High, _ = bits.Sub64(w.High, o.High, borrow)
}

func (w Wide) Float() float64 {
	if w.High == uint64(int64(w.Low)>>63) {
		return float64(int64(w.Low))
	}
	if int64(w.High) < 0 {
		var negated Wide
		negated.Minus(w)
		return -(float64(negated.High)*0x1p64 + float64(negated.Low))
	}
	return float64(w.High)*0x1p64 + float64(w.Low)
}

func (w Wide) Append(dst []byte) []byte {
	n := new(big.Int).SetUint64(w.High)
	if int64(w.High) < 0 {
		n.SetInt64(int64(w.High))
	}
	n.Lsh(n, 64).Add(n, new(big.Int).SetUint64(w.Low))
	return n.Append(dst, 10)
}

var errWide = errors.New("not an integer of 128 bits in its shortest decimal form")

// ParseWide reads a number that Append wrote.
func ParseWide(text []byte) (Wide, error) {
	n, ok := new(big.Int).SetString(string(text), 10)
	if !ok || n.BitLen() > 127 {
		return Wide{}, errWide
	}
	low := new(big.Int).And(n, new(big.Int).SetUint64(1<<64-1))
	w := Wide{High: uint64(new(big.Int).Rsh(n, 64).Int64()), Low: low.Uint64()}
	if string(w.Append(nil)) != string(text) {
		return Wide{}, errWide
	}
	return w, nil
}
