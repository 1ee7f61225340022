package partition

import (
	"strconv"

	"github.com/ranker-worker/ranker-worker/delay"
	"github.com/ranker-worker/ranker-worker/policy"
	"github.com/ranker-worker/ranker-worker/state"
	"github.com/ranker-worker/ranker-worker/stream/event"
)

// Fields of the hash "meta", besides the account and the learner table.
const (
	watermarkField = "watermark"
	floorField     = "floor"
	saltField      = "salt"
	stepsField     = "steps"
	ordersField    = "orders"
	seenField      = "seen"
)

// sealer writes the changes of a segment. It is the delay.Recorder of the learner that is being sealed.
type sealer struct {
	segments *segments
	changes  *state.Changes
	learner  *learner
	read     publications

	row, page []byte // scratch
	names     []namedItem
	process   []int32 // of names: the process's numbers
	texts     []string
	text      []byte // all texts
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

// Known implements delay.Recorder.
func (s *sealer) Known() bool { return s.read.known }

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
		if !l.gone && l.items.len() < int(l.items.next) { // the stored items do not imply it
			l.stored.next = l.items.next
		}
		s.meta(learnerPrefix+l.name, l.storedLearner.line())
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
	c.changes.Clear()
	c.ended = c.ended[:0]
	if n := c.len(); n != max(c.stored, 0) {
		c.stored = n
		s.write(state.Write{Hash: l.name + ":" + CatalogueHash, Field: []byte(catalogueItems), Value: strconv.AppendInt(nil, int64(n), 10),
			Publish: true})
	}
}

// rows writes the changed rows of items, and deletes those of ended items.
func (s *sealer) rows(l *learner) {
	c := &l.items
	for i, what := range c.changes.All() {
		if !c.has(i) {
			continue
		}
		sums := l.delay.Sums(i)
		if sums.N == 0 && what&itemRowAdded == 0 && !c.rows.Has(i) {
			continue
		}
		c.rows.Add(i)
		s.row = appendItem(s.row[:0], i, sums, 0)
		s.write(state.Write{Hash: l.itemHash, Field: s.segments.keepText(c.name(i)), Value: s.segments.keep(s.row), Publish: true})
	}
	for _, x := range c.ended {
		if i, again := c.number(x.process); x.row && !(again && c.rows.Has(i)) { // else the row belongs to its new number
			s.write(state.Write{Hash: l.itemHash, Field: s.segments.keepText(c.names.Name(x.process)), Publish: true})
		}
	}
}

// pages writes the changed pages of items' names.
func (s *sealer) pages(l *learner) {
	c := &l.items
	for page := range c.pages.All() {
		s.names, s.process, s.text = s.names[:0], s.process[:0], s.text[:0]
		for i := range c.inPage(page) {
			s.names = append(s.names, namedItem{number: i, until: c.untilOf(i)})
			s.process = append(s.process, c.inProcess(i))
		}
		s.texts = c.names.Texts(s.texts[:0], s.process)
		for k, text := range s.texts {
			start := len(s.text)
			s.text = append(s.text, text...)
			s.names[k].name = s.text[start:]
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

// counts writes the partition's counts that have changed.
func (s *sealer) counts(l *ledger) {
	for c, n := range l.now {
		if n != l.sealed[c] {
			s.meta(accountPrefix+countNames[c], strconv.AppendInt(nil, n, 10))
		}
	}
	l.sealed = l.now
}

// sealedMeta holds the machine's fields of the hash "meta" as of the last seal, without the account.
type sealedMeta struct {
	stored    bool // salt and the rest were written once
	watermark event.Millis
	floor     int64
	orders    int64
}

// seal writes the fields that differ from now, and becomes now.
func (x *sealedMeta) seal(s *sealer, now sealedMeta, salt uint64) {
	if !x.stored {
		s.meta(saltField, appendHex(nil, salt))
	}
	if !x.stored || x.watermark != now.watermark {
		s.meta(watermarkField, strconv.AppendInt(nil, now.watermark, 10))
	}
	if !x.stored || x.floor != now.floor {
		s.meta(floorField, strconv.AppendInt(nil, now.floor, 10))
	}
	if x.orders != now.orders {
		s.meta(ordersField, strconv.AppendInt(nil, now.orders, 10))
	}
	*x = now
}

func appendHex(dst []byte, x uint64) []byte {
	for shift := 60; shift >= 0; shift -= 4 {
		dst = append(dst, "0123456789abcdef"[x>>shift&15])
	}
	return dst
}
