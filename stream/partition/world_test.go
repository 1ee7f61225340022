package partition

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"sort"
	"strings"

	"github.com/stretchr/testify/require"

	"github.com/ranker-worker/ranker-worker/delay"
	"github.com/ranker-worker/ranker-worker/policy"
	"github.com/ranker-worker/ranker-worker/state"
	"github.com/ranker-worker/ranker-worker/stream/event"
)

// memory is a store of one partition.
type memory struct {
	fields map[string]map[string]string
	pages  map[uint32]*memoryPage
	texts  map[state.ID]string // of the ids that records had
	deltas int                 // writes that were to be published
}

type memoryPage struct {
	bucket  int64
	entries map[state.ID]string
}

func newMemory() *memory {
	return &memory{fields: map[string]map[string]string{}, pages: map[uint32]*memoryPage{}, texts: map[state.ID]string{}}
}

// items are all that a learner has, as rows would say of them.
func (s *memory) items(t require.TestingT, learner string) map[string]string {
	var fields []state.Field
	for _, hash := range []string{ItemsHash, NamesHash} {
		for field, value := range s.fields[learner+":"+hash] {
			fields = append(fields, state.Field{Hash: learner + ":" + hash, Field: []byte(field), Value: []byte(value)})
		}
	}
	rows, err := Rows(learner, fields)
	require.NoError(t, err)
	all := map[string]string{}
	for _, f := range rows {
		require.NotContains(t, all, string(f.Field))
		all[string(f.Field)] = string(f.Value)
	}
	named, err := Rows(learner, slices.DeleteFunc(fields, func(f state.Field) bool { return f.Hash == learner+":"+ItemsHash }))
	require.NoError(t, err)
	require.Len(t, named, len(all), "each item is named, those with a row too")
	return all
}

func (s *memory) apply(c *state.Changes) {
	for _, w := range c.Writes {
		if s.fields[w.Hash] == nil {
			s.fields[w.Hash] = map[string]string{}
		}
		if w.Value == nil {
			delete(s.fields[w.Hash], string(w.Field))
		} else {
			s.fields[w.Hash][string(w.Field)] = string(w.Value)
		}
		if w.Publish {
			s.deltas++
		}
	}
	for _, p := range c.Pages {
		if s.pages[p.Number] == nil {
			s.pages[p.Number] = &memoryPage{p.Bucket, map[state.ID]string{}}
		}
	}
	for _, e := range c.Entries {
		switch p := s.pages[e.Page]; {
		case e.Value != nil:
			p.entries[e.ID] = string(e.Value)
		case p != nil:
			delete(p.entries, e.ID)
		}
	}
	for number, p := range s.pages {
		if len(p.entries) == 0 {
			delete(s.pages, number)
		}
	}
}

func (s *memory) lookUp(places []state.Place) (found Found) {
	for _, at := range places {
		if p := s.pages[at.Page]; p != nil {
			if v, ok := p.entries[at.ID]; ok {
				found = Found{at.Page, []byte(v)}
			}
		}
	}
	return found
}

// find looks for an id in all pages.
func (s *memory) find(id state.ID) (found Found) {
	for number, p := range s.pages {
		if v, ok := p.entries[id]; ok {
			found = Found{number, []byte(v)}
		}
	}
	return found
}

// entries returns the stored entries by the ids' texts.
func (s *memory) entries() map[string]string {
	all := map[string]string{}
	for _, p := range s.pages {
		for id, v := range p.entries {
			all[s.texts[id]] = v
		}
	}
	return all
}

// due are the ids in each bucket.
func (s *memory) due() map[int64][]string {
	all := map[int64][]string{}
	for _, p := range s.pages {
		for id := range p.entries {
			all[p.bucket] = append(all[p.bucket], s.texts[id])
		}
	}
	for _, ids := range all {
		slices.Sort(ids)
	}
	return all
}

func (s *memory) dueUpTo(bucket int64, limit int) []state.Entry {
	var all []state.Entry
	numbers := slices.SortedFunc(maps.Keys(s.pages), func(a, b uint32) int {
		return cmp.Or(cmp.Compare(s.pages[a].bucket, s.pages[b].bucket), cmp.Compare(a, b))
	})
	for _, number := range numbers {
		p := s.pages[number]
		for _, id := range slices.SortedFunc(maps.Keys(p.entries), func(a, b state.ID) int { return strings.Compare(s.texts[a], s.texts[b]) }) {
			if p.bucket > bucket || len(all) == limit {
				return all
			}
			all = append(all, state.Entry{Place: state.Place{Page: number, ID: id}, Value: []byte(p.entries[id])})
		}
	}
	return all
}

