package admin

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/ranker-worker/ranker-worker/config"
	"github.com/ranker-worker/ranker-worker/delay"
	"github.com/ranker-worker/ranker-worker/internal/app"
	"github.com/ranker-worker/ranker-worker/state"
	"github.com/ranker-worker/ranker-worker/stream/partition"
)

var ErrImported = errors.New("this export was imported before")

type ImportQuery struct {
	Learner string // of the export; empty: the only one in it
	As      string // the importing learner; empty: the one with the same name
	Again   bool   // even if it was imported before
}

type ImportReport struct {
	ID         string            `json:"id"` // of the export
	Learner    string            `json:"learner"`
	Partitions []ImportPartition `json:"partitions"`
}

type ImportPartition struct {
	Partition int32 `json:"partition"`
	Sections  int   `json:"sections"` // partitions of the export that went here
	Items     int   `json:"items"`
	Payoffs   int64 `json:"payoffs"`
}

// section is the exported state of one partition's learner.
type section struct {
	learner, fingerprint string
	partition            int32
	fields               []state.Field
	items                int
	payoffs              int64
}

// Import adds the statistics of a learner in an export to the group's learner. Partition i of the
// export goes to partition i modulo the number here. It refuses while the group has live members,
// if the fingerprints differ, and if the export was imported since the learner's last reset.
//
// A group that has never run begins here, as with its first worker: its
// start offsets are fixed now. It fails with ErrLost if the state was lost.
func (tool *Tool) Import(ctx context.Context, r io.Reader, q ImportQuery) (*ImportReport, error) {
	head, sections, err := readExport(r)
	if err != nil {
		return nil, err
	}
	sections, from, err := choose(sections, q.Learner)
	if err != nil {
		return nil, err
	}
	to := from
	if q.As != "" {
		to = q.As
	}
	if _, err := tool.learner(to); err != nil {
		return nil, err
	}
	if err := tool.stopped(ctx); err != nil {
		return nil, err
	}
	report := &ImportReport{ID: head.ID, Learner: to}
	n, err := tool.partitions(ctx)
	if err != nil {
		return nil, err
	}
	if err := tool.beginMissing(ctx, int32(n)); err != nil {
		return nil, err
	}
	shares := make([][]section, n)
	for _, s := range sections {
		p := int(s.partition) % n
		shares[p] = append(shares[p], s)
	}
	var before error
	for p, share := range shares {
		if len(share) == 0 {
			continue
		}
		one, err := tool.importPartition(ctx, int32(p), to, share, head, q.Again)
		if errors.Is(err, ErrImported) { // perhaps by an interrupted command
			before = err
			continue
		}
		if err != nil {
			return report, err
		}
		report.Partitions = append(report.Partitions, one)
		tool.say("partition %d of %d is imported", p, n)
	}
	if len(report.Partitions) == 0 {
		return report, before
	}
	return report, nil
}

func (tool *Tool) importPartition(ctx context.Context, p int32, learner string, share []section, head *exportLine, again bool) (ImportPartition, error) {
	one := ImportPartition{Partition: p, Sections: len(share)}
	var from []*partition.Offline
	for i := range share {
		m, err := tool.machineOf(learner, &share[i])
		if err != nil {
			return one, err
		}
		from = append(from, m)
		one.Items += share[i].items
		one.Payoffs += share[i].payoffs
	}
	h := History{Done: "import", Learner: learner, Detail: fmt.Sprintf("%s in export %s of group %s, %s", share[0].learner, head.ID, head.Group, head.Time)}
	return one, tool.addStatistics(ctx, p, h, from, func(_ *partition.Offline, past []History) error {
		if !again && slices.Contains(allTaken(past), Taken{Learner: learner, Detail: h.Detail}) {
			return fmt.Errorf("%w into partition %d: it would count twice; use --again to do so", ErrImported, p)
		}
		return nil
	})
}

// addStatistics adds the statistics of a learner in other machines to a partition, in one checkpoint with the entry h of the history. It
// keeps their sum apart, for the checker. Nothing is stored if allow fails; it gets the partition's machine and its history.
func (tool *Tool) addStatistics(ctx context.Context, p int32, h History, from []*partition.Offline,
	allow func(to *partition.Offline, past []History) error) error {
	to, err := tool.newMachine(p)
	if err != nil {
		return err
	}
	only, err := tool.newMachine(p) // with added statistics only
	if err != nil {
		return err
	}
	h.Values = importedHash(h.Learner)
	return tool.alter(ctx, p, append(to.Hashes(), h.Values), func(_ *state.Meta, fields []state.Field) (*alteration, error) {
		past, err := readHistory(fields)
		if err != nil {
			return nil, err
		}
		before, fields := cutImported(h.Learner, fields)
		if err := errors.Join(load(to, fields), load(only, before)); err != nil {
			return nil, err
		}
		if err := allow(to, past); err != nil {
			return nil, err
		}
		for rank, m := range from {
			part := delay.Portion{Additive: true, Of: int32(len(from)), Rank: int32(rank)}
			if err := errors.Join(merge(to, m, h.Learner, part), merge(only, m, h.Learner, part)); err != nil {
				return nil, err
			}
		}
		a := &alteration{history: h}
		to.Seal(&a.changes)
		var own state.Changes
		only.Seal(&own)
		a.changes.Writes = append(a.changes.Writes, imported(h.Learner, own.Writes, a.changes.Writes)...)
		return a, nil
	})
}

