package delay

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/ranker-worker/ranker-worker/policy"
)

const (
	hashInstances = "instances"
	hashRounds    = "rounds"
	hashVectors   = "vectors"
)

// maxLength bounds the list length of loaded vectors, and so the memory that malformed state can allocate.
const maxLength = 1 << 20

func (b *BOLD) Hashes() []string {
	return []string{hashInstances, hashRounds, hashVectors, hashWindows, hashLearner}
}

func (b *BOLD) Harvest(r Recorder) {
	for i := range b.changes.All() {
		r.Item(i)
	}
	b.changes.Clear()
	for _, i := range b.pool.changed {
		b.harvestInstance(r, i)
		b.pool.harvested(i)
	}
	clear(b.pool.changed)
	b.pool.changed = b.pool.changed[:0]
	b.windows.harvest(r, &b.writer)
}

func (b *BOLD) harvestInstance(r Recorder, i *instance) {
	if i.stored != i.outstanding {
		i.stored = i.outstanding
		b.field = strconv.AppendInt(b.field[:0], int64(i.number), 10)
		b.writeCount(r, hashInstances, int64(i.outstanding))
	}
	for k := range i.vectors {
		b.harvestVector(r, i, &i.vectors[k])
	}
}

func (b *BOLD) harvestVector(r Recorder, i *instance, v *vector) {
	b.field = strconv.AppendInt(b.field[:0], int64(i.number), 10)
	if b.index == LossByRank {
		b.field = append(b.field, ':')
		b.field = strconv.AppendInt(b.field, int64(v.length), 10)
	}
	if rounds := v.Rounds(); v.stored != rounds {
		v.stored = rounds
		b.writeCount(r, hashRounds, rounds)
	}
	b.field = append(b.field, ':')
	prefix := len(b.field)
	v.Changed(func(block int32, empty bool) {
		b.field = strconv.AppendInt(b.field[:prefix], int64(block), 10)
		if empty {
			r.Field(hashVectors, b.field, nil)
			return
		}
		b.value = v.AppendBlock(b.value[:0], block)
		r.Field(hashVectors, b.field, b.value)
	})
}

func (b *BOLD) LoadSums(i policy.Item, s policy.Sums) {
	b.fed += s.N - b.sums[i].N
	b.sums[i] = s
}

func (b *BOLD) LoadField(hash string, field, value []byte) error {
	var err error
	switch hash {
	case hashInstances:
		err = b.loadOutstanding(field, value)
	case hashRounds:
		err = b.loadRounds(field, value)
	case hashVectors:
		err = b.loadBlock(field, value)
	case hashWindows:
		err = b.windows.load(field, value, len(b.sums))
	case hashLearner:
		if err = errField; string(field) == fieldWindows {
			err = b.windows.loadEstimate(value)
		}
	default:
		err = errHash
	}
	return faulty(err, hash, field, value)
}

func (b *BOLD) loadOutstanding(field, value []byte) error {
	number, err := parseInt32(field)
	if err != nil {
		return fmt.Errorf("the instance is %w", err)
	}
	n, err := parseInt32(value)
	if err != nil || n == 0 {
		return fmt.Errorf("the value is %w, or 0", errNumber)
	}
	i := b.pool.make(number)
	b.outstanding += int64(n - i.outstanding)
	i.outstanding, i.stored = n, n
	return nil
}

// loadVector returns the vector that a field's beginning names, and the rest behind the colon.
func (b *BOLD) loadVector(field []byte) (v *vector, rest []byte, err error) {
	head, rest, _ := bytes.Cut(field, []byte{':'})
	number, err := parseInt32(head)
	if err != nil {
		return nil, nil, fmt.Errorf("the instance is %w", err)
	}
	var length int32
	if b.index == LossByRank {
		head, rest, _ = bytes.Cut(rest, []byte{':'})
		if length, err = parseInt32(head); err != nil || length < 1 || length > maxLength {
			return nil, nil, fmt.Errorf("the length is %w, or not within 1 and %d", errNumber, maxLength)
		}
	}
	return b.pool.make(number).makeVector(length), rest, nil
}

func (b *BOLD) loadRounds(field, value []byte) error {
	rounds, err := parseInt(value)
	if err != nil || rounds == 0 {
		return fmt.Errorf("the value is %w, or 0", errNumber)
	}
	if bytes.HasSuffix(field, []byte{':'}) {
		return errors.New("the field ends in a colon")
	}
	v, rest, err := b.loadVector(field)
	if err != nil {
		return err
	}
	if len(rest) > 0 {
		return errors.New("the field goes on")
	}
	v.SetRounds(rounds)
	v.stored = rounds
	return nil
}

func (b *BOLD) loadBlock(field, value []byte) error {
	v, rest, err := b.loadVector(field)
	if err != nil {
		return err
	}
	block, err := parseInt32(rest)
	if err != nil {
		return fmt.Errorf("the block is %w", err)
	}
	limit := int(v.length)
	if b.index == LossByItem {
		limit = len(b.sums)
	}
	return v.LoadBlock(block, value, limit, b.base.Valid)
}

func (b *BOLD) Loaded() error {
	for _, number := range slices.Sorted(maps.Keys(b.pool.beside)) {
		i := b.pool.beside[number]
		for k := range i.vectors {
			if i.vectors[k].Rounds() == 0 {
				return fmt.Errorf("%w: hash %q has blocks of instance %d, length %d, and hash %q does not have it",
					ErrState, hashVectors, number, i.vectors[k].length, hashRounds)
			}
		}
	}
	b.pool.settle()
	b.windows.settle()
	return nil
}
