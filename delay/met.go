package delay

import (
	"errors"
	"strconv"

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
	if d.users != nil && d.users.met.space.HasAge() {
		d.users.met.meet(items, at)
	}
}

// Meet implements Meeting, by the inner learner.
func (p *Preferring) Meet(items []policy.Item, at int64) {
	if inner, ok := p.inner.(Meeting); ok {
		inner.Meet(items, at)
	}
}

// met holds the event time in milliseconds at which this partition first met each item. It depends on the log alone.
type met struct {
	space   *features.Space
	at      policy.Pages[int64] // 0: not yet
	changed policy.Changes
}

func (m *met) meet(items []policy.Item, at int64) {
	for _, i := range items {
		if m.at.Get(i) == 0 {
			*m.at.At(i) = max(at, 1)
			m.changed.Note(i, 1)
		}
	}
}

// takeOver merges another partition's time.
func (m *met) takeOver(i policy.Item, at int64) {
	if own := m.at.Get(i); own == 0 || at < own {
		*m.at.At(i) = at
		m.changed.Note(i, 1)
	}
}

func (m *met) forget(i policy.Item) {
	if m.at.Get(i) > 0 {
		m.at.Remove(i)
		m.changed.Note(i, 1)
	}
}

func (m *met) harvest(r Recorder, to *writer) {
	for i := range m.changed.All() {
		to.field = strconv.AppendInt(to.field[:0], int64(i), 10)
		if at := m.at.Get(i); at > 0 {
			to.value = strconv.AppendInt(to.value[:0], at, 10)
			r.Field(hashMet, to.field, to.value)
		} else {
			r.Field(hashMet, to.field, nil)
		}
	}
	m.changed.Clear()
}

var errMet = errors.New("the value is no time")

func (m *met) load(field, value []byte, items int) error {
	i, err := parseItem(field, items)
	if err != nil {
		return err
	}
	at, err := parseInt(value)
	if err != nil || at == 0 {
		return errMet
	}
	if m.space.HasAge() {
		*m.at.At(i) = at
	}
	return nil
}

// vector appends the item's age at an event time to given features, if age is a feature. It is valid until the next call.
func (u *contexts) vector(given []int8, i policy.Item, began int64) []int8 {
	if !u.met.space.HasAge() {
		return given
	}
	var age int64
	if first := u.met.at.Get(i); first > 0 {
		age = began - first
	}
	u.x = u.met.space.AppendAge(append(u.x[:0], given...), age)
	return u.x
}
