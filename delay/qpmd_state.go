package delay

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"

	"github.com/ranker-worker/ranker-worker/policy"
	"github.com/ranker-worker/ranker-worker/policy/words"
)

var hashQueue = named("queue")

func (q *QPMD) Hashes() []string {
	return append([]string{hashQueue}, q.base.Hashes()...)
}

// Harvest implements Learner. A payoff that came and went since the last harvest is not recorded.
func (q *QPMD) Harvest(r Recorder) {
	for i, what := range q.changes.All() {
		if what&queueChanged != 0 {
			q.harvestQueue(r, i)
		}
	}
	q.base.Harvest(r)
	if q.storedHold == q.hold {
		return
	}
	q.storedHold = q.hold
	if !q.hold.on {
		r.Field(HashLearner, []byte(fieldHold), nil)
		return
	}
	q.value = words.Append(q.value[:0], ' ', int64(q.hold.item), q.hold.ref)
	r.Field(HashLearner, []byte(fieldHold), q.value)
}

func (q *QPMD) harvestQueue(r Recorder, i policy.Item) {
	f, s := &q.queues[i], &q.storedQueues[i]
	if s.head == f.head && s.tail == f.tail {
		return
	}
	q.field = strconv.AppendInt(q.field[:0], int64(i), 10)
	q.field = append(q.field, ':')
	prefix := len(q.field)
	for k := s.head; k < min(s.tail, f.head); k++ { // popped
		q.field = strconv.AppendInt(q.field[:prefix], k, 10)
		r.Field(hashQueue, q.field, nil)
	}
	for k := max(s.tail, f.head); k < f.tail; k++ { // pushed
		q.field = strconv.AppendInt(q.field[:prefix], k, 10)
		q.value = strconv.AppendFloat(q.value[:0], f.at(k), 'g', -1, 64)
		r.Field(hashQueue, q.field, q.value)
	}
	if f.len() == 0 { // as whoever loads the state begins
		f.head, f.tail = 0, 0
	}
	*s = extent{f.head, f.tail}
}

func (q *QPMD) LoadField(hash string, field, value []byte) error {
	if hash != hashQueue {
		return q.base.LoadField(hash, field, value)
	}
	return faulty(q.loadPayoff(field, value), hash, field, value)
}

// Loaded implements Learner. The payoffs of an item must have indices without gaps.
func (q *QPMD) Loaded() error {
	for _, i := range slices.Sorted(maps.Keys(q.loading)) {
		payoffs := q.loading[i]
		slices.SortFunc(payoffs, func(a, b loadedPayoff) int { return cmp.Compare(a.index, b.index) })
		queue := fifo{head: payoffs[0].index, tail: payoffs[0].index}
		for _, p := range payoffs {
			if p.index != queue.tail {
				return fmt.Errorf("%w: hash %q has payoff %d of item %d where %d is next", ErrState, hashQueue, p.index, i, queue.tail)
			}
			queue.push(p.payoff)
		}
		q.queues[i], q.storedQueues[i] = queue, extent{queue.head, queue.tail}
		q.queued += queue.len()
	}
	q.loading = nil
	q.flights.loaded()
	q.windows.settle()
	q.tablesLoaded()
	return nil
}

func (q *QPMD) loadPayoff(field, value []byte) error {
	f, v := words.Of(field, ':'), words.Of(value, ' ')
	i, index := readItem(&f, len(q.queues)), f.Int(0, math.MaxInt64-1) // another index can follow
	payoff := v.Float(-math.MaxFloat64, math.MaxFloat64)
	if err := cmp.Or(f.End(errField), v.End(errValue)); err != nil {
		return err
	}
	if q.loading == nil {
		q.loading = map[policy.Item][]loadedPayoff{}
	}
	q.loading[i] = append(q.loading[i], loadedPayoff{index, payoff})
	return nil
}
