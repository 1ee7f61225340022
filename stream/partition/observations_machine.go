package partition

import (
	"encoding/binary"
	"hash/fnv"
)

// Seen starts recording observations, for headers of rankings and for the store. The machine has just been loaded. The caller sets Writer,
// Seq and Inputs of b.
func (m *Machine) Seen(b ObservationBegin) {
	s := &m.seen
	b.LoadedWriter, b.LoadedSeal = s.Writer, s.Sealed
	b.Fresh = !m.sealedMeta.stored
	b.Unknown = !b.Fresh && !s.known
	b.Alone = m.cfg.Pooled == nil
	b.Watermark, b.Salt, b.Program, b.Settings = m.time.watermark, m.cfg.Salt, m.cfg.Program, m.cfg.Settings
	s.started(&b)
}

// Sent records that this many of the oldest sealed segments are sent as one checkpoint.
func (g *Log) Sent(segments int) { g.seen.sent(segments) }

// check returns a hash of the account and the watermark. State commands change these and leave the stored observations, which then no
// longer fit.
func (m *Machine) check() uint32 {
	h := fnv.New32a()
	var b []byte
	for _, n := range m.ledger.now {
		b = binary.AppendVarint(b, n)
	}
	_, _ = h.Write(binary.AppendVarint(b, m.time.watermark)) // never fails
	return h.Sum32()
}
