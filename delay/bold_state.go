package delay

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"

	"github.com/ranker-worker/ranker-worker/policy"
)

// The hashes of BOLD, besides hashLearner.
const (
	hashInstances = "instances"
	hashRounds    = "rounds"
	hashVectors   = "vectors"
	hashWindows   = "windows"
)

var fieldWindows = []byte("windows")

// maxLength is the longest candidate list whose vectors can be loaded: a bound on what faulty state makes us allocate.
const maxLength = 1 << 20

// Hashes implements Learner.
func (b *BOLD) Hashes() []string {
	return []string{hashInstances, hashRounds, hashVectors, hashWindows, hashLearner}
}

// Harvest implements Learner.
func (b *BOLD) Harvest(r Recorder) {
	for _, i := range b.items {
		b.touched[i] = false
		r.Item(i)
	}
	b.items = b.items[:0]
	for _, i := range b.pool.changed {
		b.harvestInstance(r, i)
		b.pool.harvested(i)
	}
	clear(b.pool.changed)
	b.pool.changed = b.pool.changed[:0]
	b.harvestWindows(r)
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
	if b.index == ByRank {
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

// writeCount writes b.field, and deletes it where it would be 0.
func (b *BOLD) writeCount(r Recorder, hash string, n int64) {
	if n == 0 {
		r.Field(hash, b.field, nil)
		return
	}
	b.value = strconv.AppendInt(b.value[:0], n, 10)
	r.Field(hash, b.field, b.value)
}

func (b *BOLD) harvestWindows(r Recorder) {
	w := &b.windows
	if w.counts == nil {
		return
	}
	for _, i := range w.beyond {
		b.field = appendInterval(b.field[:0], i[0], i[1], openEnd)
		r.Field(hashWindows, b.field, nil)
	}
	w.beyond = w.beyond[:0]
	w.counts.Changed(func(low, high int, count int64) {
		b.field = appendInterval(b.field[:0], low, high, w.counts.Max())
		b.writeCount(r, hashWindows, count)
	})
	if w.unwritten {
		w.unwritten = false
		b.value = strconv.AppendInt(b.value[:0], w.period, 10)
		b.value = append(b.value, ' ')
		b.value = strconv.AppendInt(b.value, w.from, 10)
		for _, x := range w.q {
			b.value = append(b.value, ' ')
			b.value = strconv.AppendFloat(b.value, x, 'g', -1, 64)
		}
		r.Field(hashLearner, fieldWindows, b.value)
	}
}

// appendInterval appends the name of an interval. One up to the longest window has no upper end, so that it means the same
// where longer ones are told apart.
func appendInterval(dst []byte, low, high, longest int) []byte {
	dst = strconv.AppendInt(dst, int64(low), 10)
	dst = append(dst, ':')
	if high < longest {
		dst = strconv.AppendInt(dst, int64(high), 10)
	}
	return dst
}

// LoadSums implements Learner.
func (b *BOLD) LoadSums(i policy.Item, s policy.Sums) {
	b.fed += s.N - b.sums[i].N
	b.sums[i] = s
}

// LoadField implements Learner.
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
		err = b.windows.loadCount(field, value)
	case hashLearner:
		err = b.windows.loadEstimate(field, value)
	default:
		err = errors.New("no such hash")
	}
	if err != nil {
		return fmt.Errorf("%w: hash %q, field %q, value %.64q: %w", ErrState, hash, field, value, err)
	}
	return nil
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

// loadVector finds the vector that the beginning of a field names, and returns the rest, behind a colon.
func (b *BOLD) loadVector(field []byte) (v *vector, rest []byte, err error) {
	head, rest, _ := bytes.Cut(field, []byte{':'})
	number, err := parseInt32(head)
	if err != nil {
		return nil, nil, fmt.Errorf("the instance is %w", err)
	}
	var length int32
	if b.index == ByRank {
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
	if b.index == ByItem {
		limit = len(b.sums)
	}
	return v.LoadBlock(block, value, limit, b.base.Valid)
}

func parseInt32(text []byte) (int32, error) {
	n, err := parseInt(text)
	if err != nil || n > math.MaxInt32 {
		return 0, errNumber
	}
	return int32(n), nil
}

// Loaded implements Learner.
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

var errInterval = errors.New("the field is not two numbers, or one, with a colon behind the first")

// importCount takes in another source's count of an interval. Those that we do not tell apart are passed over: whoever
// wrote them is about to be configured like us, and takes them back.
func (w *windows) importCount(source int32, field, value []byte) {
	low, high, err := parseInterval(field)
	if err != nil || w.counts == nil {
		return
	}
	if high == openEnd {
		high = w.counts.Max()
	} else if high >= w.counts.Max() {
		return
	}
	var count int64
	if value != nil {
		if count, err = parseInt(value); err != nil {
			return
		}
	}
	if w.counts.Check(low, high, count) == nil {
		w.counts.Import(source, low, high, count)
	}
}

// openEnd is the upper end of an interval that has none.
const openEnd = math.MaxInt

// parseInterval reads what appendInterval appends.
func parseInterval(field []byte) (low, high int, err error) {
	lowText, highText, found := bytes.Cut(field, []byte{':'})
	l, err := parseInt32(lowText)
	if !found || err != nil || l < 1 || l > policy.MaxWindows {
		return 0, 0, errInterval
	}
	if len(highText) == 0 {
		return int(l), openEnd, nil
	}
	h, err := parseInt32(highText)
	if err != nil || h < l || h > policy.MaxWindows {
		return 0, 0, errInterval
	}
	return int(l), int(h), nil
}

// loadCount reads the count of an interval. What counts windows that are not told apart any more goes to the longest one.
func (w *windows) loadCount(field, value []byte) error {
	low, high, err := parseInterval(field)
	if err != nil {
		return err
	}
	count, err := parseInt(value)
	if err != nil || count == 0 || count > 1<<53 {
		return fmt.Errorf("the value is %w, or 0", errNumber)
	}
	if w.counts == nil {
		return nil
	}
	longest := w.counts.Max()
	l, h := min(low, longest), min(high, longest)
	w.counts.Load(l, h, count)
	if low > longest || high != openEnd && high >= longest {
		w.beyond = append(w.beyond, [2]int{low, high})
		w.counts.Touch(l, h)
	}
	return nil
}

// loadEstimate reads the last estimate. One for other windows than those that are told apart now is not used.
func (w *windows) loadEstimate(field, value []byte) error {
	if !bytes.Equal(field, fieldWindows) {
		return errors.New("no such field")
	}
	parts := bytes.Split(value, []byte{' '})
	if len(parts) < 3 {
		return errors.New("the value is not <period> <selections> and probabilities")
	}
	period, err := parseInt(parts[0])
	if err != nil {
		return fmt.Errorf("the period is %w", err)
	}
	from, err := parseInt(parts[1])
	if err != nil {
		return fmt.Errorf("the number of selections is %w", err)
	}
	q := make([]float64, 0, len(parts)-2)
	var sum float64
	for _, part := range parts[2:] {
		x, err := strconv.ParseFloat(string(part), 64)
		if err != nil || !(x > 0 && x <= 1) {
			return errors.New("the estimate is not of probabilities")
		}
		q = append(q, x)
		sum += x
	}
	if !(math.Abs(sum-1) <= 1e-9) {
		return fmt.Errorf("the estimate adds up to %v", sum)
	}
	if w.counts == nil {
		return nil
	}
	w.period, w.from = period, from
	if w.outdated = len(q) != w.counts.Max(); w.outdated {
		return nil
	}
	w.q = q
	return w.take()
}

// settle ends loading. The estimate is the stored one, until its next period. One for other windows is made anew now.
func (w *windows) settle() {
	if w.outdated {
		w.outdated = false
		w.estimate()
	}
}
