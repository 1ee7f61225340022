package delay

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"

	"github.com/ranker-worker/ranker-worker/policy"
	"github.com/ranker-worker/ranker-worker/policy/words"
)

// storedHash is state of a learner in one hash of its own.
type storedHash interface {
	about() hashInfo
	// harvest records the changes since the last call.
	harvest(r Recorder, to *writer)
	// load restores a field that harvest wrote; items is the number of items. It fails on any other field.
	load(field, value []byte, items int) error
	// setSource sets another source's field, see Learner.SetSourceField.
	setSource(source int32, field, value []byte, items Translate)
	// beginResync begins to read a source's whole state. endResync ends it: fields that were not read are removed; read returns whether one
	// by item was.
	beginResync(source int32)
	endResync(source int32, read func(policy.Item) bool)
	// merge takes over another learner's state of the same hash. numbers maps its items to ours. Without additive, sums over learners stay.
	// It fails if both are configured otherwise.
	merge(from storedHash, numbers []policy.Item, additive bool) error
}

// hashInfo is a hash's name and form, and whether other partitions read it.
type hashInfo struct {
	Pooled
	pooled bool
}

// statistic is a storedHash by item.
type statistic interface {
	storedHash
	// share puts the statistic, which must be empty, below the same one of a global learner, see Pooling.
	share(global statistic, source int32, number func(policy.Item) policy.Item)
	// differs returns whether the global learner has another value of an item's evidence from this partition than it has now.
	differs(i policy.Item) bool
	resting
	// forget drops an item. Release frees its memory after the last harvest.
	forget(i policy.Item)
	Release(i policy.Item)
}

// format defines the stored form of a column's values.
type format[S any] struct {
	hash   string
	pooled bool // other partitions read it
	// rests says that own values which the global learner has rest there. Nothing may iterate over them (policy.Totals.EachOwn).
	rests bool
	// carried says that Mergeable.Carry takes the values to another learner. They are not merged then.
	carried bool
	append  func(dst []byte, s S) []byte
	// read reads a value that append wrote.
	read  func(r *words.Reader) S
	equal func(a, b S) bool
}

var errValue = errors.New("the value is not one of this hash")

func (f *format[S]) parse(value []byte) (S, error) { return words.Parse(value, ' ', f.read, errValue) }

// column holds one statistic by item: this partition's own values, those of other sources, and their totals. Its hash maps "<item>"
// to the own value; zero is not stored. A new statistic takes a type of values that can be added, their format with a named hash, and
// keepColumn. If it is pooled, each change weighs the item (base.differs).
type column[S policy.Summand[S]] struct {
	*policy.Totals[S]
	format[S]
	stored   policy.Set                           // items with a field in the store
	marks    policy.Pages[int64]                  // of these, marks of the stored values; 0 where unmarked
	mark     func(s S) int64                      // above 0, it stands for the value, which is not written again then; else unmarked
	replaced func(i policy.Item, before, after S) // is called after a source's value has been replaced
}

// unmarked is the mark of a value that is written again after each change.
const unmarked = 0

func newColumn[S policy.Summand[S]](t *policy.Totals[S], f format[S]) column[S] {
	return column[S]{Totals: t, format: f, mark: func(S) int64 { return unmarked }, replaced: func(policy.Item, S, S) {}}
}

func same[S comparable](a, b S) bool { return a == b }

func (c *column[S]) about() hashInfo { return hashInfo{Pooled{Hash: c.hash, ByItem: true}, c.pooled} }

func (c *column[S]) isZero(s S) bool {
	var zero S
	return c.equal(s, zero)
}

func (c *column[S]) harvest(r Recorder, to *writer) {
	for i := range c.Changes().All() {
		to.recorded.Note(i, 1)
		own := c.Own(i)
		zero, mark := c.isZero(own), c.mark(own)
		if zero {
			c.Trim(i)
		}
		if zero && !c.stored.Has(i) || mark != unmarked && mark == c.marks.Get(i) { // it came and went
			continue
		}
		to.field = strconv.AppendInt(to.field[:0], int64(i), 10)
		if zero {
			c.stored.Remove(i)
			c.marks.Remove(i)
			r.Field(c.hash, to.field, nil)
			continue
		}
		c.stored.Add(i)
		if mark != unmarked {
			*c.marks.At(i) = mark
		}
		to.value = c.append(to.value[:0], own)
		r.Field(c.hash, to.field, to.value)
	}
	c.Changes().Clear()
}

func (c *column[S]) load(field, value []byte, items int) error {
	i, err := parseItem(field, items)
	if err != nil {
		return err
	}
	s, err := c.parse(value)
	if err != nil {
		return err
	}
	c.stored.Add(i)
	if mark := c.mark(s); mark != unmarked && bytes.Equal(c.append(nil, s), value) {
		*c.marks.At(i) = mark
	}
	c.Set(i, s)
	return nil
}

func (c *column[S]) setSource(source int32, field, value []byte, items Translate) {
	i, known := theirItem(field, items)
	if !known {
		return
	}
	if value != nil {
		if after, err := c.parse(value); err == nil {
			before, _ := c.From(source, i)
			c.SetSource(source, i, after)
			c.replaced(i, before, after)
			return
		}
	}
	c.drop(source, i)
}

// drop removes a source's value of an item, if there is one.
func (c *column[S]) drop(source int32, i policy.Item) {
	if before, found := c.From(source, i); found {
		var none S
		c.Drop(source, i)
		c.replaced(i, before, none)
	}
}

func (c *column[S]) beginResync(int32) {}

func (c *column[S]) endResync(source int32, read func(policy.Item) bool) {
	for i := range c.Unread(source, read) {
		c.drop(source, i)
	}
}

// self returns the column of a statistic that embeds one.
func (c *column[S]) self() *column[S] { return c }

type ofColumn[S policy.Summand[S]] interface{ self() *column[S] }

func (c *column[S]) share(global statistic, source int32, number func(policy.Item) policy.Item) {
	c.Share(global.(ofColumn[S]).self().Totals, source, number)
}

func (c *column[S]) differs(i policy.Item) bool {
	return c.pooled && !c.Rests(i) && !c.equal(c.Own(i), c.Published(i))
}

func (c *column[S]) rest(i policy.Item) {
	if c.rests {
		c.Rest(i, c.equal)
	}
}

func (c *column[S]) forget(i policy.Item) {
	if c.stored.Has(i) {
		c.Changes().Note(i, 1)
	}
	c.Forget(i)
}

func (c *column[S]) merge(from storedHash, numbers []policy.Item, additive bool) error {
	if c.carried || !additive {
		return nil
	}
	f := from.(ofColumn[S]).self()
	for i, to := range numbers {
		own := f.Own(policy.Item(i))
		if f.isZero(own) {
			continue
		}
		copied, err := c.parse(f.append(nil, own)) // values may share memory
		if err != nil {
			return fmt.Errorf("hash %q, item %d: %w", c.hash, i, err)
		}
		c.AddOwn(to, copied, 1)
	}
	return nil
}