// world is a machine with its store, its log and its clock.
type world struct {
	t       require.TestingT
	cfg     Config
	m       *Machine
	store   *memory
	now     event.Millis
	next    [event.Inputs]int64
	out     Output
	decided map[int64][]byte // logged rankings, by impression offset
	lookups int
	unread  [event.Inputs]bool // topics that are not read to their end
	unsaved []func()           // the steps since the last save, to be done again after a crash
	letters []DeadLetter
	// inFlight: a batch that was looked up together is being stepped; forget is the segment to forget after it.
	inFlight bool
	forget   uint64
	// newest are the effective times read as of the last save. They are not stored: after a crash the watermark just
	// waits for them. The tests put them back, so that it does not lag behind that of a machine that never crashed.
	newest [event.Inputs]event.Millis
}

func newWorld(t require.TestingT, cfg Config) *world {
	w := &world{t: t, cfg: cfg, store: newMemory(), decided: map[int64][]byte{}}
	w.start()
	w.newest = w.m.time.newest
	w.m.KnownComplete()
	return w
}

// testConfig has one learner, "feed": a tally.
func testConfig() Config {
	return Config{
		Group: "g", Partition: 3, HasSelections: true, ParkingTime: 60_000, Remember: UntilHorizon, MaxParked: 1000, MaxParkedBytes: 1 << 20,
		MaxCandidates: 100, MaxRecordBytes: 1 << 16, MaxRankingBytes: 1 << 16, Salt: 42,
		Learners: []LearnerConfig{{
			Name: "feed", PolicyName: "utility", DelayName: "direct", Fingerprint: "v1", PayoffMin: 0, PayoffMax: 1,
			PayoffHorizon: 600_000, SelectionTimeout: 120_000,
			New: func() delay.Learner { return &tally{changed: map[policy.Item]bool{}} },
		}},
	}
}

// start makes the machine from the store.
func (w *world) start() {
	require.NoError(w.t, w.tryStart())
}

func (w *world) tryStart() error {
	m, err := New(w.cfg)
	if err != nil {
		return err
	}
	for _, hash := range append([]string{state.MetaHash}, m.Hashes()...) {
		for _, f := range slices.Sorted(maps.Keys(w.store.fields[hash])) {
			field := state.Field{Hash: hash, Field: []byte(f), Value: []byte(w.store.fields[hash][f])}
			if err := m.Load(field); err != nil {
				return err
			}
		}
	}
	if err := m.Loaded(); err != nil {
		return err
	}
	w.m = m
	return nil
}

func (w *world) walkKnown() {
	for number, p := range w.store.pages {
		w.m.AddKnown(&state.PageOfIDs{Page: state.Page{Number: number, Bucket: p.bucket}, IDs: slices.Collect(maps.Keys(p.entries))})
	}
	w.m.KnownComplete()
}

// text notes an id's text, for messages.
func (w *world) text(id string) state.ID {
	w.store.texts[state.IDOf([]byte(id))] = id
	return state.IDOf([]byte(id))
}

// look returns the look-up's result for a record's id, if one is needed.
func (w *world) look(rec *Record) (found Found) {
	id := w.text(string(rec.Key))
	if w.m.Resolve(id) == NeedsLookUp {
		w.lookups++
		found = w.store.lookUp(w.m.Places(nil, id))
	}
	return found
}

// read steps the next record of a topic, with a look-up where one is needed, and checks the account.
func (w *world) read(topic event.Topic, key string, value []byte, timestamp event.Millis) error {
	rec := w.record(topic, key, value, timestamp)
	return w.step(rec, w.now)
}

// record puts a record at the end of its topic.
func (w *world) record(topic event.Topic, key string, value []byte, timestamp event.Millis) Record {
	rec := Record{Topic: topic, Offset: w.next[topic], Timestamp: timestamp, Key: []byte(key), Value: value}
	w.next[topic]++
	now := w.now
	w.unsaved = append(w.unsaved, func() { require.NoError(w.t, w.step(rec, now)) })
	return rec
}

// readBatch looks all ids up at once and steps the records one by one, with a checkpoint before each that save picks.
func (w *world) readBatch(records []Record, save func() bool) {
	found := make([]Found, len(records))
	for i := range records {
		found[i] = w.look(&records[i])
	}
	w.inFlight = true
	for i, rec := range records {
		if save() {
			later := w.unsaved[len(w.unsaved)-len(records)+i:]
			w.save()
			w.unsaved = append(w.unsaved, later...)
		}
		require.NoError(w.t, w.stepWith(rec, w.now, found[i]))
	}
	w.inFlight = false
	w.m.Forget(w.forget)
}

func (w *world) step(rec Record, now event.Millis) error {
	return w.stepWith(rec, now, w.look(&rec))
}

