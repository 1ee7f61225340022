package delay

import (
	"cmp"
	"fmt"
	"math"
	"strconv"

	"github.com/ranker-worker/ranker-worker/policy"
	"github.com/ranker-worker/ranker-worker/policy/words"
)

var (
	hashInstances = named("instances")
	hashRounds    = named("rounds")
	hashVectors   = named("vectors")
)

// maxLength bounds the list length of loaded vectors, and so the memory that malformed state can allocate.
const maxLength = 1 << 20

func (b *BOLD) Hashes() []string {
	return []string{hashInstances, hashRounds, hashVectors, hashWindows, HashLearner}
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
	b.field = words.Append(b.field[:0], ':', int64(i.number))
	if b.index == LossByRank {
		b.field = words.Append(b.field[:0], ':', int64(i.number), int64(v.length))
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
	case HashLearner:
		if err = errField; string(field) == fieldWindows {
			err = b.windows.loadEstimate(value)
		}
	default:
		err = errHash
	}
	return faulty(err, hash, field, value)
}

func (b *BOLD) loadOutstanding(field, value []byte) error {
	f, v := words.Of(field, ':'), words.Of(value, ' ')
	number, n := int32(f.Int(0, math.MaxInt32)), int32(v.Int(1, math.MaxInt32))
	if err := cmp.Or(f.End(errField), v.End(errValue)); err != nil {
		return err
	}
	i := b.pool.make(number)
	b.outstanding += int64(n - i.outstanding)
	i.outstanding, i.stored = n, n
	return nil
}

// readVector reads the number of an instance and, by rank, the length of lists.
func (b *BOLD) readVector(field *words.Reader) (number, length int32) {
	number = int32(field.Int(0, math.MaxInt32))
	if b.index == LossByRank {
		length = int32(field.Int(1, maxLength))
	}
	return number, length
}

func (b *BOLD) loadRounds(field, value []byte) error {
	f, of := words.Of(field, ':'), words.Of(value, ' ')
	number, length := b.readVector(&f)
	rounds := of.Int(1, math.MaxInt64)
	if err := cmp.Or(f.End(errField), of.End(errValue)); err != nil {
		return err
	}
	v := b.pool.make(number).makeVector(length)
	v.SetRounds(rounds)
	v.stored = rounds
	return nil
}

func (b *BOLD) loadBlock(field, value []byte) error {
	f := words.Of(field, ':')
	number, length := b.readVector(&f)
	block := int32(f.Int(0, math.MaxInt32))
	if err := f.End(errField); err != nil {
		return err
	}
	v := b.pool.make(number).makeVector(length)
	limit := int(v.length)
	if b.index == LossByItem {
		limit = len(b.sums)
	}
	return v.LoadBlock(block, value, limit, b.base.Valid)
}

func (b *BOLD) Loaded() error {
	for _, i := range b.pool.all() {
		for k := range i.vectors {
			if i.vectors[k].Rounds() == 0 {
				return fmt.Errorf("%w: hash %q has blocks of instance %d, length %d, and hash %q does not have it",
					ErrState, hashVectors, i.number, i.vectors[k].length, hashRounds)
			}
		}
	}
	b.pool.settle()
	b.windows.settle()
	return nil
}
