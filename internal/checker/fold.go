package checker

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/cespare/xxhash/v2"

	"github.com/ranker-worker/ranker-worker/stream/event"
)

// fold reads one partition's topics and says what must have come of them.
type fold struct {
	c     *checker
	p     int32
	state *state
	out   *findings

	now       event.Millis // no worker's clock was beyond
	lag, slow event.Millis // Options.Lag and Options.ClockError
	parking   event.Millis // the least parking time of all configurations
	selects   bool         // there is a selections topic

	topics  [event.Inputs]topicFold
	ranked  rankingsLog
	dec     *event.Decoder
	imp     event.Impression
	sel     event.Selection
	pay     event.Payoff
	letters [event.Inputs][]int64 // offsets that dead letters are about, ascending

	items    catalogue
	learners map[string]*learnerFold
	past     map[string][]*learnerFold // before resets, in their order
	lives    map[string]*life
	bounds   [event.Inputs][outcomes]bound // of the account
	partial  bool                          // the log does not go back to the beginning

	wheres      [event.Topics]where // scratch
	read        [event.Topics]int64
	lettersRead int64
	pending     int64
	several     int64                           // ids of which several impressions were ranked
	gone        map[uint64]past                 // lives forgotten, by the hash of their id
	strays      map[uint64][event.Inputs]uint16 // records of those that never had an impression
	sweepAt     int
	held        int64 // the most lives there were at once
	forgotten   int64
	late        int64        // records that may have been taken in after their lives were forgotten
	reach       event.Millis // at most this was the watermark when the present record was stepped, whoever did
}

// topicFold is how far one input topic has been folded.
type topicFold struct {
	log     *topicLog
	on      bool
	from    int64
	to      int64        // where the checkpoint has come
	skip    int64        // records that were there before the group began
	newest  event.Millis // of the records so far, at most
	witness bool         // the record of the witness was met
	last    int64        // offset of the last record, -1: none
	ended   bool
}

// catalogue numbers items, for this program only.
type catalogue struct {
	numbers map[string]uint32
	names   []string
	stamp   []uint32 // by item: the epoch in which it was marked
	epoch   uint32
}

func (c *catalogue) intern(name []byte) uint32 {
	if n, ok := c.numbers[string(name)]; ok {
		return n
	}
	n := uint32(len(c.names))
	s := string(name)
	c.numbers[s] = n
	c.names = append(c.names, s)
	c.stamp = append(c.stamp, 0)
	return n
}

// begin makes no item marked.
func (c *catalogue) begin() { c.epoch++ }

// mark tells whether the item was not marked before.
func (c *catalogue) mark(n uint32) bool {
	if c.stamp[n] == c.epoch {
		return false
	}
	c.stamp[n] = c.epoch
	return true
}

func (c *catalogue) name(n uint32) string {
	if int(n) < len(c.names) {
		return c.names[n]
	}
	return "(none)"
}

// noItem says that a record names no item, or one that was never a candidate here.
const (
	noItem      = math.MaxUint32
	unknownItem = math.MaxUint32 - 1
)

// life is all that is known of an impression id.
type life struct {
	offset       int64 // of its impression that was ranked; -1: none
	again        bool  // several impressions of this id were ranked, one after another was forgotten
	known        bool  // the id had a life before, of which past is left
	past         past
	strays       [event.Inputs]uint16 // records of lives before without an impression
	learner      *learnerFold
	instance     int32
	hasSelection bool
	selDeadline  event.Millis
	payDeadline  event.Millis
	watermark    event.Millis // at most this when the impression was decided
	items        []uint32     // in the order shown
	propensities []float64
	ranks        []int32 // of utility by position, where the learner depends on them or found them itself
	undecided    []int32 // those of them that it was not certain of
	recorded     bool    // ranks are the decision's
	ordered      bool    // the candidates' order of utility is known
	records      []record
	bytes        int // of the records' values
}

// record is a selection or a payoff that was not faulty by itself.
type record struct {
	topic     event.Topic
	offset    int64
	item      uint32
	value     float64 // a payoff's, or a selection's estimate of the utility
	event     uint64  // hash of the event id; 0: none
	lo, hi    event.Millis
	watermark event.Millis // at most this when it was stepped
	hash      uint64       // of its value
	fate      fate

	hasUtility bool
}

