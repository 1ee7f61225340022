package partition

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/valyala/fastjson"

	"github.com/ranker-worker/ranker-worker/state"
	"github.com/ranker-worker/ranker-worker/stream/event"
)

// ErrLearner means that a configured learner does not fit its stored state.
var ErrLearner = errors.New("partition: learner does not fit the stored state")

// UnfitError is an ErrLearner: the configured fingerprint differs from the stored one.
type UnfitError struct {
	Learner, Configured string
	Stored              map[string]string // fingerprints of all stored learners that have one, by name
}

func (e *UnfitError) Error() string {
	return fmt.Sprintf("%v: %q: it is configured as %s, but was learned as %s: give it another name, or stop the workers "+
		"and run `ranker-worker state reset --learner`", ErrLearner, e.Learner, e.Configured, e.Stored[e.Learner])
}

func (e *UnfitError) Unwrap() error { return ErrLearner }

func fingerprints(table []storedLearner) map[string]string {
	all := map[string]string{}
	for _, s := range table {
		if s.fingerprint != "" {
			all[s.name] = s.fingerprint
		}
	}
	return all
}

// Unfit returns why a machine with these learners would refuse the stored state, given the fields of its hash "meta"; nil if all learners
// fit. It fails if the learner table cannot be decoded.
func Unfit(learners []LearnerConfig, fields []state.Field) (*UnfitError, error) {
	var table []storedLearner
	for _, f := range fields {
		name, ok := strings.CutPrefix(string(f.Field), learnerPrefix)
		if f.Hash != state.MetaHash || !ok {
			continue
		}
		s, err := parseLearner(f.Value)
		if err != nil {
			return nil, err
		}
		s.name = name
		table = append(table, s)
	}
	stored := fingerprints(table)
	for i := range learners {
		if l := &learners[i]; stored[l.Name] != "" && stored[l.Name] != l.Fingerprint {
			return &UnfitError{Learner: l.Name, Configured: l.Fingerprint, Stored: stored}, nil
		}
	}
	return nil, nil
}

// Fields of the hash "meta", besides the account and the learner table.
const (
	watermarkField = "watermark"
	floorField     = "floor"
	saltField      = "salt"
	stepsField     = "steps"
	ordersField    = "orders"
	seenField      = "seen"
)

// loading collects stored fields, which come in any order.
type loading struct {
	parser fastjson.Parser
	table  []storedLearner
	items  map[*learner][]storedItem
	named  map[*learner][]namedItem
	fields map[*learner][]state.Field
	missed map[*learner][]state.Field
	trials []state.Field
	salted bool
	check  uint32 // of the rest of the state; the observations are used only if it matches
}

type storedLearner struct {
	name        string
	number      int32
	fingerprint string
	ledger      ledger
	items       storedItems
}

func newLoading() *loading {
	return &loading{items: make(map[*learner][]storedItem), named: make(map[*learner][]namedItem),
		fields: make(map[*learner][]state.Field), missed: make(map[*learner][]state.Field)}
}

// Load adds one stored field, whose memory must not change before Loaded. Unknown fields of "meta" are ignored.
func (m *Machine) Load(f state.Field) error {
	if m.loading == nil {
		return errors.New("partition: a field to load after the last")
	}
	if f.Hash == state.MetaHash {
		return m.loadMeta(string(f.Field), f.Value)
	}
	if f.Hash == ExperimentsHash {
		m.loading.trials = append(m.loading.trials, f)
		return nil
	}
	own, ok := m.hashes[f.Hash]
	if !ok {
		return fmt.Errorf("partition: field of a hash %q that was not asked for", f.Hash)
	}
	l := own.learner
	var err error
	switch own.hash {
	case ItemsHash:
	case NamesHash:
		m.loading.named[l], err = parseNames(m.loading.named[l], f.Field, f.Value)
		return err
	case CatalogueHash:
		return l.items.loadCount(f)
	case missedHash:
		m.loading.missed[l] = append(m.loading.missed[l], f)
		return nil
	default:
		m.loading.fields[l] = append(m.loading.fields[l], state.Field{Hash: own.hash, Field: f.Field, Value: f.Value})
		return nil
	}
	it, err := parseItem(&m.loading.parser, f.Value)
	if err != nil {
		return fmt.Errorf("item %.64q: %w", f.Field, err)
	}
	it.name = f.Field
	m.loading.items[l] = append(m.loading.items[l], it)
	return nil
}

