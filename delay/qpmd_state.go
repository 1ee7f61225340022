package delay

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"

	"github.com/ranker-worker/ranker-worker/policy"
)

const (
	hashQueue  = "queue"
	hashQueues = "queues"
)

func (q *QPMD) Hashes() []string {
	return append([]string{hashQueue, hashQueues}, q.base.Hashes()...)
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
		r.Field(hashLearner, []byte(fieldHold), nil)
		return
	}
	q.value = strconv.AppendInt(q.value[:0], int64(q.hold.item), 10)
	q.value = append(q.value, ' ')
	q.value = strconv.AppendInt(q.value, q.hold.ref, 10)
	r.Field(hashLearner, []byte(fieldHold), q.value)
}

func (q *QPMD) harvestQueue(r Recorder, i policy.Item) {
	f, s := &q.queues[i], &q.storedQueues[i]
	if s.head == f.head && s.tail == f.tail {
		return
	}
	q.field = strconv.AppendInt(q.field[:0], int64(i), 10)
	q.value = strconv.AppendInt(q.value[:0], f.head, 10)
	q.value = append(q.value, ' ')
	q.value = strconv.AppendInt(q.value, f.tail, 10)
	r.Field(hashQueues, q.field, q.value)
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
	*s = extent{f.head, f.tail}
}

func (q *QPMD) LoadField(hash string, field, value []byte) error {
	var err error
	switch hash {
	case hashQueue:
		err = q.loadPayoff(field, value)
	case hashQueues:
		err = q.loadQueue(field, value)
	default:
		return q.base.LoadField(hash, field, value)
	}
	return faulty(err, hash, field, value)
}

func (q *QPMD) Loaded() error {
	if len(q.loading) == 0 {
		q.flights.loaded()
		q.windows.settle()
		q.tablesLoaded()
		return nil
	}
	first := policy.Item(math.MaxInt32)
	for i := range q.loading {
		first = min(first, i)
	}
	l := q.loading[first]
	if !l.known {
		return fmt.Errorf("%w: hash %q has %d payoffs of item %d, and hash %q does not have the item",
			ErrState, hashQueue, len(l.payoffs), first, hashQueues)
	}
	return fmt.Errorf("%w: hash %q has %d payoffs of item %d, where hash %q has %d to %d",
		ErrState, hashQueue, len(l.payoffs), first, hashQueues, l.head, l.tail)
}

func (q *QPMD) loadingQueue(i policy.Item) *loadingQueue {
	l := q.loading[i]
	if l == nil {
		if q.loading == nil {
			q.loading = map[policy.Item]*loadingQueue{}
		}
		l = &loadingQueue{}
		q.loading[i] = l
	}
	return l
}

func (q *QPMD) loadPayoff(field, value []byte) error {
	itemText, indexText, found := bytes.Cut(field, []byte{':'})
	if !found {
		return errors.New("the field is not <item>:<index>")
	}
	i, err := parseItem(itemText, len(q.queues))
	if err != nil {
		return err
	}
	index, err := parseInt(indexText)
	if err != nil {
		return fmt.Errorf("the index is %w", err)
	}
	payoff, err := strconv.ParseFloat(string(value), 64)
	if err != nil || math.IsNaN(payoff) || math.IsInf(payoff, 0) {
		return errors.New("the value is not a finite number")
	}
	l := q.loadingQueue(i)
	l.payoffs = append(l.payoffs, loadedPayoff{index, payoff})
	return q.settle(i, l)
}

func (q *QPMD) loadQueue(field, value []byte) error {
	i, err := parseItem(field, len(q.queues))
	if err != nil {
		return err
	}
	head, tail, err := parsePair(value)
	if err != nil {
		return err
	}
	if head > tail {
		return errors.New("the head is beyond the tail")
	}
	l := q.loadingQueue(i)
	if l.known {
		return errors.New("the item came before")
	}
	l.known, l.head, l.tail = true, head, tail
	return q.settle(i, l)
}

// settle completes a queue once all its fields are loaded. It fails if they contradict each other.
func (q *QPMD) settle(i policy.Item, l *loadingQueue) error {
	if !l.known || int64(len(l.payoffs)) < l.tail-l.head {
		return nil
	}
	slices.SortFunc(l.payoffs, func(a, b loadedPayoff) int {
		if a.index < b.index {
			return -1
		}
		return 1
	})
	queue := fifo{head: l.head, tail: l.head}
	for _, p := range l.payoffs {
		if p.index != queue.tail || p.index >= l.tail {
			return fmt.Errorf("payoff %d is not among those waiting, %d to %d, or came before", p.index, l.head, l.tail)
		}
		queue.push(p.payoff)
	}
	if have := &q.queues[i]; have.tail != 0 {
		return errors.New("the item's queue was complete before")
	}
	q.queues[i] = queue
	q.queued += queue.len()
	q.storedQueues[i] = extent{queue.head, queue.tail}
	delete(q.loading, i)
	return nil
}
