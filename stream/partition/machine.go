package partition

import (
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
	Log

	behind    bool // event time has moved since it was acted upon
	stepping  stepping
	epoch     uint64 // the epoch of Config.Pooled that decisions use
	refreshed uint64 // the epoch that learners have read: epoch, or a later one that status shows

	loading    *loading
	sealer     sealer
	sealedMeta sealedMeta
}

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
	m := &Machine{cfg: cfg, loading: newLoading(), time: newEventTime(), reader: newReader(&cfg)}
	var err error
	if m.learnerTable, err = newLearnerTable(&m.cfg); err != nil {
		return nil, err
	}
	published := newPool()
	if cfg.Pooled != nil {
		published = cfg.Pooled.trials
	}
	if m.trials, err = newTrials(cfg.Experiments, m.byName, cfg.Partition, cfg.Partitions, published); err != nil {
		return nil, err
	}
	m.Entries = newEntries(&m.time, cfg.HashKey)
	m.accounts = accounts{current: &m.cur.entry, table: &m.learnerTable}
	m.join = joiner{Entries: &m.Entries, learnerTable: &m.learnerTable, accounts: &m.accounts, reader: &m.reader, cfg: &m.cfg,
		trials: &m.trials, stepping: &m.stepping}
	m.decider = decider{learnerTable: &m.learnerTable, cfg: &m.cfg, trials: &m.trials, time: &m.time, segments: &m.segments}
	m.Log = Log{cfg: &m.cfg, time: &m.time, steps: inputOrder{run: -1}}
	m.sealer.segments = &m.segments
	return m, nil
}

// Names returns the process-wide table of item names.
func (m *Machine) Names() Names { return m.cfg.Names }

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
