package policy

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/bits"
)

// VectorBlock is the number of neighbouring coordinates that a Vector keeps and stores together.
const VectorBlock = 32

// ErrVector is wrapped by errors about malformed stored blocks.
var ErrVector = errors.New("policy: stored vector is faulty")

// Vector is the state of one instance of an adversarial learner: a finite number for each known coordinate (item or utility rank),
// and the number of payoffs behind them. Only blocks with known coordinates take memory. It notes changed blocks. The zero value is
// empty. It is not safe for concurrent use.
type Vector struct {
	rounds  int64
	blocks  []*vectorBlock
	changed []int32 // numbers of changed blocks, in the order of their first change
}

type vectorBlock struct {
	has     uint32 // bit k: coordinate k of the block is known
	changed bool
	x       [VectorBlock]float64 // 0 if unknown
}

// Rounds returns the number of payoffs fed.
func (v *Vector) Rounds() int64 { return v.rounds }

func (v *Vector) SetRounds(n int64) { v.rounds = n }

// Get returns a coordinate's number, and whether it is known. The coordinate must not be negative.
func (v *Vector) Get(coordinate int32) (x float64, known bool) {
	at := int(coordinate) / VectorBlock
	if at >= len(v.blocks) || v.blocks[at] == nil {
		return 0, false
	}
	b, k := v.blocks[at], coordinate%VectorBlock
	return b.x[k], b.has>>k&1 != 0
}

// Set sets a coordinate, not negative, to a finite number.
func (v *Vector) Set(coordinate int32, x float64) {
	number := coordinate / VectorBlock
	b := v.block(number)
	k := coordinate % VectorBlock
	if b.has>>k&1 != 0 && b.x[k] == x {
		return
	}
	b.has |= 1 << k
	b.x[k] = x
	v.note(number, b)
}

// gather fills g with the coordinates' numbers, 0 if unknown, and appends the positions of unknown ones.
func (v *Vector) gather(coordinates []int32, g []float64, unknown []int32) []int32 {
	g = g[:len(coordinates)]
	var b *vectorBlock
	last := int32(-1)
	for k, c := range coordinates {
		if number := c / VectorBlock; number != last {
			last, b = number, nil
			if int(number) < len(v.blocks) {
				b = v.blocks[number]
			}
		}
		if b == nil || b.has>>(c%VectorBlock)&1 == 0 {
			g[k] = 0
			unknown = append(unknown, int32(k))
			continue
		}
		g[k] = b.x[c%VectorBlock]
	}
	return unknown
}

func (v *Vector) scatter(coordinates []int32, x []float64) {
	x = x[:len(coordinates)]
	var b *vectorBlock
	last := int32(-1)
	for k, c := range coordinates {
		if number := c / VectorBlock; number != last {
			last, b = number, v.block(number)
			v.note(number, b)
		}
		b.has |= 1 << (c % VectorBlock)
		b.x[c%VectorBlock] = x[k]
	}
}

func (v *Vector) block(number int32) *vectorBlock {
	if more := int(number) + 1 - len(v.blocks); more > 0 {
		v.blocks = extend(v.blocks, more)
	}
	if v.blocks[number] == nil {
		v.blocks[number] = &vectorBlock{}
	}
	return v.blocks[number]
}

func (v *Vector) note(number int32, b *vectorBlock) {
	if !b.changed {
		b.changed = true
		v.changed = append(v.changed, number)
	}
}

// Forget makes all coordinates unknown. Rounds stay.
func (v *Vector) Forget() {
	for number, b := range v.blocks {
		if b != nil && b.has != 0 {
			b.has, b.x = 0, [VectorBlock]float64{}
			v.note(int32(number), b)
		}
	}
}

// Changed calls f with each block changed since the last call: its number, and whether it is empty now.
func (v *Vector) Changed(f func(number int32, empty bool)) {
	for _, number := range v.changed {
		b := v.blocks[number]
		b.changed = false
		f(number, b.has == 0)
	}
	v.changed = v.changed[:0]
}

// AppendBlock appends a block that is not empty, little endian: which coordinates are known (4 bytes, bit k for coordinate k), then
// their numbers in ascending order (8 bytes each).
func (v *Vector) AppendBlock(dst []byte, number int32) []byte {
	b := v.blocks[number]
	dst = binary.LittleEndian.AppendUint32(dst, b.has)
	for has := b.has; has != 0; has &= has - 1 {
		dst = binary.LittleEndian.AppendUint64(dst, math.Float64bits(b.x[bits.TrailingZeros32(has)]))
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
	if last := int64(number)*VectorBlock + int64(bits.Len32(has)) - 1; number < 0 || last >= int64(limit) {
		return fmt.Errorf("%w: block %d has coordinate %d, there are only %d", ErrVector, number, last, limit)
	}
	var x [VectorBlock]float64
	rest := stored[4:]
	for h := has; h != 0; h &= h - 1 {
		number := math.Float64frombits(binary.LittleEndian.Uint64(rest))
		if math.IsNaN(number) || math.IsInf(number, 0) || !valid(number) {
			return fmt.Errorf("%w: %v cannot be a number of it", ErrVector, number)
		}
		x[bits.TrailingZeros32(h)] = number
		rest = rest[8:]
	}
	b := v.block(number)
	if b.has != 0 {
		return fmt.Errorf("%w: the block came before", ErrVector)
	}
	b.has, b.x = has, x
	return nil
}
