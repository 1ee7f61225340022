package partition

import (
	"fmt"
	"math"
	"strconv"
	"strings"

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
	ledger      ledger
	stored      storedItems
	gone        bool // stored, but not configured any more; it has no items and no delay.Learner

	cfg       *LearnerConfig
	delay     delay.Learner
	sharing   delay.Sharing // delay, where others' knowledge is the process's; else nil
	arrived   int           // how many of the whole's arrivals sharing has been refreshed with
	items     itemIndex
	grown     int    // numbers that delay knows of
	ended     int64  // items that were dropped since it was loaded
	itemHash  string // name of the hash of its items
	namesHash string // and of that of their names
	hashes    map[string]ownHash

	drops      unattributed // where on_expiry is drop
	conduct    UserModel
	contexts   contexts
	filled     FilledStatus
	comparison Counterfactual
	looking    sampling
	trial      *trial // for the impressions that name it; nil: there is none

	pooled []delay.Pooled
}

// ownHash is one of a learner's own hashes, besides that of its items.
type ownHash struct {
	full    string // its name in the store
	publish bool   // other partitions want to know its fields
	byItem  bool   // which name items by their numbers
}

const learnerPrefix = "learner." // of the learner table's fields in the hash "meta"

// ItemsHash holds, behind the learner's name and a colon, the numbers and the sums of items, by name: of those of which there is something
// to know. NamesHash has all.
const ItemsHash = "items"

// ImportedHash keeps, behind a learner's name and a colon, all that the learner has taken in of exports since it began:
// field "<hash> <field>" is what a learner would store in this field of this hash that knows nothing else. Item numbers
// are those of the items in it. No worker reads it. Package checker starts from it.
const ImportedHash = "imported"

// resetMark stands between a learner's name and its number in the name under which its impressions of before a reset
// end. No configured name has one.
const resetMark = "@"

// wasReset tells whether a learner's name is one of before a reset, and of which learner.
func wasReset(name string) (of string, ok bool) {
	of, _, ok = strings.Cut(name, resetMark)
	return of, ok
}

// isBeforeReset tells whether a learner's name is one of before a reset.
func isBeforeReset(name string) bool {
	_, past := wasReset(name)
	return past
}

func newLearner(cfg *LearnerConfig, names Names) *learner {
	l := &learner{
		name: cfg.Name, number: -1, fingerprint: cfg.Fingerprint, cfg: cfg, delay: cfg.New(), items: newCatalogue(names),
		itemHash: cfg.Name + ":" + ItemsHash, namesHash: cfg.Name + ":" + NamesHash, hashes: make(map[string]ownHash), looking: sampling{wanted: true},
	}
	l.pooled = l.delay.Pooled()
	for _, h := range l.delay.Hashes() {
		l.hashes[h] = ownHash{full: cfg.Name + ":" + h}
	}
	for _, p := range l.pooled {
		l.hashes[p.Hash] = ownHash{full: cfg.Name + ":" + p.Hash, publish: true, byItem: p.ByItem}
	}
	return l
}

// itemHashes are those that each learner has, besides its delay.Learner's.
func itemHashes() []string { return []string{ItemsHash, NamesHash, CatalogueHash, missedHash} }

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
	n := int(l.items.next)
	if n == l.grown {
		return
	}
	l.delay.Grow(n)
	l.grown = n
	if f, ok := l.delay.(delay.ItemRemoving); ok && l.items.len() < n {
		f.Count(l.items.len())
	}
}

// LearnerStatus is a learner's condition for people and metrics.
type LearnerStatus struct {
	Name     string
	Number   int32
	Gone     bool  // not configured any more: it takes nothing in, and what is pending expires
	Items    int   // items it knows
	Ended    int64 // items that were dropped since its state was loaded, because no impression carried them any more
	HoldItem string
	// Account is of what is known to be for this learner: the impressions that were ranked, and what came for them.
	// Impressions read are those, duplicates not counted; selections and payoffs are counted by how they ended, and
	// those that wait are not.
	Account Account
	// Drops is the zero value where a selection that is never paid counts as a payoff, and Untaught is how many did not, all the
	// same: 0 where that is so still.
	Drops    UnattributedStatus
	Untaught int64
	Conduct  UserModel
	Context  ContextStatus // the zero value where the learner looks at items alone
	Filled   FilledStatus  // 0 where the learner finds the order of utilities itself
	// Counterfactual is the zero value where the learner is gone.
	Comparison Counterfactual
	// PayoffMin and PayoffMax are the ends of the payoff range, in raw units.
	PayoffMin, PayoffMax float64
	delay.Status
}

// FilledStatus counts candidates that had the median of the other candidates' utilities for one of their own, since the learner's state was
// loaded, and the impressions with such candidates.
type FilledStatus struct{ Candidates, Impressions int64 }

// LearnerAccount is a learner's part of the account.
type LearnerAccount struct {
	Name    string
	Account Account
}

// Accounts are the learners' accounts, in the order of their numbers; see LearnerStatus.
func (m *Machine) Accounts() []LearnerAccount {
	all := make([]LearnerAccount, len(m.learners))
	for i, l := range m.learners {
		all[i] = LearnerAccount{l.name, l.ledger.account()}
	}
	return all
}

