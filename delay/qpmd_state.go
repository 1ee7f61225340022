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

// The hashes of QPMD.
const (
	hashQueue   = "queue"
	hashQueues  = "queues"
	hashFlights = "flights"
	hashLearner = "learner"
)

var fieldHold = []byte("hold")

// ErrState says that stored state is not what this learner writes.
var ErrState = errors.New("delay: stored state is faulty")

// What can change of an item.
const (
	sumsChanged = 1 << iota
	queueChanged
	flightsChanged
)

// changes remembers what has changed since the last harvest, and what was harvested then where that decides what to
// write: a payoff that came and went in between, or a selection, leaves no trace.
type changes struct {
	items  []policy.Item // that have changed, in the order in which they first did
	what   []uint8       // by item
	stored []harvested   // by item
	hold   hold
	field  []byte // scratch
	value  []byte
}

// harvested is what the store has of one item.
type harvested struct{ head, tail, inFlight int64 }

func (c *changes) grow(more int) {
	c.what = extend(c.what, more)
	c.stored = extend(c.stored, more)
}

func (c *changes) note(i policy.Item, what uint8) {
	if c.what[i] == 0 {
		c.items = append(c.items, i)
	}
	c.what[i] |= what
}

// Hashes implements Learner.
func (q *QPMD) Hashes() []string { return []string{hashQueue, hashQueues, hashFlights, hashLearner} }

// Harvest implements Learner.
func (q *QPMD) Harvest(r Recorder) {
	c := &q.changes
	for _, i := range c.items {
		if c.what[i]&sumsChanged != 0 {
			r.Item(i)
		}
		if c.what[i]&queueChanged != 0 {
			c.harvestQueue(r, i, &q.queues[i])
		}
		if c.what[i]&flightsChanged != 0 {
			c.harvestFlights(r, i, q.inFlight[i])
		}
		c.what[i] = 0
	}
	c.items = c.items[:0]
	if c.hold != q.hold {
		c.hold = q.hold
		if !c.hold.on {
			r.Field(hashLearner, fieldHold, nil)
			return
		}
		c.value = strconv.AppendInt(c.value[:0], int64(c.hold.item), 10)
		c.value = append(c.value, ' ')
		c.value = strconv.AppendInt(c.value, c.hold.ref, 10)
		r.Field(hashLearner, fieldHold, c.value)
	}
}

func (c *changes) harvestQueue(r Recorder, i policy.Item, f *fifo) {
	s := &c.stored[i]
	if s.head == f.head && s.tail == f.tail {
		return
	}
	c.field = strconv.AppendInt(c.field[:0], int64(i), 10)
	c.value = strconv.AppendInt(c.value[:0], f.head, 10)
	c.value = append(c.value, ' ')
	c.value = strconv.AppendInt(c.value, f.tail, 10)
	r.Field(hashQueues, c.field, c.value)
	c.field = append(c.field, ':')
	prefix := len(c.field)
	for k := s.head; k < min(s.tail, f.head); k++ { // popped
		c.field = strconv.AppendInt(c.field[:prefix], k, 10)
		r.Field(hashQueue, c.field, nil)
	}
	for k := max(s.tail, f.head); k < f.tail; k++ { // pushed
		c.field = strconv.AppendInt(c.field[:prefix], k, 10)
		c.value = strconv.AppendFloat(c.value[:0], f.at(k), 'g', -1, 64)
		r.Field(hashQueue, c.field, c.value)
	}
	s.head, s.tail = f.head, f.tail
}

func (c *changes) harvestFlights(r Recorder, i policy.Item, inFlight int64) {
	s := &c.stored[i]
	if s.inFlight == inFlight {
		return
	}
	s.inFlight = inFlight
	c.field = strconv.AppendInt(c.field[:0], int64(i), 10)
	if inFlight == 0 {
		r.Field(hashFlights, c.field, nil)
		return
	}
	c.value = strconv.AppendInt(c.value[:0], inFlight, 10)
	r.Field(hashFlights, c.field, c.value)
}