// machineOf makes a machine from a section, with the code that loads stored state.
func (tool *Tool) machineOf(learner string, s *section) (*partition.Offline, error) {
	m, err := tool.newMachine(s.partition)
	if err != nil {
		return nil, err
	}
	fields := make([]state.Field, len(s.fields))
	for i, f := range s.fields {
		f.Hash = learner + ":" + f.Hash
		fields[i] = f
	}
	if err := load(m, fields); err != nil {
		return nil, fmt.Errorf("%w: learner %q of partition %d: %w", ErrExport, s.learner, s.partition, err)
	}
	known, err := m.Inspect(learner)
	if err != nil {
		return nil, err
	}
	if known.Fingerprint != s.fingerprint {
		return nil, fmt.Errorf("%w: the export was learned as %s, learner %q is configured as %s", partition.ErrLearner,
			s.fingerprint, learner, known.Fingerprint)
	}
	return m, nil
}

// merge adds the statistics of a learner to another machine.
func merge(to, from *partition.Offline, learner string, share delay.Portion) error {
	return partition.NewTransfer(from, to, share).Learner(learner)
}

func choose(all []section, learner string) ([]section, string, error) {
	var names []string
	for _, s := range all {
		if !slices.Contains(names, s.learner) {
			names = append(names, s.learner)
		}
	}
	if learner == "" && len(names) == 1 {
		learner = names[0]
	}
	chosen := slices.DeleteFunc(slices.Clone(all), func(s section) bool { return s.learner != learner })
	if len(chosen) == 0 {
		return nil, "", fmt.Errorf("the export has learners %q: say which with --learner", names)
	}
	return chosen, learner, nil
}

func readExport(r io.Reader) (*exportLine, []section, error) {
	dec := json.NewDecoder(bufio.NewReaderSize(r, 1<<16))
	var head exportLine
	if err := dec.Decode(&head); err != nil || head.Format != exportFormat {
		return nil, nil, fmt.Errorf("%w: its first line does not say so", ErrExport)
	}
	if head.Version != exportVersion {
		return nil, nil, fmt.Errorf("%w: it has version %d, this program reads %d", ErrExport, head.Version, exportVersion)
	}
	var sections []section
	for lines := 1; ; lines++ {
		var l exportLine
		if err := dec.Decode(&l); err != nil {
			return nil, nil, fmt.Errorf("%w: line %d: %w", ErrExport, lines+1, err)
		}
		if l.End {
			if l.Lines != lines {
				return nil, nil, fmt.Errorf("%w: it has %d lines and says %d", ErrExport, lines, l.Lines)
			}
			return &head, sections, nil
		}
		if l.Learner != "" && l.Partition != nil && *l.Partition >= 0 {
			sections = append(sections, section{learner: l.Learner, fingerprint: l.Fingerprint, partition: *l.Partition})
			continue
		}
		if len(sections) == 0 {
			return nil, nil, fmt.Errorf("%w: line %d belongs to no learner", ErrExport, lines+1)
		}
		if err := sections[len(sections)-1].add(&l); err != nil {
			return nil, nil, fmt.Errorf("%w: line %d: %w", ErrExport, lines+1, err)
		}
	}
}

func (s *section) add(l *exportLine) error {
	switch {
	case l.Item != "":
		_, sums, err := partition.ParseItem(l.Stats)
		if err != nil {
			return err
		}
		s.items++
		s.payoffs += sums.N
		s.fields = append(s.fields, state.Field{Hash: partition.ItemsHash, Field: []byte(l.Item), Value: l.Stats})
	case l.Hash != "" && l.Hash != partition.ItemsHash:
		value := l.Binary
		if value == nil {
			value = []byte(l.Value)
		}
		s.fields = append(s.fields, state.Field{Hash: l.Hash, Field: []byte(l.Field), Value: value})
	default:
		return errors.New("it is neither an item nor a field")
	}
	return nil
}

// Exported returns a machine with the statistics of a learner in an export, of all its partitions together. It connects to nothing.
func Exported(cfg *config.Config, learner string, r io.Reader) (*partition.Offline, error) {
	_, sections, err := readExport(r)
	if err != nil {
		return nil, err
	}
	if sections, _, err = choose(sections, learner); err != nil {
		return nil, err
	}
	tool := &Tool{cfg: cfg}
	if tool.machine, err = app.MachineConfig(cfg); err != nil {
		return nil, err
	}
	m, err := tool.emptyMachine(0)
	if err != nil {
		return nil, err
	}
	for rank := range sections {
		share := delay.Portion{Additive: true, Of: int32(len(sections)), Rank: int32(rank)}
		from, err := tool.machineOf(learner, &sections[rank])
		if err == nil {
			err = merge(m, from, learner, share)
		}
		if err != nil {
			return nil, fmt.Errorf("taking over partition %d: %w", sections[rank].partition, err)
		}
	}
	return m, nil
}
