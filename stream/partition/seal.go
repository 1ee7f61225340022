package partition

import (
	"maps"
	"slices"
	"strconv"

	"github.com/ranker-worker/ranker-worker/state"
)

// Dirty is how much has changed since the last seal: how many entries, and about how many bytes storing it all takes.
func (m *Machine) Dirty() (entries int, bytes int64) {
	return len(m.segments.over.dirty), m.segments.weight()
}

// Seal appends to dst everything that has changed since the last one, as absolute values, and ends the segment. What it
// appends stays as it is: it has memory of its own. Segments are numbered from 1, each one more than the one before;
// any tells whether this one changed anything.
func (m *Machine) Seal(dst *state.Changes) (segment uint64, any bool) {
	m.follow()
	before := len(dst.Writes) + len(dst.Pages) + len(dst.Entries)
	m.segments.begin()
	m.sealMeta(dst)
	for _, l := range m.learners {
		m.sealLearner(l, dst)
	}
	m.absences.seal(dst)
	m.expiry.pages.seal(dst)
	segment = m.segments.end(dst)
	return segment, len(dst.Writes)+len(dst.Pages)+len(dst.Entries) > before
}

func (m *Machine) sealMeta(dst *state.Changes) {
	if !m.sealedMeta.stored {
		m.write(dst, saltField, appendHex(nil, m.salt))
	}
	now := sealedMeta{stored: true, watermark: m.time.watermark, floor: m.expiry.floor}
	if !m.sealedMeta.stored || m.sealedMeta.watermark != now.watermark {
		m.write(dst, watermarkField, strconv.AppendInt(nil, now.watermark, 10))
	}
	if !m.sealedMeta.stored || m.sealedMeta.floor != now.floor {
		m.write(dst, floorField, strconv.AppendInt(nil, now.floor, 10))
	}
	m.sealedMeta = now
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
	dst.Writes = append(dst.Writes, state.Write{Hash: state.MetaHash, Field: []byte(field), Value: value})
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
	m.sealItems(l, dst)
}

// Forget says that checkpoints up to this segment are in the store, and that every record whose look-up was answered
// before that has been stepped: what has not changed since can be looked up again.
func (m *Machine) Forget(segment uint64) {
	m.segments.over.forget(segment)
	m.expiry.forget(segment)
}