// LoadSums implements Learner.
func (q *QPMD) LoadSums(i policy.Item, s policy.Sums) { q.table.Set(i, s) }

// LoadField implements Learner.
func (q *QPMD) LoadField(hash string, field, value []byte) error {
	var err error
	switch hash {
	case hashQueue:
		err = q.loadPayoff(field, value)
	case hashQueues:
		err = q.loadQueue(field, value)
	case hashFlights:
		err = q.loadFlights(field, value)
	case hashLearner:
		err = q.loadHold(field, value)
	default:
		err = errors.New("no such hash")
	}
	if err != nil {
		return fmt.Errorf("%w: hash %q, field %q, value %q: %w", ErrState, hash, field, value, err)
	}
	return nil
}

// Loaded implements Learner.
func (q *QPMD) Loaded() error {
	if len(q.loading) == 0 {
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
	return fmt.Errorf("%w: hash %q has %d payoffs of item %d, where hash %q tells of %d to %d",
		ErrState, hashQueue, len(l.payoffs), first, hashQueues, l.head, l.tail)
}

// loadingQueue is a queue whose fields have not all come yet.
type loadingQueue struct {
	known      bool // head and tail are
	head, tail int64
	payoffs    []loadedPayoff
}

type loadedPayoff struct {
	index  int64
	payoff float64
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
	i, err := q.parseItem(itemText)
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
	i, err := q.parseItem(field)
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

// settle turns loaded fields into the queue once they are all there.
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
	q.changes.stored[i].head, q.changes.stored[i].tail = queue.head, queue.tail
	delete(q.loading, i)
	return nil
}

func (q *QPMD) loadFlights(field, value []byte) error {
	i, err := q.parseItem(field)
	if err != nil {
		return err
	}
	n, err := parseInt(value)
	if err != nil {
		return fmt.Errorf("the value is %w", err)
	}
	q.flights += n - q.inFlight[i]
	q.inFlight[i] = n
	q.changes.stored[i].inFlight = n
	return nil
}

func (q *QPMD) loadHold(field, value []byte) error {
	if !bytes.Equal(field, fieldHold) {
		return errors.New("no such field")
	}
	itemText, refText, found := bytes.Cut(value, []byte{' '})
	if !found {
		return errors.New("the value is not <item> <ref>")
	}
	i, err := q.parseItem(itemText)
	if err != nil {
		return err
	}
	ref, err := parseInt(refText)
	if err != nil {
		return fmt.Errorf("the ref is %w", err)
	}
	q.hold = hold{on: true, item: i, ref: ref}
	q.changes.hold = q.hold
	q.restored = true
	return nil
}

// parseItem reads the number of an item that exists.
func (q *QPMD) parseItem(text []byte) (policy.Item, error) {
	n, err := parseInt(text)
	if err != nil {
		return 0, fmt.Errorf("the item is %w", err)
	}
	if n >= int64(len(q.queues)) {
		return 0, fmt.Errorf("there is no item %d among %d", n, len(q.queues))
	}
	return policy.Item(n), nil
}

// parsePair reads two numbers with a blank between.
func parsePair(text []byte) (a, b int64, err error) {
	first, second, found := bytes.Cut(text, []byte{' '})
	if !found {
		return 0, 0, errors.New("the value is not two numbers")
	}
	if a, err = parseInt(first); err == nil {
		b, err = parseInt(second)
	}
	if err != nil {
		return 0, 0, fmt.Errorf("one of the two is %w", err)
	}
	return a, b, nil
}

var errNumber = errors.New("not a number from 0 on in its shortest decimal form")

// parseInt reads a number that is not negative, written the way Harvest writes it: a field's name has one spelling.
func parseInt(text []byte) (int64, error) {
	n, err := strconv.ParseInt(string(text), 10, 64)
	if err != nil || n < 0 || text[0] == '+' || text[0] == '-' || text[0] == '0' && len(text) > 1 {
		return 0, errNumber
	}
	return n, nil
}
