package partition

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/valyala/fastjson"

	"github.com/ranker-worker/ranker-worker/delay"
	"github.com/ranker-worker/ranker-worker/policy"
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

	observer observer
	trial    *trial // the experiment on impressions that name it; nil: none

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
		itemHash: cfg.Name + ":" + ItemsHash, namesHash: cfg.Name + ":" + NamesHash, hashes: make(map[string]ownHash),
		observer: observer{looking: sampling{wanted: true}},
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
