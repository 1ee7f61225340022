package admin

import (
	"bufio"
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/ranker-worker/ranker-worker/delay"
	"github.com/ranker-worker/ranker-worker/state"
	"github.com/ranker-worker/ranker-worker/stream/partition"
)

// An export is a stream of JSON lines. The first identifies it. Sections follow, one per learner and partition: a line that names
// them, a line per item, and a line per other field of the learner. The last line counts the lines before it, which shows a truncated
// stream. Work in progress is left out: selections in flight, holds and queues of QPM-D, and outstanding decisions of BOLD.
const (
	exportFormat  = "ranker-worker-state"
	exportVersion = 1
)

// exportLine is any line.
type exportLine struct {
	Format     string `json:"format,omitempty"` // of the first line
	Version    int    `json:"version,omitempty"`
	ID         string `json:"id,omitempty"` // identifies this export
	Group      string `json:"group,omitempty"`
	Time       string `json:"time,omitempty"`
	Partitions int    `json:"partitions,omitempty"`

	Learner     string `json:"learner,omitempty"` // of a section
	Fingerprint string `json:"fingerprint,omitempty"`
	Partition   *int32 `json:"partition,omitempty"`

	Item  string          `json:"item,omitempty"`  // of an item
	Stats json.RawMessage `json:"stats,omitempty"` // as stored: number, payoffs, sum, sum of squares

	Hash   string `json:"hash,omitempty"` // of another field
	Field  string `json:"field,omitempty"`
	Value  string `json:"value,omitempty"`
	Binary []byte `json:"binary,omitempty"` // instead of value, in base64

	End   bool `json:"end,omitempty"` // of the last line
	Lines int  `json:"lines,omitempty"`
}

var ErrExport = errors.New("this is not a whole export of ranker-worker")

type ExportReport struct {
	ID         string   `json:"id"`
	Learners   []string `json:"learners"`
	Partitions int      `json:"partitions"`
	Items      int      `json:"items"` // summed over partitions
	Lines      int      `json:"lines"`
}

// Export writes the statistics of one learner, or of all configured ones if learner is empty,
// to w. It only reads, with or without running workers, each partition at one instant.
func (tool *Tool) Export(ctx context.Context, learner string, w io.Writer) (*ExportReport, error) {
	var names []string
	for i := range tool.cfg.Learners {
		if l := &tool.cfg.Learners[i]; learner == "" || learner == l.Name {
			names = append(names, l.Name)
		}
	}
	if len(names) == 0 {
		_, err := tool.learner(learner)
		return nil, err
	}
	cut, err := tool.anyCut(ctx)
	if err != nil {
		return nil, err
	}
	n := cut.Partitions
	var id [8]byte
	_, _ = rand.Read(id[:]) // never fails
	r := &ExportReport{ID: hex.EncodeToString(id[:]), Learners: names, Partitions: n}
	buffered := bufio.NewWriterSize(w, 1<<16)
	enc := json.NewEncoder(buffered)
	enc.SetEscapeHTML(false)
	out := func(l exportLine) error {
		r.Lines++
		return enc.Encode(l)
	}
	err = out(exportLine{Format: exportFormat, Version: exportVersion, ID: r.ID, Group: tool.cfg.Kafka.Group,
		Time: tool.now().UTC().Format(time.RFC3339), Partitions: n})
	for p := int32(0); err == nil && p < int32(n); p++ {
		err = tool.exportPartition(ctx, p, names, r, out)
		tool.say("partition %d of %d is exported", p, n)
	}
	if err != nil {
		return nil, err
	}
	if err := enc.Encode(exportLine{End: true, Lines: r.Lines}); err != nil {
		return nil, err
	}
	return r, buffered.Flush()
}

// exportPartition writes a partition's sections: the fields that an empty machine stores after it has merged the partition's statistics.
func (tool *Tool) exportPartition(ctx context.Context, p int32, names []string, r *ExportReport, out func(exportLine) error) error {
	v, err := tool.lookForOutput(ctx, p)
	if errors.Is(err, state.ErrNoState) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, name := range names {
		to, err := tool.emptyMachine(p)
		if err != nil {
			return err
		}
		if err := partition.NewTransfer(v.machine, to, delay.Portion{Additive: true, Of: 1}).Learner(name); err != nil {
			return err
		}
		var changes state.Changes
		to.Seal(&changes)
		known, err := v.machine.Inspect(name)
		if err != nil {
			return err
		}
		if err := out(exportLine{Learner: name, Fingerprint: known.Fingerprint, Partition: &p}); err != nil {
			return err
		}
		if err := r.section(name, changes.Writes, out); err != nil {
			return err
		}
	}
	return nil
}

// section writes a learner's stored fields and items.
func (r *ExportReport) section(learner string, writes []state.Write, out func(exportLine) error) error {
	var items []state.Field
	for _, w := range writes {
		hash, ours := strings.CutPrefix(w.Hash, learner+":")
		if !ours || w.Value == nil {
			continue
		}
		line := exportLine{Hash: hash, Field: string(w.Field), Value: string(w.Value)}
		switch {
		case hash == partition.ItemsHash || hash == partition.NamesHash:
			items = append(items, state.Field{Hash: w.Hash, Field: w.Field, Value: w.Value})
			continue
		case hash == partition.CatalogueHash: // the items imply it
			continue
		case !utf8.Valid(w.Value):
			line.Value, line.Binary = "", w.Value
		}
		if err := out(line); err != nil {
			return err
		}
	}
	rows, err := partition.Rows(learner, items)
	if err != nil {
		return err
	}
	for _, row := range rows {
		r.Items++
		if err := out(exportLine{Item: string(row.Field), Stats: json.RawMessage(row.Value)}); err != nil {
			return err
		}
	}
	return nil
}

func (tool *Tool) emptyMachine(p int32) (*partition.Offline, error) {
	m, err := tool.newMachine(p)
	if err != nil {
		return nil, err
	}
	return m, m.Loaded()
}