// Learners tells how the learners are, in the order of their numbers.
func (m *Machine) Learners() []LearnerStatus {
	m.show()
	all := make([]LearnerStatus, 0, len(m.learners))
	for _, l := range m.learners {
		s := LearnerStatus{Name: l.name, Number: l.number, Gone: l.gone, Items: l.items.len(), Ended: l.ended, Account: l.ledger.account()}
		if !l.gone {
			s.Status, s.Drops, s.Untaught = l.delay.Status(), l.drops.status(), m.untaught(l)
			s.Conduct, s.Comparison, s.Context, s.Filled = l.conduct, l.comparison, l.contextStatus(), l.filled
			s.PayoffMin, s.PayoffMax = l.cfg.PayoffMin, l.cfg.PayoffMax
			if s.OnHold && l.items.has(s.Item) {
				s.HoldItem = l.items.name(s.Item)
			}
		}
		all = append(all, s)
	}
	return all
}

// register gives a learner its place in the learner table.
func (m *Machine) register(l *learner) {
	l.number = int32(len(m.learners))
	l.changed = true
	m.learners = append(m.learners, l)
	m.byName[l.name] = l
}

// registerUnconfigured makes a learner that is named by a decision in the log, and neither configured nor stored: its entries need
// a number. The empty fingerprint fits any configuration that takes the name up again.
func (m *Machine) registerUnconfigured(name string) *learner {
	l := &learner{name: name, gone: true}
	m.register(l)
	return l
}

// appendLearner appends a line of the learner table.
func appendLearner(dst []byte, l *learner) []byte {
	dst = append(dst, `{"no":`...)
	dst = strconv.AppendInt(dst, int64(l.number), 10)
	dst = append(dst, `,"fingerprint":`...)
	var a fastjson.Arena
	dst = a.NewString(l.fingerprint).MarshalTo(dst)
	dst = append(dst, `,"account":{`...)
	for c, n := range l.ledger.now {
		if n == 0 {
			continue
		}
		if dst[len(dst)-1] != '{' {
			dst = append(dst, ',')
		}
		dst = appendCount(dst, countNames[c], n)
	}
	dst = append(dst, '}')
	if next := l.nextStored(); next > 0 {
		dst = strconv.AppendInt(append(dst, `,"next":`...), int64(next), 10)
	}
	if l.stored.keeps {
		dst = strconv.AppendInt(append(dst, `,"kept":`...), l.stored.kept, 10)
	}
	return append(dst, '}')
}

// nextStored is the number that the next new item gets at least, where the items that are there do not tell.
func (l *learner) nextStored() policy.Item {
	if !l.gone && l.items.len() < int(l.items.next) {
		l.stored.next = l.items.next
	}
	return l.stored.next
}

func appendCount(dst []byte, name string, n int64) []byte {
	var a fastjson.Arena
	dst = append(a.NewString(name).MarshalTo(dst), ':')
	return strconv.AppendInt(dst, n, 10)
}

func parseLearner(value []byte) (s storedLearner, err error) {
	v, err := fastjson.ParseBytes(value)
	if err == nil {
		var n int64
		if n, err = integer(v.Get("no")); err == nil && (n < 0 || n > math.MaxInt32) {
			err = fmt.Errorf("number %d", n)
		}
		s.number = int32(n)
	}
	if err == nil {
		s.items, err = parseStoredItems(v)
	}
	if err == nil {
		s.fingerprint = string(v.GetStringBytes("fingerprint"))
		v.GetObject("account").Visit(func(name []byte, value *fastjson.Value) {
			var n int64
			if n, _ = value.Int64(); err == nil {
				err = s.ledger.load(string(name), strconv.FormatInt(n, 10))
			}
		})
	}
	if err != nil {
		return storedLearner{}, fmt.Errorf("partition: learner table %.64q: %w", value, err)
	}
	return s, nil
}

// parseStoredItems reads what a line says of items.
func parseStoredItems(v *fastjson.Value) (s storedItems, err error) {
	if next := v.Get("next"); next != nil {
		n, err := next.Int64()
		if err != nil || n < 0 || n > math.MaxInt32 {
			return s, fmt.Errorf("next item number %s", next)
		}
		s.next = policy.Item(n)
	}
	if kept := v.Get("kept"); kept != nil {
		if s.kept, err = kept.Int64(); err != nil || s.kept < 0 {
			return s, fmt.Errorf("kept until %s", kept)
		}
		s.keeps = true
	}
	return s, nil
}

// harvester takes a learner's changes at a seal.
type harvester struct {
	m *Machine
	l *learner
	c *state.Changes
}

var _ delay.Recorder = (*harvester)(nil)

// Item implements delay.Recorder.
func (h *harvester) Item(i policy.Item) {
	if h.l.items.has(i) { // or it has ended since
		h.l.items.taught(i)
	}
}

// Field implements delay.Recorder.
func (h *harvester) Field(hash string, field, value []byte) {
	own, ok := h.l.hashes[hash]
	if !ok { // a learner that does not name its hashes; a bug, caught by every test that seals
		panic("partition: learner " + h.l.name + " wrote to a hash that it did not name: " + hash)
	}
	if own.byItem {
		h.l.items.mentions(field)
	}
	w := state.Write{Hash: own.full, Field: h.m.segments.keep(field), Publish: own.publish}
	if value != nil {
		w.Value = h.m.segments.keep(value)
	}
	h.c.Writes = append(h.c.Writes, w)
}
