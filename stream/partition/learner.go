package partition

import (
	"bytes"
	"cmp"
	"slices"
	"strings"

	"github.com/ranker-worker/ranker-worker/delay"
	"github.com/ranker-worker/ranker-worker/policy"
	"github.com/ranker-worker/ranker-worker/state"
	"github.com/ranker-worker/ranker-worker/stream/event"
)

// learner is a learner of the partition: configured, or only remembered because entries name its number.
type learner struct {
	storedLearner
	changed bool // its line in the learner table must be written
	gone    bool // stored, but not configured any more: without items and delay.Learner

	cfg       *LearnerConfig
	delay     delay.Learner
	arrived   int // arrivals of the global learner with which delay was refreshed
	items     itemIndex
	grown     int    // item count that delay was given
	ended     int64  // items dropped since the state was loaded
	itemHash  string // name of the hash of its items
	namesHash string // name of the hash of their names
	hashes    map[string]ownHash

	observer observer
}

// ownHash is one of a learner's hashes, besides that of its items.
type ownHash struct {
	full    string // its name in the store
	publish bool   // other partitions read its fields
	byItem  bool   // its fields' names begin with item numbers
}

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

func newLearner(cfg *LearnerConfig, names Names) *learner {
	l := &learner{
		storedLearner: storedLearner{name: cfg.Name, number: -1, fingerprint: cfg.Fingerprint}, cfg: cfg, delay: cfg.New(), items: newItemIndex(names),
		itemHash: cfg.Name + ":" + ItemsHash, namesHash: cfg.Name + ":" + NamesHash, hashes: make(map[string]ownHash),
	}
	l.observer = observer{cfg: cfg, delay: l.delay, items: &l.items, looking: sampling{wanted: true}}
	for _, h := range l.delay.Hashes() {
		l.hashes[h] = ownHash{full: cfg.Name + ":" + h}
	}
	for _, p := range l.delay.Pooled() {
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

// carried keeps the items of an impression that began and can be paid until payoffDeadline.
func (l *learner) carried(items []policy.Item, began, payoffDeadline event.Millis, g *segments) {
	r := &l.items.retention
	if r.keep == 0 {
		return
	}
	until := r.tickAt(max(later(began, r.keep), payoffDeadline))
	for _, i := range items {
		g.loose += l.items.carry(i, until)
	}
}

func (l *learner) endItems(items []policy.Item, g *segments) {
	f := l.delay.(delay.ItemRemoving) // retention requires it
	for _, i := range items {
		g.loose += itemWeight + int64(len(l.items.name(i))) + l.items.renew(namesPage(i))
		f.Forget(i)
		l.observer.drops.forget(i)
		l.items.drop(i)
	}
	f.Count(l.items.len())
	l.ended += int64(len(items))
	l.changed = true
}

// keepsSelected reports whether the learner still has an entry's selected item. It is true without a selection.
func (l *learner) keepsSelected(e *entry) bool {
	return e.selected < 0 || l.items.has(e.items[e.selected])
}

// retained returns the retention of loaded items, if there are any, and updates the learner's line.
func (l *learner) retained(partition int32, watermark event.Millis, any bool) retention {
	r := newRetention(l.cfg.ItemRetention, partition)
	switch {
	case r.keep == 0:
		l.changed = l.changed || l.stored.keeps
		l.stored.keeps, l.stored.kept = false, 0
	case !l.stored.keeps:
		l.changed = true
		l.stored.keeps, l.stored.kept = true, 0
		if any {
			l.stored.kept = later(watermark, r.keep)
		}
	}
	r.kept = l.stored.kept
	return r
}

func byName(a, b state.Field) int {
	return cmp.Or(strings.Compare(a.Hash, b.Hash), bytes.Compare(a.Field, b.Field))
}

func (l *learner) load(items []storedItem, named []namedItem, fields []state.Field, partition int32, watermark event.Millis) error {
	r := l.retained(partition, watermark, len(items)+len(named) > 0)
	if err := l.items.load(items, named, l.stored.next, r); err != nil {
		return err
	}
	l.grow()
	slices.SortFunc(items, func(a, b storedItem) int { return int(a.number) - int(b.number) })
	for _, it := range items {
		l.delay.LoadSums(it.number, it.sums)
	}
	slices.SortFunc(fields, byName)
	for _, f := range fields {
		if err := l.delay.LoadField(f.Hash, f.Field, f.Value); err != nil {
			return err
		}
	}
	err := l.delay.Loaded()
	l.observer.countedBefore = l.counting()
	return err
}

func (l *learner) counting() Counting {
	s := l.delay.Status().Silence
	return Counting{s.Weight, s.Payoffs}
}

// meet reports to a learner with a context the time at which an impression that carries these items began.
func (l *learner) meet(items []policy.Item, began event.Millis) {
	if l.cfg.Context != nil {
		l.delay.Meet(items, began)
	}
}