// stepWith steps a record with a look-up's result, which may be old.
func (w *world) stepWith(rec Record, now event.Millis, found Found) error {
	in := Input{Record: &rec, Now: now, Found: found, Read: [event.Inputs]bool{!w.unread[0], !w.unread[1], !w.unread[2]}}
	if value, ok := w.decided[rec.Offset]; ok && rec.Topic == event.Impressions {
		in.Decided = new(event.Ranking)
		require.NoError(w.t, event.NewDecoder(event.Limits{}).Ranking(in.Decided, value))
	}
	rankings, letters := len(w.out.Rankings), len(w.out.DeadLetters)
	if err := w.m.Step(&in, &w.out); err != nil {
		return err
	}
	for _, r := range w.out.Rankings[rankings:] {
		require.NotContains(w.t, w.decided, rec.Offset, "ranked twice")
		w.decided[rec.Offset] = append([]byte(nil), r.Value...)
	}
	w.letters = append(w.letters, w.out.DeadLetters[letters:]...)
	account := w.m.Account()
	require.Zero(w.t, account.Unaccounted(), "the account must add up: %+v", account)
	return nil
}

func (w *world) tick(now event.Millis, atEnd [event.Inputs]bool) {
	w.now = max(w.now, now)
	again := func() { w.m.Tick(now, atEnd) }
	w.unsaved = append(w.unsaved, again)
	again()
}

// save makes a checkpoint of everything.
func (w *world) save() {
	var c state.Changes
	entries, _ := w.m.Dirty()
	segment, any := w.m.Seal(&c)
	require.Equal(w.t, any, len(c.Writes)+len(c.Pages)+len(c.Entries) > 0)
	require.LessOrEqual(w.t, len(c.Entries), 2*entries)
	w.store.apply(&c)
	if w.inFlight { // records whose look-up was answered before this are still to be stepped
		w.forget = segment
	} else {
		w.m.Forget(segment)
	}
	w.unsaved = w.unsaved[:0]
	w.newest = w.m.time.newest
}

// walk lets the expiry walk come by everything that is due, in chunks.
func (w *world) walk(limit int) {
	for {
		bucket, ok := w.m.DueUpTo()
		if !ok {
			return
		}
		w.save()
		due := w.store.dueUpTo(bucket, limit)
		if len(due) == 0 {
			w.m.Walked(bucket)
			w.save()
			return
		}
		for _, e := range due {
			require.NoError(w.t, w.m.Expire(e))
		}
		w.save()
	}
}

// crash discards the machine, makes a new one from the store, and repeats the steps since the last save. Logged decisions are adopted.
func (w *world) crash() {
	again := slices.Clone(w.unsaved)
	w.start()
	w.m.time.newest = w.newest
	w.walkKnown()
	for _, f := range again {
		f()
	}
	w.unsaved = again
}

// entry describes an id's entry, changes in memory included, for messages.
func (w *world) entry(id string) string {
	key := w.text(id)
	require.NoError(w.t, w.m.join.open(key, []byte(id), w.store.find(key)))
	e, page := &w.m.cur.entry, w.m.cur.page
	if s := w.m.cur.slot; s != nil {
		page = s.page
	}
	bucket := w.m.expiry.pages.bucket(page)
	switch e.kind {
	case nothing:
		return "nothing"
	case parkedOnly:
		return "waiting" + describeParked(e) + ", bucket " + clock(bucket*tick)
	case tombstone:
		how := ""
		if e.wasSelected {
			how += ", selected"
		}
		if e.paidOnce {
			how += ", paid"
		}
		return fmt.Sprintf("closed%s, kept in bucket %s", how, clock(bucketStart(bucket)))
	}
	l := w.m.learners[e.learner]
	s := "pending: " + l.name
	if e.offset != unknownOffset {
		s += fmt.Sprintf(" offset %d", e.offset)
	}
	s += ","
	for k, i := range e.items {
		s += " "
		if int32(k) == e.selected {
			s += "*"
		}
		if l.gone {
			s += fmt.Sprintf("#%d", i)
		} else {
			s += l.items.name(i)
		}
	}
	if e.hasSelectionDeadline && e.selected < 0 {
		s += ", selection by " + clock(e.selectionDeadline)
	}
	s += ", payoff by " + clock(e.payoffDeadline)
	if e.count > 0 {
		s += fmt.Sprintf(", sum %g of %d", e.sum, e.count)
	}
	return s + describeParked(e) + ", bucket " + clock(bucket*tick)
}

func describeParked(e *entry) (s string) {
	for i := range e.parked {
		p := &e.parked[i]
		s += fmt.Sprintf(", parked %s %d until %s", topicName(p.topic), p.offset, clock(p.deadline))
	}
	return s
}

func topicName(t event.Topic) string {
	return [...]string{"impression", "selection", "payoff", "ranking"}[t]
}

// entries describes all ids of the store and the overlay.
func (w *world) entries() []string {
	var all []string
	for id := range w.ids() {
		if e := w.entry(id); e != "nothing" {
			all = append(all, id+" "+e)
		}
	}
	sort.Strings(all)
	return all
}

// ids are all of the store and the overlay.
func (w *world) ids() map[string]bool {
	ids := map[string]bool{}
	for id := range w.store.entries() {
		ids[id] = true
	}
	for _, s := range w.m.segments.over.slots {
		for ; s != nil; s = s.next {
			ids[w.store.texts[s.id]] = true
		}
	}
	return ids
}
