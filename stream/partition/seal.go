package partition

import (
	"strconv"

	"github.com/ranker-worker/ranker-worker/delay"
	"github.com/ranker-worker/ranker-worker/policy"
	"github.com/ranker-worker/ranker-worker/state"
)

// Seal appends all changes since the last seal to dst, as absolute values in memory of their own, and ends the segment. Segments are
// numbered from 1. any reports whether this one has changes.
func (m *Machine) Seal(dst *state.Changes) (segment uint64, any bool) {
	m.noteActed(m.prepare())
	if m.sealsEpoch() {
		m.follow()
	}
	before := len(dst.Writes) + len(dst.Pages) + len(dst.Entries)
	m.segments.begin()
	m.sealer.changes = dst
	m.sealMeta()
	for _, l := range m.learners {
		m.sealer.seal(l)
	}
	m.join.absences.seal(dst)
	m.trials.seal(dst)
	m.expiry.pages.seal(dst)
	segment = m.segments.end(dst)
	any = len(dst.Writes)+len(dst.Pages)+len(dst.Entries) > before
	if m.seen.seal(); m.seen.on {
		m.sealer.meta(seenField, m.seen.appendStored(nil, m.check()))
		m.seen.stands(m.cfg.Pooled)
	}
	m.sealer.changes = nil
	return segment, any
}

func (m *Machine) sealMeta() {
	s := &m.sealer
	now := sealedMeta{stored: true, watermark: m.time.watermark, floor: m.expiry.floor, orders: m.steps.orders}
	before := m.sealedMeta
	m.sealedMeta = now
	if !before.stored {
		s.meta(saltField, appendHex(nil, m.cfg.Salt))
	}
	if !before.stored || before.watermark != now.watermark {
		s.meta(watermarkField, strconv.AppendInt(nil, now.watermark, 10))
	}
	if !before.stored || before.floor != now.floor {
		s.meta(floorField, strconv.AppendInt(nil, now.floor, 10))
	}
	if before.orders != now.orders {
		s.meta(ordersField, strconv.AppendInt(nil, now.orders, 10))
	}
	m.ledger.seal(s)
	if m.steps.changed {
		s.meta(stepsField, m.steps.appendStored(nil))
		m.steps.changed = false
	}
}

func appendHex(dst []byte, x uint64) []byte {
	for shift := 60; shift >= 0; shift -= 4 {
		dst = append(dst, "0123456789abcdef"[x>>shift&15])
	}
	return dst
}

// sealer writes the changes of a segment. It is the delay.Recorder of the learner that is being sealed.
type sealer struct {
	segments *segments
	changes  *state.Changes
	learner  *learner

	row, page []byte // scratch
	names     []namedItem
	text      []byte // of names
}

var _ delay.Recorder = (*sealer)(nil)

func (s *sealer) write(w state.Write) { s.changes.Writes = append(s.changes.Writes, w) }

func (s *sealer) meta(field string, value []byte) {
	s.write(state.Write{Hash: state.MetaHash, Field: []byte(field), Value: value})
}

func (s *sealer) Item(i policy.Item) {
	if s.learner.items.has(i) { // it may have ended since
		s.learner.items.taught(i)
	}
}

func (s *sealer) Field(hash string, field, value []byte) {
	own, ok := s.learner.hashes[hash]
	if !ok { // a bug, which every test that seals would find
		panic("partition: learner " + s.learner.name + " wrote to a hash that it did not name: " + hash)
	}
	if own.byItem {
		s.learner.items.mentions(field)
	}
	w := state.Write{Hash: own.full, Field: s.segments.keep(field), Publish: own.publish}
	if value != nil {
		w.Value = s.segments.keep(value)
	}
	s.write(w)
}

func (s *sealer) seal(l *learner) {
	if l.changed {
		s.meta(learnerPrefix+l.name, appendLearner(nil, l))
		l.changed = false
	}
	if l.gone {
		return
	}
	s.learner = l
	l.delay.Harvest(s)
	s.learner = nil
	s.rows(l)
	s.pages(l)
	c := &l.items
	c.fresh.clear()
	c.changes.Clear()
	for _, x := range c.ended {
		c.changes.Release(x.number)
	}
	c.ended = c.ended[:0]
	if n := c.len(); n != max(c.stored, 0) {
		c.stored = n
		s.write(state.Write{Hash: l.name + ":" + CatalogueHash, Field: []byte(catalogueItems), Value: strconv.AppendInt(nil, int64(n), 10),
			Publish: true})
	}
}

// rows writes the changed rows of items, deletes those of ended items, and notes the changed pages of names.
func (s *sealer) rows(l *learner) {
	c := &l.items
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
		s.row = appendItem(s.row[:0], i, sums, c.untilOf(i))
		s.write(state.Write{Hash: l.itemHash, Field: s.segments.keepText(c.name(i)), Value: s.segments.keep(s.row), Publish: true})
	}
	for _, x := range c.ended {
		c.pages.Note(namesPage(x.number), itemNamed)
		if i, again := c.number(x.process); x.row && !(again && c.rows.Get(i)) { // else the row belongs to its new number
			s.write(state.Write{Hash: l.itemHash, Field: s.segments.keepText(c.names.Name(x.process)), Publish: true})
		}
	}
}

// pages writes the changed pages of items' names.
func (s *sealer) pages(l *learner) {
	c := &l.items
	for page := range c.pages.All() {
		s.names, s.text = s.names[:0], s.text[:0]
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
			s.names = append(s.names, namedItem{s.text[start:], i, c.untilOf(i)})
		}
		w := state.Write{Hash: l.namesHash, Field: s.segments.keep(strconv.AppendInt(nil, int64(page), 10))}
		if len(s.names) > 0 {
			s.page = appendNames(s.page[:0], s.names)
			w.Value = s.segments.keep(s.page)
		}
		s.write(w)
	}
	c.pages.Clear()
}
