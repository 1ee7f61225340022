package partition

import (
	"fmt"
	"math"
	"strconv"

	"github.com/valyala/fastjson"

	"github.com/ranker-worker/ranker-worker/delay"
	"github.com/ranker-worker/ranker-worker/policy"
	"github.com/ranker-worker/ranker-worker/state"
)

// learner is one learner of the partition: configured, or only remembered because entries still name its number.
type learner struct {
	name        string
	number      int32
	fingerprint string
	changed     bool // its line in the learner table has to be written
	gone        bool // stored, but not configured any more; it has no items and no delay.Learner

	cfg      *LearnerConfig
	delay    delay.Learner
	items    catalogue
	grown    int               // items that delay knows of
	itemHash string            // name of the hash of its items
	hashes   map[string]string // full names of its own hashes
}

const (
	learnerPrefix = "learner." // of the learner table's fields in the hash "meta"
	itemsHash     = "items"    // the catalogue and the sums, behind the learner's name and a colon
)

func newLearner(cfg *LearnerConfig) *learner {
	l := &learner{
		name: cfg.Name, number: -1, fingerprint: cfg.Fingerprint, cfg: cfg, delay: cfg.New(), items: newCatalogue(),
		itemHash: cfg.Name + ":" + itemsHash, hashes: make(map[string]string),
	}
	for _, h := range l.delay.Hashes() {
		l.hashes[h] = cfg.Name + ":" + h
	}
	return l
}

// learnerHash is one of a learner's hashes.
type learnerHash struct {
	learner *learner
	hash    string
}

// normalise maps a payoff, or a sum of payoffs, from raw units to [0,1]; clamped says that it lay outside.
func (l *learner) normalise(raw float64) (r float64, clamped bool) {
	low, high := l.cfg.PayoffMin, l.cfg.PayoffMax
	switch {
	case raw <= low:
		return 0, raw < low
	case raw >= high:
		return 1, raw > high
	}
	return min(max((raw-low)/(high-low), 0), 1), false // the rounding of two differences may leave the interval
}

// grow tells the learner how many items there are now.
func (l *learner) grow() {
	if n := len(l.items.names); n > l.grown {
		l.delay.Grow(n)
		l.grown = n
	}
}

// LearnerStatus is a learner's condition for people and metrics.
type LearnerStatus struct {
	Name     string
	Number   int32
	Gone     bool // not configured any more: it takes nothing in, and what is pending expires
	Items    int  // items it has met
	HoldItem string
	delay.Status
}

// Learners tells how the learners are, in the order of their numbers.
func (m *Machine) Learners() []LearnerStatus {
	all := make([]LearnerStatus, 0, len(m.learners))
	for _, l := range m.learners {
		s := LearnerStatus{Name: l.name, Number: l.number, Gone: l.gone, Items: len(l.items.names)}
		if !l.gone {
			s.Status = l.delay.Status()
			if s.OnHold && int(s.Item) < len(l.items.names) {
				s.HoldItem = l.items.names[s.Item]
			}
		}
		all = append(all, s)
	}
	return all
}

// Import takes what another partition has of an item, in place of what it had before. Sums that cannot be anybody's,
// and learners that are not configured, are passed over: the sender may be older or newer than we are.
func (m *Machine) Import(source int32, name string, item []byte, s policy.Sums) {
	l := m.byName[name]
	if l == nil || l.gone || len(item) == 0 || s.Check() != nil {
		return
	}
	i := m.intern(l, item)
	l.grow()
	l.delay.Import(source, i, s)
}

// enrol gives a learner its place in the learner table.
func (m *Machine) enrol(l *learner) {
	l.number = int32(len(m.learners))
	l.changed = true
	m.learners = append(m.learners, l)
	m.byName[l.name] = l
}

// remember makes a learner that is named by a decision in the log, and neither configured nor stored: its entries need
// a number. The empty fingerprint fits any configuration that takes the name up again.
func (m *Machine) remember(name string) *learner {
	l := &learner{name: name, gone: true}
	m.enrol(l)
	return l
}

// appendLearner appends a line of the learner table.
func appendLearner(dst []byte, l *learner) []byte {
	dst = append(dst, `{"no":`...)
	dst = strconv.AppendInt(dst, int64(l.number), 10)
	dst = append(dst, `,"fingerprint":`...)
	var a fastjson.Arena
	dst = a.NewString(l.fingerprint).MarshalTo(dst)
	return append(dst, '}')
}

func parseLearner(value []byte) (number int32, fingerprint string, err error) {
	v, err := fastjson.ParseBytes(value)
	if err == nil {
		var n int64
		if n, err = integer(v.Get("no")); err == nil && (n < 0 || n > math.MaxInt32) {
			err = fmt.Errorf("number %d", n)
		}
		number = int32(n)
	}
	if err != nil {
		return 0, "", fmt.Errorf("partition: learner table %.64q: %w", value, err)
	}
	return number, string(v.GetStringBytes("fingerprint")), nil
}

// harvester takes a learner's changes at a seal.
type harvester struct {
	m *Machine
	l *learner
	c *state.Changes
}

var _ delay.Recorder = (*harvester)(nil)

// Item implements delay.Recorder.
func (h *harvester) Item(i policy.Item) { h.l.items.touch(i) }

// Field implements delay.Recorder.
func (h *harvester) Field(hash string, field, value []byte) {
	name, ok := h.l.hashes[hash]
	if !ok { // a learner that does not name its hashes; a bug, caught by every test that seals
		panic("partition: learner " + h.l.name + " wrote to a hash that it did not name: " + hash)
	}
	w := state.Write{Hash: name, Field: h.m.keep(field)}
	if value != nil {
		w.Value = h.m.keep(value)
	}
	h.c.Writes = append(h.c.Writes, w)
}