func (m *Machine) loadMeta(field string, value []byte) error {
	var err error
	switch {
	case field == watermarkField:
		m.time.watermark, err = strconv.ParseInt(string(value), 10, 64)
	case field == floorField:
		var floor int64
		floor, err = strconv.ParseInt(string(value), 10, 64)
		m.expiry.from(floor)
	case field == saltField:
		m.cfg.Salt, err = strconv.ParseUint(string(value), 16, 64)
		m.loading.salted = true
	case field == stepsField:
		err = m.steps.load(value)
	case field == ordersField:
		err = m.steps.loadOrders(value)
	case field == seenField:
		m.loading.check = m.seen.load(value)
	case strings.HasPrefix(field, accountPrefix):
		return m.ledger.load(strings.TrimPrefix(field, accountPrefix), string(value))
	case strings.HasPrefix(field, learnerPrefix):
		s, err := parseLearner(value)
		if err != nil {
			return err
		}
		s.name = strings.TrimPrefix(field, learnerPrefix)
		m.loading.table = append(m.loading.table, s)
	}
	if err == nil && (m.time.watermark < 0 || m.expiry.floor < 0) {
		err = strconv.ErrRange
	}
	if err != nil {
		return fmt.Errorf("partition: field %q of meta is %.64q: %w", field, value, err)
	}
	return nil
}

// Loaded ends the loading. It fails with an UnfitError if a learner's configured fingerprint is not the stored one.
func (m *Machine) Loaded(event.Millis) error {
	ld := m.loading
	m.loading = nil
	if err := m.learnerTable.load(ld.table); err != nil {
		return err
	}
	for _, l := range m.learners {
		if l.gone {
			continue
		}
		if err := l.load(ld.items[l], ld.named[l], ld.fields[l], m.time.watermark); err != nil {
			return fmt.Errorf("loading learner %q: %w", l.name, err)
		}
		if err := m.join.absences.deliver(l, ld.missed[l]); err != nil {
			return fmt.Errorf("loading learner %q: %w", l.name, err)
		}
	}
	if err := m.trials.load(ld.trials, m.time.watermark); err != nil {
		return err
	}
	m.seen.known = m.seen.known && ld.check == m.check()
	m.sealedMeta = sealedMeta{stored: ld.salted, watermark: m.time.watermark, floor: m.expiry.floor, orders: m.steps.orders}
	return nil
}

func (l *learner) load(items []storedItem, named []namedItem, fields []state.Field, watermark event.Millis) error {
	l.stored.any = len(items)+len(named) > 0
	if err := l.items.load(items, named, l.stored.next, l.retained(watermark)); err != nil {
		return err
	}
	l.grow()
	slices.SortFunc(items, func(a, b storedItem) int { return int(a.number) - int(b.number) })
	for _, it := range items {
		l.delay.LoadSums(it.number, it.sums)
	}
	slices.SortFunc(fields, func(a, b state.Field) int {
		if c := strings.Compare(a.Hash, b.Hash); c != 0 {
			return c
		}
		return bytes.Compare(a.Field, b.Field)
	})
	for _, f := range fields {
		if err := l.delay.LoadField(f.Hash, f.Field, f.Value); err != nil {
			return err
		}
	}
	err := l.delay.Loaded()
	l.observer.countedBefore = l.counting()
	return err
}
