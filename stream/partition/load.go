package partition

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/ranker-worker/ranker-worker/state"
)

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
	return m.loading.add(own.learner, own.hash, f)
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
		s, err := parseLearner(strings.TrimPrefix(field, learnerPrefix), value)
		if err != nil {
			return err
		}
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
func (m *Machine) Loaded() error {
	ld := m.loading
	m.loading = nil
	if err := m.learnerTable.load(ld.table); err != nil {
		return err
	}
	for _, l := range m.learners {
		if l.gone {
			continue
		}
		if err := l.load(ld.items[l], ld.named[l], ld.fields[l], m.cfg.Partition, m.time.watermark); err != nil {
			return fmt.Errorf("loading learner %q: %w", l.name, err)
		}
		if err := m.join.deliver(l, ld.missed[l]); err != nil {
			return fmt.Errorf("loading learner %q: %w", l.name, err)
		}
	}
	if err := m.trials.load(ld.trials, m.time.watermark); err != nil {
		return err
	}
	m.seen.known = m.seen.known && ld.check == m.check()
	m.sealedMeta = sealedMeta{ld.salted, m.time.watermark, m.expiry.floor, m.steps.orders}
	return nil
}

// Unfit returns why a machine with these learners and experiments would refuse the stored state, an ErrLearner or ErrExperiment; nil if all
// fit. fields are those of the hash "meta", and with experiments of ExperimentsHash. It fails if they cannot be decoded. Of an experiment it
// reads the name, the run and the definition.
func Unfit(learners []LearnerConfig, experiments []ExperimentConfig, fields []state.Field) (refusal, err error) {
	table, err := storedTable(fields)
	if err != nil {
		return nil, err
	}
	stored := fingerprints(table)
	for i := range learners {
		if l := &learners[i]; stored[l.Name] != "" && stored[l.Name] != l.Fingerprint {
			return &UnfitError{Learner: l.Name, Configured: l.Fingerprint, Stored: stored}, nil
		}
	}
	for i := range experiments {
		switch err := experiments[i].unfit(fields); {
		case errors.Is(err, ErrExperiment):
			return err, nil
		case err != nil:
			return nil, err
		}
	}
	return nil, nil
}
