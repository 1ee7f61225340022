package partition

import (
	"fmt"
	"slices"

	"github.com/ranker-worker/ranker-worker/delay"
	"github.com/ranker-worker/ranker-worker/policy"
	"github.com/ranker-worker/ranker-worker/stream/event"
)

// learnerTable holds the learners of a partition: the configured ones, and others that entries or the log name.
type learnerTable struct {
	learners   []*learner // by number, once loaded
	byName     map[string]*learner
	configured []*learner // in the order of the configuration
	hashes     map[string]learnerHash
	fallback   *learner      // of records that name no learner
	byEpoch    bool          // the state of some learner depends on epochs (delay.Needs)
	due        []policy.Item // scratch: items to drop
}

type learnerHash struct {
	learner *learner
	hash    string
}

func itemHashes() []string { return []string{ItemsHash, NamesHash, CatalogueHash, missedHash} }

func newLearnerTable(cfg *Config) (t learnerTable, err error) {
	t.byName, t.hashes = make(map[string]*learner), make(map[string]learnerHash)
	for i := range cfg.Learners {
		if err := t.configure(&cfg.Learners[i], cfg); err != nil {
			return t, err
		}
	}
	return t, nil
}

func (t *learnerTable) configure(lc *LearnerConfig, cfg *Config) error {
	if err := lc.check(); err != nil {
		return fmt.Errorf("%w: learner %q: %w", errConfig, lc.Name, err)
	}
	if t.byName[lc.Name] != nil {
		return fmt.Errorf("%w: learner %q comes twice", errConfig, lc.Name)
	}
	l := newLearner(lc, cfg.Names)
	if _, forgets := l.delay.(delay.ItemRemoving); !forgets && lc.ItemRetention > 0 {
		return fmt.Errorf("%w: learner %q cannot forget items, and is to keep them for %d ms", errConfig, lc.Name, lc.ItemRetention)
	}
	cfg.Pooled.share(l, cfg.Partition)
	t.byEpoch = t.byEpoch || l.delay.Needs().Epoch
	t.byName[lc.Name], t.configured = l, append(t.configured, l)
	for _, h := range append(itemHashes(), l.delay.Hashes()...) {
		name := l.name + ":" + h
		if other, taken := t.hashes[name]; taken {
			return fmt.Errorf("%w: learners %q and %q would share the hash %q", errConfig, other.learner.name, l.name, name)
		}
		t.hashes[name] = learnerHash{l, h}
	}
	if !lc.Default && len(cfg.Learners) > 1 {
		return nil
	}
	if t.fallback != nil {
		return fmt.Errorf("%w: both %q and %q are the default learner", errConfig, t.fallback.name, l.name)
	}
	t.fallback = l
	return nil
}

// load numbers the learners: stored ones as stored, then new ones in the order of the configuration.
func (t *learnerTable) load(table []storedLearner) error {
	slices.SortFunc(table, func(a, b storedLearner) int { return int(a.number) - int(b.number) })
	for i, s := range table {
		if int(s.number) != i {
			return fmt.Errorf("partition: learner table: number %d of %q where %d was expected", s.number, s.name, i)
		}
		l := t.byName[s.name]
		switch {
		case l == nil:
			l = t.registerUnconfigured(s.name, s.fingerprint)
		case l.fingerprint != s.fingerprint && s.fingerprint != "":
			return &UnfitError{Learner: l.name, Configured: l.fingerprint, Stored: fingerprints(table)}
		default:
			t.register(l)
		}
		l.ledger, l.stored = s.ledger, s.stored
		l.changed = l.fingerprint != s.fingerprint
	}
	for _, l := range t.configured {
		if l.number < 0 {
			t.register(l)
		}
	}
	return nil
}

// register appends a learner to the table.
func (t *learnerTable) register(l *learner) {
	l.number = int32(len(t.learners))
	l.changed = true
	t.learners = append(t.learners, l)
	t.byName[l.name] = l
}

// registerUnconfigured registers a learner that is not configured: its entries need a number. An empty fingerprint fits any configuration
// that uses the name later.
func (t *learnerTable) registerUnconfigured(name, fingerprint string) *learner {
	l := &learner{storedLearner: storedLearner{name: name, fingerprint: fingerprint}, gone: true}
	t.register(l)
	return l
}

// advance moves the learners to a watermark.
func (t *learnerTable) advance(watermark event.Millis) {
	for _, l := range t.learners {
		if !l.gone {
			l.delay.Advance(watermark)
		}
	}
}

// endItems drops items that are due at a watermark.
func (t *learnerTable) endItems(watermark event.Millis, g *segments) {
	for _, l := range t.learners {
		if l.gone || l.items.retention.keep == 0 {
			continue
		}
		if t.due = l.items.due(watermark, t.due[:0]); len(t.due) > 0 {
			l.endItems(t.due, g)
		}
	}
}
