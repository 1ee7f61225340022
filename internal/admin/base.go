package admin

import (
	"bufio"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/ranker-worker/ranker-worker/state"
	"github.com/ranker-worker/ranker-worker/stream/event"
)

// Base is a partition's whole state as of a checkpoint, from which a replay can begin.
type Base struct {
	Meta   state.Meta
	Fields []state.Field
	Pages  []state.PageOfEntries
	Taken  time.Time
}

// BaseReport is the result of TakeBase.
type BaseReport struct {
	Dir        string          `json:"dir"`
	Partitions []BasePartition `json:"partitions"`
}

type BasePartition struct {
	Partition  int32   `json:"partition"`
	Checkpoint int64   `json:"checkpoint"`
	Offsets    []int64 `json:"offsets"` // next to be read, of impressions, selections, payoffs
	Entries    int     `json:"entries"` // impressions and other entries under ids
}

const (
	partly      = ".part" // ends the name of a base's directory until it is whole
	baseFormat  = "ranker-worker base"
	baseVersion = 1
)

// baseLine is a line of a base's file. The first identifies it, and the last has the number of lines.
type baseLine struct {
	Format     string      `json:"format,omitempty"`
	Version    int         `json:"version,omitempty"`
	Group      string      `json:"group,omitempty"`
	Partition  int32       `json:"partition,omitempty"`
	Partitions int         `json:"partitions,omitempty"`
	Taken      time.Time   `json:"taken,omitzero"`
	Meta       *state.Meta `json:"meta,omitempty"`

	Hash  string `json:"hash,omitempty"` // of a field
	Field []byte `json:"field,omitempty"`
	Value []byte `json:"value,omitempty"`

	Page    *state.Page `json:"page,omitempty"` // of a page
	IDs     []state.ID  `json:"ids,omitempty"`
	Entries [][]byte    `json:"entries,omitempty"`

	End   bool `json:"end,omitempty"`
	Lines int  `json:"lines,omitempty"`
}

// ErrBase means that a directory does not hold a whole base of the group.
var ErrBase = errors.New("this is not a whole base of this group")

// ErrBeforeReshard means that a base is of another number of partitions, or of other topics.
var ErrBeforeReshard = errors.New("it was taken before `state reshard`: take a newer base")

// TakeBase writes the stored state to a new directory, a file per partition. It only reads,
// with or without running workers: each partition at one instant, which blocks the store.
func (tool *Tool) TakeBase(ctx context.Context, dir string) (*BaseReport, error) {
	cut, err := tool.anyCut(ctx)
	if err != nil {
		return nil, err
	}
	n := cut.Partitions
	dir = filepath.Clean(dir) // else the part of "DIR/" lies within it
	if _, err := os.Lstat(dir); err == nil {
		return nil, fmt.Errorf("%s is there already: name a new directory", dir)
	}
	part := dir + partly
	if err := os.RemoveAll(part); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(part, 0o700); err != nil {
		return nil, err
	}
	r := &BaseReport{Dir: dir}
	for p := range int32(n) {
		one, err := tool.takeBase(ctx, part, p, n)
		if err != nil {
			return nil, errors.Join(err, os.RemoveAll(part))
		}
		r.Partitions = append(r.Partitions, one)
		tool.say("partition %d of %d is taken", p, n)
	}
	return r, os.Rename(part, dir)
}

func (tool *Tool) takeBase(ctx context.Context, dir string, p int32, n int) (r BasePartition, err error) {
	b, err := tool.whole(ctx, p)
	if err != nil {
		return r, err
	}
	r = BasePartition{Partition: p, Checkpoint: b.Meta.Seq, Offsets: offsetsOf(&b.Meta)}
	for i := range b.Pages {
		r.Entries += len(b.Pages[i].Entries)
	}
	f, err := os.OpenFile(baseFile(dir, p), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return r, err
	}
	first := baseLine{Format: baseFormat, Version: baseVersion, Group: tool.cfg.Kafka.Group, Partition: p, Partitions: n, Taken: b.Taken, Meta: &b.Meta}
	err = errors.Join(writeBase(f, &first, b), f.Sync(), f.Close())
	return r, err
}

// whole reads all that is stored of a partition.
func (tool *Tool) whole(ctx context.Context, p int32) (b Base, err error) {
	m, err := tool.newMachine(p)
	if err != nil {
		return b, err
	}
	err = state.Patiently(ctx, func() (err error) {
		b.Taken = tool.now().UTC()
		b.Meta, b.Fields, b.Pages, err = tool.store.ViewAll(ctx, p, m.Hashes())
		return err
	})
	return b, err
}

