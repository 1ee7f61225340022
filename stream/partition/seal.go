package partition

import (
	"strconv"

	"github.com/ranker-worker/ranker-worker/state"
)

// Dirty returns the number of entries changed since the last seal, and the approximate bytes to store all changes.
func (m *Machine) Dirty() (entries int, bytes int64) {
	return len(m.segments.over.dirty), m.segments.weight()
}

// Seal appends all changes since the last seal to dst, as absolute values in memory of their own, and ends the segment. Segments are
// numbered from 1. any reports whether this one has changes.
func (m *Machine) Seal(dst *state.Changes) (segment uint64, any bool) {
	m.noteActed(m.prepare())
	if m.sealsEpoch() {
		m.follow()
	}
	before := len(dst.Writes) + len(dst.Pages) + len(dst.Entries)
	m.segments.begin()
	m.sealMeta(dst)
	for _, l := range m.learners {
		m.sealLearner(l, dst)
	}
	m.absences.seal(dst)
	m.trials.seal(dst)
	m.expiry.pages.seal(dst)
	segment = m.segments.end(dst)
	any = len(dst.Writes)+len(dst.Pages)+len(dst.Entries) > before
	if m.seen.seal(); m.seen.on {
		m.write(dst, seenField, m.seen.appendStored(nil, m.check()))
		m.seen.stands(m.cfg.Pooled)
	}
	return segment, any
}

func (m *Machine) sealMeta(dst *state.Changes) {
	if !m.sealedMeta.stored {
		m.write(dst, saltField, appendHex(nil, m.salt))
	}
	now := sealedMeta{stored: true, watermark: m.time.watermark, floor: m.expiry.floor, orders: m.steps.orders}
	if !m.sealedMeta.stored || m.sealedMeta.watermark != now.watermark {
		m.write(dst, watermarkField, strconv.AppendInt(nil, now.watermark, 10))
	}
	if !m.sealedMeta.stored || m.sealedMeta.floor != now.floor {
		m.write(dst, floorField, strconv.AppendInt(nil, now.floor, 10))
	}
	if m.sealedMeta.orders != now.orders {
		m.write(dst, ordersField, strconv.AppendInt(nil, now.orders, 10))
	}
	m.sealedMeta = now
	for c, n := range m.ledger.now {
		if n != m.ledger.sealed[c] {
			m.write(dst, accountPrefix+countNames[c], strconv.AppendInt(nil, n, 10))
		}
	}
	m.ledger.sealed = m.ledger.now
	if m.steps.changed {
		m.write(dst, stepsField, m.steps.appendStored(nil))
		m.steps.changed = false
	}
}

func (m *Machine) write(dst *state.Changes, field string, value []byte) {
	dst.Writes = append(dst.Writes, state.Write{Hash: state.MetaHash, Field: []byte(field), Value: value})
}

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
	m.harvest = harvester{m: m, l: l, c: dst}
	l.delay.Harvest(&m.harvest)
	m.harvest = harvester{}
	m.sealItems(l, dst)
}

func (m *Machine) sealItems(l *learner, dst *state.Changes) {
	c := &l.items
	var scratch []byte
	drop := func(name string) {
		dst.Writes = append(dst.Writes, state.Write{Hash: l.itemHash, Field: m.segments.keepText(name), Publish: true})
	}
	for i, what := range c.changes.All() {
		if !c.has(i) {
			continue
		}
		if what&itemNamed != 0 {
			c.pages.Note(namesPage(i), itemNamed)
		}
		sums := l.delay.Sums(i)
		if sums.N == 0 && what&itemRowAdded == 0 && !c.rows.Get(i) {
			continue
		}
		*c.rows.At(i) = true
		scratch = appendItem(scratch[:0], i, sums, c.untilOf(i))
		dst.Writes = append(dst.Writes, state.Write{
			Hash: l.itemHash, Field: m.segments.keepText(c.name(i)), Value: m.segments.keep(scratch), Publish: true,
		})
	}
	for _, x := range c.ended {
		c.pages.Note(namesPage(x.number), itemNamed)
		if i, again := c.number(x.process); x.row && !(again && c.rows.Get(i)) { // else the row belongs to its new number
			drop(c.names.Name(x.process))
		}
	}
	m.sealNames(l, dst)
	c.fresh.clear()
	c.changes.Clear()
	for _, x := range c.ended {
		c.changes.Release(x.number)
	}
	c.ended = c.ended[:0]
	if n := c.len(); n != max(c.stored, 0) {
		c.stored = n
		dst.Writes = append(dst.Writes, state.Write{Hash: l.name + ":" + CatalogueHash, Field: []byte(catalogueItems),
			Value: strconv.AppendInt(nil, int64(n), 10), Publish: true})
	}
}

func (m *Machine) sealNames(l *learner, dst *state.Changes) {
	c, s := &l.items, &m.scratch
	for page := range c.pages.All() {
		s.named, s.text = s.named[:0], s.text[:0]
		for i := page * namesInPage; i < min((page+1)*namesInPage, c.next); i++ {
			if !c.has(i) {
				continue
			}
			start := len(s.text)
			if name, fresh := c.fresh.get(i); fresh {
				s.text = append(s.text, name...)
			} else {
				s.text = append(s.text, c.name(i)...)
			}
			s.named = append(s.named, namedItem{s.text[start:], i, c.untilOf(i)})
		}
		w := state.Write{Hash: l.namesHash, Field: m.segments.keep(strconv.AppendInt(nil, int64(page), 10))}
		if len(s.named) > 0 {
			s.page = appendNames(s.page[:0], s.named)
			w.Value = m.segments.keep(s.page)
		}
		dst.Writes = append(dst.Writes, w)
	}
	c.pages.Clear()
}

// Forget says that the store has all segments up to this one, and that each record whose look-up was answered earlier has been stepped.
// Entries unchanged since are dropped from memory.
func (m *Machine) Forget(segment uint64) {
	m.segments.over.forget(segment)
	m.expiry.forget(segment)
}
