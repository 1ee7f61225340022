package partition

import (
	"maps"
	"slices"
	"strconv"

	"github.com/ranker-worker/ranker-worker/state"
)

// Dirty is how much has changed since the last seal: how many entries, and about how many bytes storing it all takes.
func (m *Machine) Dirty() (entries int, bytes int64) {
	return len(m.over.dirty), m.dirtyWeight + m.looseBytes
}

// Seal appends to dst everything that has changed since the last one, as absolute values, and ends the segment. What it
// appends stays as it is: it has memory of its own. Segments are numbered from 1, each one more than the one before;
// any tells whether this one changed anything.
func (m *Machine) Seal(dst *state.Changes) (segment uint64, any bool) {
	before := len(dst.Writes) + len(dst.Entries) + len(dst.Due)
	m.arena = make([]byte, 0, m.dirtyWeight-slotWeight*int64(len(m.over.dirty))+m.looseBytes+1024)
	m.sealMeta(dst)
	for _, l := range m.learners {
		m.sealLearner(l, dst)
	}
	m.sealMissed(dst)
	dst.Due = append(dst.Due, m.strays...)
	m.strays = m.strays[:0]
	for _, s := range m.over.seal(m.segment) {
		m.sealSlot(s, dst)
	}
	m.arena = nil
	m.looseBytes, m.dirtyWeight = 0, 0
	segment = m.segment
	m.segment++
	return segment, len(dst.Writes)+len(dst.Entries)+len(dst.Due) > before
}

// keep copies bytes into the segment's arena. When that is full a new one is begun: what is in the old one stays.
func (m *Machine) keep(b []byte) []byte {
	if len(m.arena)+len(b) > cap(m.arena) {
		m.arena = make([]byte, 0, max(64<<10, len(b)))
	}
	start := len(m.arena)
	m.arena = append(m.arena, b...)
	return m.arena[start:len(m.arena):len(m.arena)]
}

func (m *Machine) sealSlot(s *slot, dst *state.Changes) {
	id := m.keep(s.id)
	switch {
	case !s.deleted:
		dst.Entries = append(dst.Entries, state.Entry{ID: id, Value: m.keep(s.value)})
	case s.stored:
		dst.Entries = append(dst.Entries, state.Entry{ID: id})
	}
	s.stored = !s.deleted
	if s.bucket != s.storedBucket {
		if s.storedBucket != noBucket {
			dst.Due = append(dst.Due, state.Due{Bucket: s.storedBucket, ID: id, Remove: true})
		}
		if s.bucket != noBucket {
			dst.Due = append(dst.Due, state.Due{Bucket: s.bucket, ID: id})
		}
		s.storedBucket = s.bucket
	}
	s.weight = 0
}

func (m *Machine) sealMeta(dst *state.Changes) {
	if !m.sealedMeta.stored {
		m.write(dst, saltField, appendHex(nil, m.salt))
	}
	if !m.sealedMeta.stored || m.sealedMeta.watermark != m.watermark {
		m.write(dst, watermarkField, strconv.AppendInt(nil, m.watermark, 10))
	}
	if !m.sealedMeta.stored || m.sealedMeta.floor != m.floor {
		m.write(dst, floorField, strconv.AppendInt(nil, m.floor, 10))
	}
	m.sealedMeta = sealedMeta{stored: true, watermark: m.watermark, floor: m.floor}
	for c, n := range m.ledger.now {
		if n != m.ledger.sealed[c] {
			m.write(dst, accountPrefix+countNames[c], strconv.AppendInt(nil, n, 10))
		}
	}
	m.ledger.sealed = m.ledger.now
	for _, name := range slices.Sorted(maps.Keys(m.ledger.foreign)) {
		if n := m.ledger.foreign[name]; n != m.ledger.foreignSealed[name] {
			m.write(dst, accountPrefix+name, strconv.AppendInt(nil, n, 10))
			m.ledger.foreignSealed[name] = n
		}
	}
	if m.steps.changed {
		m.write(dst, stepsField, m.steps.appendStored(nil))
		m.steps.changed = false
	}
}

func (m *Machine) write(dst *state.Changes, field string, value []byte) {
	dst.Writes = append(dst.Writes, state.Write{Hash: metaHash, Field: []byte(field), Value: value})
}

// appendHex appends 16 hexadecimal digits.
func appendHex(dst []byte, x uint64) []byte {
	for shift := 60; shift >= 0; shift -= 4 {
		dst = append(dst, "0123456789abcdef"[x>>shift&15])
	}
	return dst
}

func (m *Machine) sealLearner(l *learner, dst *state.Changes) {
	if l.changed {
		m.write(dst, learnerPrefix+l.name, appendLearner(nil, l))
		l.changed = false
	}
	if l.gone {
		return
	}
	if forms := string(l.appendForms(nil)); forms != l.forms {
		m.write(dst, formsPrefix+l.name, []byte(forms))
		l.forms = forms
	}
	m.harvest = harvester{m: m, l: l, c: dst}
	l.delay.Harvest(&m.harvest)
	m.harvest = harvester{}
	var scratch []byte
	for i := range l.items.changes.All() {
		sums := l.delay.Sums(i)
		scratch = appendItem(scratch[:0], i, sums)
		dst.Writes = append(dst.Writes, state.Write{
			Hash: l.itemHash, Field: m.keep([]byte(l.items.names[i])), Value: m.keep(scratch), Publish: sums.N > 0 || l.poolsByItem,
		})
	}
	l.items.changes.Clear()
}

// Forget says that checkpoints up to this segment are in the store, and that every record whose look-up was answered
// before that has been stepped: what has not changed since can be looked up again.
func (m *Machine) Forget(segment uint64) {
	m.over.forget(segment, func(s *slot) {
		if s.deleted {
			m.known.remove(s.hash)
		}
	})
	for b, last := range m.touched {
		if last <= segment {
			delete(m.touched, b)
		}
	}
}