func baseFile(dir string, p int32) string {
	return filepath.Join(dir, fmt.Sprintf("partition-%d.jsonl.gz", p))
}

func writeBase(f io.Writer, first *baseLine, b Base) error {
	buffered := bufio.NewWriterSize(f, 1<<16)
	packed := gzip.NewWriter(buffered)
	enc := json.NewEncoder(packed)
	lines := 0
	out := func(l *baseLine) error {
		lines++
		return enc.Encode(l)
	}
	err := out(first)
	for i := 0; err == nil && i < len(b.Fields); i++ {
		x := &b.Fields[i]
		err = out(&baseLine{Hash: x.Hash, Field: x.Field, Value: x.Value})
	}
	for i := 0; err == nil && i < len(b.Pages); i++ {
		l := baseLine{Page: &b.Pages[i].Page}
		for id, v := range b.Pages[i].Entries {
			l.IDs, l.Entries = append(l.IDs, id), append(l.Entries, v)
		}
		err = out(&l)
	}
	if err == nil {
		err = enc.Encode(&baseLine{End: true, Lines: lines})
	}
	return errors.Join(err, packed.Close(), buffered.Flush())
}

// FindBases returns the directories of bases: dir if it is one, or those in it.
func FindBases(dir string) ([]string, error) {
	if _, err := os.Stat(baseFile(dir, 0)); err == nil {
		return []string{dir}, nil
	}
	in, err := os.ReadDir(dir)
	var found []string
	for _, e := range in {
		one := filepath.Join(dir, e.Name())
		if _, err := os.Stat(baseFile(one, 0)); err == nil && filepath.Ext(one) != partly {
			found = append(found, one)
		}
	}
	if len(found) == 0 {
		return nil, errors.Join(fmt.Errorf("%s: %w", dir, ErrBase), err)
	}
	return found, nil
}

// ReadBase reads one of a group's partitions from a base, or of that only when and where it was taken.
func ReadBase(dir, group string, p int32, partitions int, whole bool) (b Base, err error) {
	name := baseFile(dir, p)
	f, err := os.Open(name)
	if err != nil {
		return b, fmt.Errorf("%w: %w", ErrBase, err)
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	packed, err := gzip.NewReader(bufio.NewReaderSize(f, 1<<16))
	if err != nil {
		return b, fmt.Errorf("%s: %w: %w", name, ErrBase, err)
	}
	dec := json.NewDecoder(packed)
	for lines := 0; ; lines++ {
		var l baseLine
		switch err := dec.Decode(&l); {
		case err != nil:
			return b, fmt.Errorf("%s: %w: %w", name, ErrBase, err)
		case lines == 0:
			err = l.isFirst(group, p, partitions)
			if err != nil {
				return b, fmt.Errorf("%s: %w: %w", name, ErrBase, err)
			}
			if b.Meta, b.Taken = *l.Meta, l.Taken; !whole {
				return b, nil
			}
		case l.End && l.Lines == lines:
			return b, nil
		case l.Page != nil && len(l.IDs) == len(l.Entries):
			page := state.PageOfEntries{Page: *l.Page, Entries: make(map[state.ID][]byte, len(l.IDs))}
			for i, id := range l.IDs {
				page.Entries[id] = l.Entries[i]
			}
			b.Pages = append(b.Pages, page)
		case l.Hash != "":
			b.Fields = append(b.Fields, state.Field{Hash: l.Hash, Field: l.Field, Value: l.Value})
		default:
			return b, fmt.Errorf("%s: %w: line %d does not belong to it", name, ErrBase, lines+1)
		}
	}
}

// isFirst checks the first line.
func (l *baseLine) isFirst(group string, p int32, partitions int) error {
	switch {
	case l.Format != baseFormat || l.Meta == nil || len(l.Meta.Inputs) != int(event.Inputs):
		return errors.New("it does not say that it is one")
	case l.Version != baseVersion:
		return fmt.Errorf("it has version %d, and this program reads %d", l.Version, baseVersion)
	case l.Group != group:
		return fmt.Errorf("it belongs to group %q", l.Group)
	case l.Partition != p || l.Partitions != partitions:
		return fmt.Errorf("it belongs to partition %d of %d, but the topics have %d: %w", l.Partition, l.Partitions, partitions, ErrBeforeReshard)
	}
	return nil
}
