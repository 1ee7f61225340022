package partition

import (
	"errors"
	"fmt"
	"slices"

	"github.com/ranker-worker/ranker-worker/stream/event"
)

// Machine is the state of one partition. It is not safe for concurrent use.
//
// Its life: New, Load for every stored field, Loaded; then Step, Tick and Expire in any order, with Seal before each checkpoint. After an
// error of any of them it must not be used any more.
type Machine struct {
	cfg Config // with the stored salt
	Entries
	learnerTable
	accounts
	reader  reader
	time    eventTime
	trials  trials
	join    joiner
	decider decider
	steps   inputOrder
	seen    observationLog

	behind   bool // event time has moved since it was acted upon
	stepping stepping
	epoch    uint64 // the epoch of Config.Pooled that decisions use
	shown    uint64 // the epoch that status shows: epoch or a later one

	loading    *loading
	sealer     sealer
	sealedMeta sealedMeta
}

// sealedMeta holds the machine's fields of the hash "meta" as of the last seal, without the account.
type sealedMeta struct {
	stored    bool // salt and the rest were written once
	watermark event.Millis
	floor     int64
	orders    int64
}

var errConfig = errors.New("partition: configuration")

// New makes a machine. It fails if the configuration contradicts itself.
func New(cfg Config) (*Machine, error) {
	switch {
	case cfg.Pooled != nil:
		cfg.Names = cfg.Pooled.names
	case cfg.Names == nil:
		cfg.Names = NewNameTable()
	}
	cfg.Learners = slices.Clone(cfg.Learners)
	if cfg.ParkingTime < 0 || cfg.MaxRankingBytes <= 0 || cfg.Remember != UntilHorizon && cfg.Remember < cfg.ParkingTime {
		return nil, fmt.Errorf("%w: parking time %d ms, remembered for %d ms, largest ranking %d bytes", errConfig, cfg.ParkingTime,
			cfg.Remember, cfg.MaxRankingBytes)
	}
	m := &Machine{cfg: cfg, loading: newLoading(), time: newEventTime(), steps: inputOrder{run: -1}, reader: newReader(&cfg)}
	var err error
	if m.learnerTable, err = newLearnerTable(&m.cfg); err != nil {
		return nil, err
	}
	if m.trials, err = newTrials(&m.cfg, m.byName); err != nil {
		return nil, err
	}
	m.Entries = Entries{time: &m.time, hashKey: cfg.HashKey, segments: newSegments(), expiry: newExpiry()}
	m.cur.entry.reset()
	m.accounts = accounts{current: &m.cur.entry, table: &m.learnerTable}
	m.join = joiner{Entries: &m.Entries, learnerTable: &m.learnerTable, accounts: &m.accounts, reader: &m.reader, cfg: &m.cfg,
		trials: &m.trials, stepping: &m.stepping}
	m.decider = decider{learnerTable: &m.learnerTable, cfg: &m.cfg, trials: &m.trials, time: &m.time, segments: &m.segments}
	m.sealer.segments = &m.segments
	return m, nil
}

// Names returns the process-wide table of item names.
func (m *Machine) Names() Names { return m.cfg.Names }

// Begin notes the offsets from which an owner continues by its own choice. If the order of earlier steps is not known, it drops them.
func (m *Machine) Begin(offsets [event.Inputs]int64, known bool) {
	if !known {
		m.steps.restart()
	}
	m.steps.next = offsets
	m.steps.at(m.time.watermark)
	m.steps.read()
}

// Steps returns the steps since the last ranking or order record, as in a header; see ParseSteps.
func (m *Machine) Steps() []byte { return m.steps.appendHeader(nil) }

// Tick raises the watermark to the least, over the input topics, of the newest effective time read, or of now for a topic read to its end.
// It never falls and is never ahead of now.
func (m *Machine) Tick(now event.Millis, atEnd [event.Inputs]bool) {
	atEnd[event.Selections] = atEnd[event.Selections] || !m.cfg.HasSelections
	m.Raise(m.time.least(now, atEnd))
}

// Raise raises the watermark to w. Learners advance before the next step, seal or expiry, so the number of raises in between has no effect.
func (m *Machine) Raise(w event.Millis) {
	if m.time.raise(w) {
		m.behind = true
	}
}

func (m *Machine) Watermark() event.Millis { return m.time.watermark }

// Gaps returns how often this machine had to leave observations out of headers. It is not part of the state.
func (m *Machine) Gaps() int64 { return m.seen.gaps }

// Misspelt returns the misspelt fields of decoded records, by input topic. It is not part of the state.
func (m *Machine) Misspelt() (all [event.Inputs]event.Misspelling) {
	for topic := range all {
		all[topic] = m.reader.decoder.Misspelt(event.Topic(topic))
	}
	return all
}

// Account returns a copy of all counts.
func (m *Machine) Account() Account { return m.ledger.account() }

// Hashes returns the names of the hashes to load, besides "meta".
func (m *Machine) Hashes() []string {
	names := []string{ExperimentsHash}
	for _, l := range m.configured {
		for _, h := range append(itemHashes(), l.delay.Hashes()...) {
			names = append(names, l.name+":"+h)
		}
	}
	return names
}