func newFold(c *checker, p int32, st *state, out *findings) *fold {
	f := &fold{c: c, p: p, state: st, out: out,
		now: c.opt.Now() + c.opt.ClockError.Milliseconds(), lag: c.opt.Lag.Milliseconds(), slow: c.opt.ClockError.Milliseconds(),
		parking: math.MaxInt64, selects: c.cfg.Kafka.Topics.HasSelections(),
		dec:   event.NewDecoder(event.Limits{MaxCandidates: c.cfg.Limits.MaxCandidates, MaxRecordBytes: c.cfg.Limits.MaxRecordBytes}),
		items: catalogue{numbers: map[string]uint32{}}, lives: map[string]*life{},
		past: map[string][]*learnerFold{}, gone: map[uint64]past{}, strays: map[uint64][event.Inputs]uint16{}, sweepAt: firstSweep,
	}
	for _, cfg := range c.configs {
		f.parking = min(f.parking, cfg.Join.ParkingTime.Milliseconds())
	}
	f.learners = newLearnerFolds(c.configs)
	f.load()
	f.heed()
	return f
}

// run reads all that there is to read.
func (f *fold) run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if err := f.open(ctx); err != nil {
		return err
	}
	for t := range event.Topic(event.Inputs) {
		if !f.topics[t].on {
			continue
		}
		about, n, err := f.c.letters(ctx, f.p, t)
		if err != nil {
			return err
		}
		f.letters[t] = about
		f.lettersRead += n
	}
	f.ranked.log = f.c.read(ctx, f.p, event.Rankings, f.ranked.from, -1)
	for t := range f.topics {
		if tf := &f.topics[t]; tf.on {
			tf.log = f.c.read(ctx, f.p, event.Topic(t), tf.from, tf.to)
		}
	}
	if err := f.merge(); err != nil {
		return err
	}
	return f.ranked.drain(f)
}

// merge folds the input topics together, the record with the least timestamp first.
func (f *fold) merge() error {
	for {
		best, stamp := -1, int64(math.MaxInt64)
		for t := range f.topics {
			tf := &f.topics[t]
			if !tf.on {
				continue
			}
			ok, err := tf.log.peek()
			if err != nil {
				return err
			}
			if !ok {
				tf.ended = true
				continue
			}
			if at := tf.log.cur.Records[tf.log.at].Timestamp; best < 0 || at < stamp {
				best, stamp = t, at
			}
		}
		if best < 0 {
			return nil
		}
		if err := f.step(event.Topic(best)); err != nil {
			return err
		}
	}
}

// step folds the next record of a topic.
func (f *fold) step(t event.Topic) error {
	tf := &f.topics[t]
	rec := &tf.log.cur.Records[tf.log.at]
	tf.log.at++
	tf.last = rec.Offset
	f.checkWitness(t, tf.log)
	if tf.skip > 0 {
		tf.skip--
		return nil
	}
	f.read[t]++
	f.reach = max(tf.newest, rec.Timestamp+f.lag)
	watermark := min(f.state.watermark, f.reach)
	r := record{topic: t, offset: rec.Offset, watermark: watermark, item: noItem}
	var err error
	var at event.Millis
	var has bool
	switch t {
	case event.Impressions:
		err = f.dec.Impression(&f.imp, rec.Key, rec.Value)
		at, has = f.imp.Time, f.imp.HasTime
	case event.Selections:
		err = f.dec.Selection(&f.sel, rec.Key, rec.Value)
		at, has = f.sel.Time, f.sel.HasTime
	default:
		err = f.dec.Payoff(&f.pay, rec.Key, rec.Value)
		at, has = f.pay.Time, f.pay.HasTime
	}
	r.lo, r.hi = f.effective(rec.Timestamp, at, has && err == nil)
	tf.newest = max(tf.newest, r.hi)
	if t == event.Impressions {
		return f.impression(&r, rec.Key, err)
	}
	if err != nil {
		r.fate = isRejected
		f.settle(&r)
		return nil
	}
	r.hash = xxhash.Sum64(rec.Value)
	if t == event.Selections {
		r.item = f.find(f.sel.Item)
		r.value, r.hasUtility = f.sel.Utility, f.sel.HasUtility
	} else {
		r.value = f.pay.Payoff
		if len(f.pay.Item) > 0 {
			r.item = f.find(f.pay.Item)
		}
		if len(f.pay.EventID) > 0 {
			r.event = xxhash.Sum64(f.pay.EventID)
		}
	}
	l := f.life(rec.Key)
	l.records = append(l.records, r)
	l.bytes += len(rec.Value)
	return nil
}

