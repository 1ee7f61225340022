package partition

import (
	"encoding/binary"
	"hash/fnv"
	"slices"

	"github.com/ranker-worker/ranker-worker/state"
)

// Seen begins to tell what this machine sees, which has just been loaded: in headers of rankings, and in what is stored. Of b Writer, Seq
// and Inputs are to be given.
func (m *Machine) Seen(b ObservationBegin) {
	s := &m.seen
	b.LoadedWriter, b.LoadedSeal = s.loadedWriter, s.sealed
	b.Fresh = !m.sealedMeta.stored
	b.Unknown = !b.Fresh && !s.known
	b.Watermark, b.Salt, b.Program, b.Settings = m.time.watermark, m.salt, m.cfg.Program, m.cfg.Settings
	s.started(&b)
}

// Sent notes that the oldest segments that were sealed, so many, are sent to the store as one checkpoint.
func (m *Machine) Sent(segments int) { m.seen.sent(segments) }

// Imported notes that SetSource has been told a part of what a source has published.
func (m *Machine) Imported(i Import) {
	if m.cfg.Pooled == nil || m.cfg.Pooled.others {
		m.seen.took(&i)
	}
}

// check is a hash of what steps and the walk change. It shows whether the field of what was seen belongs to the stored state: commands of
// `state` change that state, and leave the field as it is.
func (m *Machine) check() uint32 {
	h := fnv.New32a()
	var b []byte
	for _, n := range m.ledger.now {
		b = binary.AppendVarint(b, n)
	}
	_, _ = h.Write(binary.AppendVarint(b, m.time.watermark)) // never fails
	return h.Sum32()
}

// turned notes the epochs that were gone over to: the present one, and before it those that estimates are of.
func (m *Machine) turned(before uint64) {
	k := m.cfg.Pooled
	if !m.seen.on || len(k.wholes)+len(m.trials.all) == 0 {
		return
	}
	for at := before; at < k.epoch.Number; {
		next := &k.epoch
		for n := range k.estimates {
			if last := &k.estimates[n].last; last.Number > at && last.Number < next.Number {
				next = last
			}
		}
		at = next.Number
		m.seen.turn(next.Sources, k.lastAt(at))
	}
}

// stand is how far sources are known, by source.
type stand []SourceAt

func (s *stand) at(source int32) *SourceAt {
	if grow := int(source) + 1 - len(*s); grow > 0 {
		*s = append(*s, slices.Repeat([]SourceAt{{}}, grow)...)
	}
	return &(*s)[source]
}

func sourceAt(f state.Fence) SourceAt {
	return SourceAt{Known: true, Writer: WriterOf(f.Token), Seq: f.Seq}
}
