package partition

import "github.com/ranker-worker/ranker-worker/state"

// Seal appends all changes since the last seal to dst, as absolute values in memory of their own, and ends the segment. Segments are
// numbered from 1. any reports whether this one has changes.
func (m *Machine) Seal(dst *state.Changes) (segment uint64, any bool) {
	m.noteActed(m.prepare())
	if m.sealsEpoch() {
		m.follow()
	}
	m.sealer.read.look(m.cfg.Pooled, m.cfg.Partition)
	before := len(dst.Writes) + len(dst.Pages) + len(dst.Entries)
	m.segments.begin()
	m.sealer.changes = dst
	m.sealedMeta.seal(&m.sealer, sealedMeta{true, m.time.watermark, m.expiry.floor, m.steps.orders}, m.cfg.Salt)
	m.sealer.counts(&m.ledger)
	if m.steps.changed {
		m.sealer.meta(stepsField, m.steps.appendStored(nil))
		m.steps.changed = false
	}
	for _, l := range m.learners {
		m.sealer.seal(l)
	}
	m.join.unconfigured.seal(dst)
	m.trials.seal(dst)
	m.expiry.pages.seal(dst)
	segment = m.segments.end(dst)
	m.sealer.read.sealed(segment)
	any = len(dst.Writes)+len(dst.Pages)+len(dst.Entries) > before
	if m.seen.seal(); m.seen.on {
		m.sealer.meta(seenField, m.seen.appendStored(nil, m.check()))
		if m.seen.stands(m.cfg.Pooled) {
			m.Stand()
		}
	}
	m.sealer.changes = nil
	return segment, any
}

// Saved notes that all segments up to one are stored with a checkpoint; 0 for state as it was loaded. It saves memory: statistics that the
// pooled state has read are not kept a second time.
func (m *Machine) Saved(segment uint64, at state.Fence) { m.sealer.read.saved(segment, at) }