// effective bounds a record's effective time: the least of its own time, Kafka's timestamp and the worker's clock.
func (f *fold) effective(timestamp, own event.Millis, hasOwn bool) (lo, hi event.Millis) {
	hi = timestamp
	if hasOwn {
		hi = min(hi, own)
	}
	if hi > f.now {
		return math.MinInt64, f.now
	}
	return hi - f.slow, hi
}

// find numbers an item that some record names. One that is no candidate yet may become one.
func (f *fold) find(name []byte) uint32 { return f.items.intern(name) }

func (f *fold) life(id []byte) *life {
	if l := f.lives[string(id)]; l != nil {
		return l
	}
	f.sweep()
	l := &life{offset: -1}
	f.recall(id, l)
	f.lives[string(id)] = l
	return l
}

// hashRecord is what witnesses identify a record by.
func hashRecord(key, value []byte) uint64 {
	var d xxhash.Digest
	d.Reset()
	_, _ = d.Write(key) // never fails
	_, _ = d.Write([]byte{0})
	_, _ = d.Write(value)
	return d.Sum64()
}

// checkWitness holds the record just read against the witness of its topic, if it is the one.
func (f *fold) checkWitness(t event.Topic, l *topicLog) {
	r := &l.cur.Records[l.at-1]
	w := f.state.rankings.witness
	if t < event.Inputs {
		w = f.state.inputs[t].witness
		f.topics[t].witness = f.topics[t].witness || r.Offset == w.offset
	}
	if r.Offset != w.offset {
		return
	}
	hash := hashRecord(r.Key, r.Value)
	if r.Cut != nil { // not all of it is at hand
		hash = r.Cut.Hash
	}
	same := hash == w.hash && (t == event.Rankings && w.timestamp == 0 || r.Timestamp == w.timestamp)
	if !f.out.ok(metaWitness, same) {
		f.out.breach(metaWitness, roles[t], fmt.Sprintf("the record at offset %d: timestamp %d, hash %x", r.Offset, r.Timestamp, hash),
			fmt.Sprintf("timestamp %d, hash %x", w.timestamp, w.hash))
	}
}

// impression folds an impression together with its ranking, if it has one.
func (f *fold) impression(r *record, id []byte, faulty error) error {
	has, err := f.ranked.find(f, r.offset)
	if err != nil {
		return err
	}
	if has {
		f.out.ok(rankingsMissing, true)
		f.rankedImpression(r, id, faulty == nil)
		return nil
	}
	f.unranked(r, id, faulty)
	return nil
}

// unranked says what must have become of an impression without a ranking.
func (f *fold) unranked(r *record, id []byte, faulty error) {
	_, buried := slices.BinarySearch(f.letters[event.Impressions], r.offset)
	known := false
	if faulty == nil {
		l := f.lives[string(id)]
		_, gone := f.gone[xxhash.Sum64(id)]
		known = l != nil && l.offset >= 0 || gone
	}
	var may fate
	if buried {
		may |= isRejected
	}
	if known {
		may |= isDuplicate
	}
	lf := f.learnerOf(f.imp.Learner)
	refused := faulty != nil || lf == nil || !f.imp.HasUtilities && lf.given
	if refused { // whether its id is known or not
		may &^= isDuplicate
	}
	if f.out.ok(rankingsMissing, may != 0 || f.partial) {
		f.count(event.Impressions, impressionFate(may))
		return
	}
	what := "a ranking"
	if refused {
		what = "a dead letter: " + reason(faulty)
		may = isRejected
	}
	f.out.breach(rankingsMissing, f.at(event.Impressions, r.offset, id), what, "neither that nor a sign that its id was known")
	f.count(event.Impressions, impressionFate(may))
}

func reason(faulty error) string {
	if faulty == nil {
		return "it has no utilities, or an unknown learner"
	}
	return faulty.Error()
}

// where names a record.
type where struct {
	topic  event.Topic
	offset int64
	id     []byte
}

func (w *where) String() string {
	return fmt.Sprintf("%s %.64q at offset %d", roles[w.topic], bytes.ToValidUTF8(w.id, []byte{'?'}), w.offset)
}

// at names a record, until the next of its topic is named.
func (f *fold) at(t event.Topic, offset int64, id []byte) *where {
	f.wheres[t] = where{t, offset, id}
	return &f.wheres[t]
}

// learnerOf finds the learner that an impression names; nil where none is configured, of which one cannot say since when.
func (f *fold) learnerOf(name []byte) *learnerFold {
	if len(name) > 0 {
		return f.learners[string(name)]
	}
	for _, cfg := range f.c.configs {
		if l := cfg.DefaultLearner(); l != nil {
			return f.learners[l.Name]
		}
	}
	return nil
}
