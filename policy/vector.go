package policy

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/bits"
)

// vectorBlock is the number of neighbouring coordinates that a Vector stores together.
const vectorBlock = 32

// ErrVector is wrapped by errors about malformed stored blocks.
var ErrVector = errors.New("policy: stored vector is faulty")

// Vector is the state of one instance of an adversarial learner: a finite number for each known coordinate (item or utility rank),
// and the number of payoffs behind them. Only blocks with known coordinates take memory. It notes changed blocks. The zero value is
// empty. It is not safe for concurrent use.
type Vector struct {
	rounds  int64
	x       Pages[float64] // by coordinate; those in use are known
	changed Changes        // by number of the block
}

// Rounds returns the number of payoffs fed.
func (v *Vector) Rounds() int64 { return v.rounds }

func (v *Vector) SetRounds(n int64) { v.rounds = n }

// Get returns a coordinate's number, and whether it is known. The coordinate must not be negative.
func (v *Vector) Get(coordinate int32) (x float64, known bool) {
	return v.x.Get(coordinate), v.x.has(coordinate)
}

// Set sets a coordinate, not negative, to a finite number.
func (v *Vector) Set(coordinate int32, x float64) {
	if now, known := v.Get(coordinate); !known || now != x {
		*v.x.At(coordinate) = x
		v.changed.Note(coordinate/vectorBlock, 1)
	}
}

// gather fills g with the coordinates' numbers, 0 if unknown, and appends the positions of unknown ones.
func (v *Vector) gather(coordinates []int32, g []float64, unknown []int32) []int32 {
	g = g[:len(coordinates)]
	var of page[float64]
	last := int32(-1)
	for k, c := range coordinates {
		if at := c >> pageBits; at != last {
			last, of = at, v.x.page(at)
		}
		bit := bitOf(c)
		if of.used&bit == 0 {
			g[k] = 0
			unknown = append(unknown, int32(k))
			continue
		}
		g[k] = of.values[of.rank(bit)]
	}
	return unknown
}

func (v *Vector) scatter(coordinates []int32, x []float64) {
	x = x[:len(coordinates)]
	last := int32(-1)
	for k, c := range coordinates {
		*v.x.At(c) = x[k]
		if block := c / vectorBlock; block != last {
			last = block
			v.changed.Note(block, 1)
		}
	}
}

// Forget makes all coordinates unknown. Rounds stay.
func (v *Vector) Forget() {
	for c := range v.x.All() {
		v.changed.Note(c/vectorBlock, 1)
	}
	v.x = Pages[float64]{}
}

// Changed calls f with each block changed since the last call: its number, and whether it is empty now.
func (v *Vector) Changed(f func(number int32, empty bool)) {
	for number := range v.changed.All() {
		has, _ := v.block(number)
		f(number, has == 0)
	}
	v.changed.Clear()
}

// block returns which coordinates of a block are known (bit k for coordinate k), and their numbers.
func (v *Vector) block(number int32) (has uint32, x []float64) {
	first := number * vectorBlock
	of := v.x.page(first >> pageBits)
	has = uint32(of.used >> (first & pageMask))
	return has, of.values[of.rank(bitOf(first)):][:bits.OnesCount32(has)]
}

// AppendBlock appends a block that is not empty, little endian: which coordinates are known (4 bytes, bit k for coordinate k), then
// their numbers in ascending order (8 bytes each).
func (v *Vector) AppendBlock(dst []byte, number int32) []byte {
	has, all := v.block(number)
	dst = binary.LittleEndian.AppendUint32(dst, has)
	for _, x := range all {
		dst = binary.LittleEndian.AppendUint64(dst, math.Float64bits(x))
	}
	return dst
}

// LoadBlock reads a block that AppendBlock wrote into an empty one, without noting a change. It fails with ErrVector if the block
// is malformed, a coordinate is not below limit, or valid rejects a number.
func (v *Vector) LoadBlock(number int32, stored []byte, limit int, valid func(float64) bool) error {
	if len(stored) < 4 {
		return fmt.Errorf("%w: block of %d bytes", ErrVector, len(stored))
	}
	has := binary.LittleEndian.Uint32(stored)
	if has == 0 || len(stored) != 4+8*bits.OnesCount32(has) {
		return fmt.Errorf("%w: block of %d bytes for %d numbers", ErrVector, len(stored), bits.OnesCount32(has))
	}
	if last := int64(number)*vectorBlock + int64(bits.Len32(has)) - 1; number < 0 || last >= int64(limit) {
		return fmt.Errorf("%w: block %d has coordinate %d, there are only %d", ErrVector, number, last, limit)
	}
	if before, _ := v.block(number); before != 0 {
		return fmt.Errorf("%w: the block came before", ErrVector)
	}
	rest := stored[4:]
	for ; has != 0; has &= has - 1 {
		x := math.Float64frombits(binary.LittleEndian.Uint64(rest))
		if math.IsNaN(x) || math.IsInf(x, 0) || !valid(x) {
			return fmt.Errorf("%w: %v cannot be a number of it", ErrVector, x)
		}
		*v.x.At(number*vectorBlock + int32(bits.TrailingZeros32(has))) = x
		rest = rest[8:]
	}
	return nil
}
