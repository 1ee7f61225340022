package delay

import (
	"errors"

	"github.com/ranker-worker/ranker-worker/policy"
	"github.com/ranker-worker/ranker-worker/policy/features"
)

// Meeting is a learner that may use the time since it first met an item.
type Meeting interface {
	// Meet notes an impression's items before Decide or Adopt; at is its event time in milliseconds, from which deadlines count.
	Meet(items []policy.Item, at int64)
}

var (
	_ Meeting = (*Direct)(nil)
	_ Meeting = (*Preferring)(nil)
)

func (d *Direct) Meet(items []policy.Item, at int64) {
	if d.contexts != nil && d.contexts.met.space.HasAge() {
		d.contexts.met.meet(items, at)
	}
}

// Meet implements Meeting, by the inner learner.
func (p *Preferring) Meet(items []policy.Item, at int64) {
	if inner, ok := p.inner.(Meeting); ok {
		inner.Meet(items, at)
	}
}

// firstMet is the event time in milliseconds at which an item was first met; 0: not yet. It depends on the log alone.
type firstMet int64

// Add implements policy.Summand: the earlier of both.
func (m firstMet) Add(o firstMet) firstMet {
	if m == 0 || o > 0 && o < m {
		return o
	}
	return m
}

// met holds when this partition first met each item.
type met struct {
	column[firstMet]
	space *features.Space
}

func newMet(s *features.Space) met {
	var totals policy.Totals[firstMet]
	totals.KeepApart() // only our own is read
	return met{space: s, column: newColumn(&totals, format[firstMet]{
		hash:   hashMet,
		append: func(dst []byte, at firstMet) []byte { return appendWords(dst, int64(at)) },
		parse:  parseMet,
		equal:  same[firstMet],
	})}
}

func (m *met) meet(items []policy.Item, at int64) {
	for _, i := range items {
		if m.Own(i) == 0 {
			m.AddOwn(i, firstMet(max(at, 1)), 1)
		}
	}
}

var errMet = errors.New("the value is no time")

func parseMet(value []byte) (firstMet, error) {
	at, err := parseInt(value)
	if err != nil || at == 0 {
		return 0, errMet
	}
	return firstMet(at), nil
}

// vector appends the item's age at an event time to given features, if age is a feature. It is valid until the next call.
func (u *contexts) vector(given []int8, i policy.Item, began int64) []int8 {
	if !u.met.space.HasAge() {
		return given
	}
	var age int64
	if first := int64(u.met.Own(i)); first > 0 {
		age = began - first
	}
	u.x = u.met.space.AppendAge(append(u.x[:0], given...), age)
	return u.x
}
