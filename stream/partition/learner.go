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

// learner is a learner of the partition: configured, or only remembered because entries name its number.
type learner struct {
	name        string
	number      int32
	fingerprint string
	changed     bool // its line in the learner table must be written
	ledger      ledger
	stored      storedItems
	gone        bool // stored, but not configured any more: without items and delay.Learner

	cfg       *LearnerConfig
	delay     delay.Learner
	sharing   delay.Sharing // delay as delay.Sharing, if statistics are pooled in the process; else nil
	arrived   int           // arrivals of the global learner with which sharing was refreshed
	items     itemIndex
	grown     int    // item count that delay was given
	ended     int64  // items dropped since the state was loaded
	itemHash  string // name of the hash of its items
	namesHash string // name of the hash of their names
	hashes    map[string]ownHash

	drops   unattributed // used if on_expiry is drop
	conduct UserModel
	// countedBefore is the weight of selections in flight as the state was loaded.
	countedBefore Counting
	contexts      contexts
	filled        FilledStatus
	comparison    Counterfactual
	looking       sampling
	trial         *trial // the experiment on impressions that name it; nil: none

	pooled []delay.Pooled
}

// ownHash is one of a learner's hashes, besides that of its items.
type ownHash struct {
	full    string // its name in the store
	publish bool   // other partitions read its fields
	byItem  bool   // its fields' names begin with item numbers
}

const learnerPrefix = "learner." // of the learner table's fields in the hash "meta"

// ItemsHash holds, behind the learner's name and a colon, numbers and sums of items by name, for items with statistics. NamesHash has all
// items.
const ItemsHash = "items"

// ImportedHash keeps, behind a learner's name and a colon, all statistics imported since the learner began. Field "<hash> <field>" is the
// value that a learner with imports only would store in that hash's field, with the item numbers of its own items. Package checker starts
// from it; no worker reads it.
const ImportedHash = "imported"

// resetMark separates a learner's name and number in the name that its impressions get at a reset. No configured name contains it.
const resetMark = "@"

// wasReset reports whether a name was made by a reset, and returns the learner's.
func wasReset(name string) (of string, ok bool) {
	of, _, ok = strings.Cut(name, resetMark)
	return of, ok
}

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

func itemHashes() []string { return []string{ItemsHash, NamesHash, CatalogueHash, missedHash} }

type learnerHash struct {
	learner *learner
	hash    string
}

// normalise scales a payoff, or a sum of payoffs, from raw units to [0,1]; clamped reports that it lay outside.
func (l *learner) normalise(raw float64) (r float64, clamped bool) {
	low, high := l.cfg.PayoffMin, l.cfg.PayoffMax
	switch {
	case raw <= low:
		return 0, raw < low
	case raw >= high:
		return 1, raw > high
	}
	return min(max((raw-low)/(high-low), 0), 1), false // rounding may leave the interval
}

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

// LearnerStatus is a learner's status for people and metrics.
type LearnerStatus struct {
	Name     string
	Number   int32
	Gone     bool // not configured any more: it learns nothing, and pending impressions expire
	Items    int
	Ended    int64 // items dropped since the state was loaded
	HoldItem string
	// Account covers the impressions that this learner ranked, and their selections and payoffs. Impressions read are the ranked ones,
	// without duplicates. Selections and payoffs are counted once they have ended.
	Account Account
	// Drops is the zero value unless on_expiry is drop. Untaught counts expired selections that taught nothing although an expiry default
	// is set now.
	Drops    UnattributedStatus
	Untaught int64
	Conduct  UserModel
	// Counting is the change of the weight of selections in flight, and of its payoffs, since the state was loaded.
	Counting Counting
	Context  ContextStatus // the zero value if the learner uses items alone
	Filled   FilledStatus  // 0 if the learner finds the order of utilities itself
	// Counterfactual is the zero value if the learner is gone.
	Comparison Counterfactual
	// PayoffMin and PayoffMax are the ends of the payoff range, in raw units.
	PayoffMin, PayoffMax float64
	delay.Status
}

// Counting is the weight with which selections in flight count as ended, and the sum of their payoffs in payoff ranges.
type Counting struct{ Weight, Payoffs float64 }

func (l *learner) counting() Counting {
	s := l.delay.Status().Silence
	return Counting{s.Weight, s.Payoffs}
}

// FilledStatus counts candidates without a utility, which got the median of the others', and their impressions, since the state was loaded.
type FilledStatus struct{ Candidates, Impressions int64 }

type LearnerAccount struct {
	Name    string
	Account Account
}

// Accounts returns the learners' accounts by ascending number; see LearnerStatus.
func (m *Machine) Accounts() []LearnerAccount {
	all := make([]LearnerAccount, len(m.learners))
	for i, l := range m.learners {
		all[i] = LearnerAccount{l.name, l.ledger.account()}
	}
	return all
}

// Experiments returns the status of the experiments, in the order of the configuration.
func (m *Machine) Experiments() []ExperimentStatus {
	m.show()
	return m.trials.status(m.expiry.floor)
}

// Learners returns the learners' statuses by ascending number.
func (m *Machine) Learners() []LearnerStatus {
	m.show()
	all := make([]LearnerStatus, 0, len(m.learners))
	for _, l := range m.learners {
		s := LearnerStatus{Name: l.name, Number: l.number, Gone: l.gone, Items: l.items.len(), Ended: l.ended, Account: l.ledger.account()}
		if !l.gone {
			s.Status, s.Drops, s.Untaught = l.delay.Status(), l.drops.status(), m.untaught(l)
			s.Conduct, s.Comparison, s.Context, s.Filled = l.conduct, l.comparison, l.contextStatus(), l.filled
			s.PayoffMin, s.PayoffMax = l.cfg.PayoffMin, l.cfg.PayoffMax
			s.Counting = Counting{s.Silence.Weight - l.countedBefore.Weight, s.Silence.Payoffs - l.countedBefore.Payoffs}
			if s.OnHold && l.items.has(s.Item) {
				s.HoldItem = l.items.name(s.Item)
			}
		}
		all = append(all, s)
	}
	return all
}

// register appends a learner to the learner table.
func (m *Machine) register(l *learner) {
	l.number = int32(len(m.learners))
	l.changed = true
	m.learners = append(m.learners, l)
	m.byName[l.name] = l
}

// registerUnconfigured registers a learner that the log names, and that is neither configured nor stored: its entries need a number. Its
// empty fingerprint fits any configuration that uses the name later.
func (m *Machine) registerUnconfigured(name string) *learner {
	l := &learner{name: name, gone: true}
	m.register(l)
	return l
}

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

// nextStored returns the least number of the next new item, if the stored items do not imply it.
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

// harvester collects a learner's changes at a seal. It implements delay.Recorder.
type harvester struct {
	m *Machine
	l *learner
	c *state.Changes
}

var _ delay.Recorder = (*harvester)(nil)

func (h *harvester) Item(i policy.Item) {
	if h.l.items.has(i) { // it may have ended since
		h.l.items.taught(i)
	}
}

func (h *harvester) Field(hash string, field, value []byte) {
	own, ok := h.l.hashes[hash]
	if !ok { // a bug, which every test that seals would find
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
