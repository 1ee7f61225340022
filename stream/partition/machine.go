package partition

import (
	"errors"
	"fmt"
	"math"

	"github.com/cespare/xxhash/v2"

	"github.com/ranker-worker/ranker-worker/delay"
	"github.com/ranker-worker/ranker-worker/policy"
	"github.com/ranker-worker/ranker-worker/state"
	"github.com/ranker-worker/ranker-worker/stream/event"
)

// Machine is the state of one partition. It is not safe for concurrent use.
//
// Its life: New, Load for every stored field, Loaded; then Step, Tick and Expire in any order, with Seal before each checkpoint. After an
// error of any of them it must not be used any more.
type Machine struct {
	cfg      Config
	salt     uint64
	learners []*learner // by number, once loaded
	byName   map[string]*learner
	hashes   map[string]learnerHash
	fallback *learner // of records that name no learner
	loading  *loading

	time      eventTime
	steps     inputOrder
	seen      observationLog
	behind    bool // event time has moved since it was acted upon
	stepping  stepping
	elsewhere Elsewhere
	ledger    ledger
	known     idIndex
	segments  segments
	epoch     uint64 // the epoch of Config.Pooled that decisions use
	shown     uint64 // the epoch that status shows: epoch or a later one
	expiry    expiry
	absences  unconfigured
	trials    trials
	cur       current
	hasher    xxhash.Digest

	sealedMeta sealedMeta
	harvest    harvester

	decoder    *event.Decoder
	impression event.Impression
	selection  event.Selection
	payoff     event.Payoff
	ranking    event.Ranking
	decision   delay.Decision
	work       policy.Workspace
	scratch    scratch
}

// stepping holds facts about the record being stepped, besides its outcome.
type stepping struct {
	effective event.Millis
	timed     bool  // the record's own time is not believed
	crowded   bool  // there is no room to park it
	due       bool  // the impression under its id ended, because a deadline was past
	dueAt     int64 // offset of that impression
	ranked    bool
}

// scratch is reused memory of the decision path.
type scratch struct {
	due        []policy.Item // items to drop
	process    []int32       // process-wide numbers of the candidates, in the record's order
	numbers    []policy.Item // the learner's numbers
	order      []int32       // positions in the record, by increasing utility
	candidates []policy.Item // by increasing utility
	utilities  []float64
	names      [][]byte
	reading    Reading
	about      policy.Context
	x          []int8 // of the selected item
	shadows    shadows
	rankOf     map[policy.Item]int32
	pages      []uint32
	named      []namedItem // of a page of names that is being sealed
	text, page []byte
}

// sealedMeta holds the machine's fields of the hash "meta" as of the last seal, without the account.
type sealedMeta struct {
	stored    bool // salt and the rest were written once
	watermark event.Millis
	floor     int64
	orders    int64
}

var errConfig = errors.New("partition: configuration")

func New(cfg Config) (*Machine, error) {
	m := &Machine{
		cfg: cfg, salt: cfg.Salt, byName: make(map[string]*learner), hashes: make(map[string]learnerHash), loading: newLoading(),
		time: newEventTime(), steps: inputOrder{run: -1}, segments: newSegments(), expiry: newExpiry(),
		decoder: event.NewFormatsDecoder(event.Limits{MaxCandidates: cfg.MaxCandidates, MaxRecordBytes: cfg.MaxRecordBytes}, cfg.Formats),
	}
	switch {
	case cfg.Pooled != nil:
		m.cfg.Names = cfg.Pooled.names
	case cfg.Names == nil:
		m.cfg.Names = NewNameTable()
	}
	m.cfg.Learners = append([]LearnerConfig(nil), cfg.Learners...)
	for i := range m.cfg.Learners {
		lc := &m.cfg.Learners[i]
		if err := lc.check(); err != nil {
			return nil, fmt.Errorf("%w: learner %q: %w", errConfig, lc.Name, err)
		}
		if m.byName[lc.Name] != nil {
			return nil, fmt.Errorf("%w: learner %q comes twice", errConfig, lc.Name)
		}
		l := newLearner(lc, m.cfg.Names)
		if _, forgets := l.delay.(delay.ItemRemoving); !forgets && lc.ItemRetention > 0 {
			return nil, fmt.Errorf("%w: learner %q cannot forget items, and is to keep them for %d ms", errConfig, lc.Name, lc.ItemRetention)
		}
		if lc.Context != nil {
			m.decoder.WithContext()
		}
		m.cfg.Pooled.share(l, cfg.Partition)
		m.byName[lc.Name] = l
		if err := m.claimHashes(l); err != nil {
			return nil, err
		}
		if lc.Default || len(cfg.Learners) == 1 {
			if m.fallback != nil {
				return nil, fmt.Errorf("%w: both %q and %q are the default learner", errConfig, m.fallback.name, l.name)
			}
			m.fallback = l
		}
	}
	if cfg.ParkingTime < 0 || cfg.MaxRankingBytes <= 0 || cfg.Remember != UntilHorizon && cfg.Remember < cfg.ParkingTime {
		return nil, fmt.Errorf("%w: parking time %d ms, remembered for %d ms, largest ranking %d bytes", errConfig, cfg.ParkingTime,
			cfg.Remember, cfg.MaxRankingBytes)
	}
	m.cur.entry.reset()
	var err error
	m.trials, err = newTrials(&m.cfg, m.byName)
	return m, err
}

// Names returns the process-wide table of item names.
func (m *Machine) Names() Names { return m.cfg.Names }

// claimHashes assigns hashes to a learner. It fails if another has one of them.
func (m *Machine) claimHashes(l *learner) error {
	for _, h := range append(itemHashes(), l.delay.Hashes()...) {
		name := l.name + ":" + h
		if other, taken := m.hashes[name]; taken {
			return fmt.Errorf("%w: learners %q and %q would share the hash %q", errConfig, other.learner.name, l.name, name)
		}
		m.hashes[name] = learnerHash{l, h}
	}
	return nil
}

func (c *LearnerConfig) check() error {
	switch {
	case c.Name == "":
		return errors.New("it has no name")
	case c.New == nil:
		return errors.New("nothing makes it")
	case !(c.PayoffMin < c.PayoffMax) || math.IsInf(c.PayoffMax-c.PayoffMin, 0):
		return fmt.Errorf("payoff range [%v, %v]", c.PayoffMin, c.PayoffMax)
	case c.ItemRetention != 0 && c.ItemRetention < c.PayoffHorizon:
		return fmt.Errorf("items are kept for %d ms, and can be paid for %d ms", c.ItemRetention, c.PayoffHorizon)
	case c.PayoffHorizon < 0 || c.SelectionTimeout < 0:
		return errors.New("a negative time")
	case c.ExpiryDefault != nil && !(c.PayoffMin <= *c.ExpiryDefault && *c.ExpiryDefault <= c.PayoffMax):
		return fmt.Errorf("default payoff %v lies outside [%v, %v]", *c.ExpiryDefault, c.PayoffMin, c.PayoffMax)
	}
	return nil
}

// hash returns the keyed 64-bit hash of an id. Its key stays in the process: a sender with the key could choose ids that collide. The salt
// would not do, since rankings show decisions' keys.
func (m *Machine) hash(id state.ID) uint64 {
	m.hasher.ResetWithSeed(m.cfg.HashKey)
	_, _ = m.hasher.Write(id[:]) // never fails
	return m.hasher.Sum64()
}

// Resolve reports whether a record with this id can be stepped without a look-up. The answer holds until the next Forget.
func (m *Machine) Resolve(id state.ID) Resolution {
	h := m.hash(id)
	if m.segments.over.find(h, id) != nil || m.known.certainlyNew(h) {
		return Known
	}
	return NeedsLookUp
}

// Places appends all places where an id may be stored, mostly one. They are not known before KnownComplete.
func (m *Machine) Places(dst []state.Place, id state.ID) []state.Place {
	m.scratch.pages = m.known.pagesOf(m.scratch.pages[:0], m.hash(id))
	for _, page := range m.scratch.pages {
		dst = append(dst, state.Place{Page: page, ID: id})
	}
	return dst
}

// AddKnown adds a page of the store and its ids to the index, before anything is stepped. A page that comes again is ignored.
func (m *Machine) AddKnown(p *state.PageOfIDs) {
	if m.expiry.pages.bucket(p.Number) != noBucket {
		return
	}
	m.expiry.pages.load(p.Page, len(p.IDs))
	for _, id := range p.IDs {
		m.known.add(m.hash(id), p.Number)
	}
}

// KnownComplete marks the index as complete: from now on an unknown id is new.
func (m *Machine) KnownComplete() { m.known.complete = true }

func (m *Machine) IsKnownComplete() bool { return m.known.complete }

// Step processes one record. A faulty record is no error: it becomes a dead letter. A *Wait means that the record cannot be stepped yet.
// Any other error means that stored state or a logged decision contradicts the input.
//
// First it does all that the watermark has made due for the record's id. So the outcome depends on the watermark, never on the progress of
// the expiry walk.
func (m *Machine) Step(in *Input, out *Output) error {
	rec := in.Record
	if rec.Topic >= event.Inputs || rec.Topic == event.Selections && !m.cfg.HasSelections {
		return fmt.Errorf("partition: a record of topic %d, which is not configured as an input", rec.Topic)
	}
	m.stepping = stepping{}
	acted := m.prepare()
	var err error
	switch {
	case rec.Skipped != "":
		m.skip(in, out)
	case rec.Topic == event.Impressions:
		err = m.stepImpression(in, out)
	case rec.Topic == event.Selections:
		err = m.stepSelection(in, out)
	default:
		err = m.stepPayoff(in, out)
	}
	if err == nil {
		m.stepped(rec)
		return nil
	}
	if _, waits := err.(*Wait); waits { // changes made before a Wait are not in the steps
		m.noteActed(acted)
		m.noteDue()
	}
	return err
}

// prepare acts upon event time if it has moved, and reports whether it has. It precedes all decisions. Experiments move to each epoch.
func (m *Machine) prepare() (acted bool) {
	if m.epoch == 0 || len(m.trials.all) > 0 {
		m.follow()
	}
	if !m.behind {
		return false
	}
	m.behind = false
	for _, l := range m.learners {
		if !l.gone {
			l.delay.Advance(m.time.watermark)
		}
	}
	return true
}

// noteActed records an observation that event time was acted upon between two records.
func (m *Machine) noteActed(acted bool) {
	if acted {
		m.seen.acted(m.time.watermark)
	}
}

// noteDue records an observation that an impression ended because its deadline was past.
func (m *Machine) noteDue() {
	if m.stepping.due {
		m.seen.visit(m.cur.id, m.stepping.dueAt)
	}
}

// skip passes over an unreadable record, and over a decision made while it was readable. Its selections and payoffs become those of an
// unknown impression.
func (m *Machine) skip(in *Input, out *Output) {
	m.stepping.ranked, m.stepping.effective = in.Decided != nil, math.MinInt64
	m.reject(in.Record, faultf(event.Skipped, "%s", in.Record.Skipped), out)
}

// stepped counts a processed record and adds it to the steps.
func (m *Machine) stepped(rec *Record) {
	m.time.read(rec.Topic, m.stepping.effective)
	m.ledger.add(ofTopic(rec.Topic, impressionsRead, selectionsRead, payoffsRead), 1)
	if f := m.cfg.CheckCopartition; f != nil && rec.Skipped == "" && f(rec.Key) != m.cfg.Partition {
		m.ledger.add(ofTopic(rec.Topic, impressionsMisplaced, selectionsMisplaced, payoffsMisplaced), 1)
	}
	m.steps.at(m.time.watermark)
	m.seen.stepped(m.time.watermark)
	if m.stepping.ranked {
		m.steps.ranked(rec)
		m.seen.decided()
		m.endItems()
		return
	}
	if m.stepping.timed {
		m.steps.timed(m.stepping.effective)
	}
	if m.stepping.crowded {
		m.steps.crowded()
	}
	m.steps.took(rec)
	m.endItems()
}

// effective returns a record's effective time: its event time, at most Kafka's timestamp. A time too far ahead counts as now, or as at its
// first step.
func (m *Machine) effective(in *Input, t event.Millis, hasTime bool) event.Millis {
	e := in.Record.Timestamp
	if hasTime {
		e = min(e, t)
	}
	switch {
	case in.Decided != nil:
		e = in.Decided.Time
	case in.Again != nil && in.Again.Timed:
		e, m.stepping.timed = m.time.watermark+in.Again.By, true
	case in.Again == nil && e > max(in.Now, in.Latest):
		e, m.stepping.timed = in.Now, true
	}
	m.stepping.effective = e
	return e
}

// Elsewhere lists learners of the group's other workers. A record for a learner unknown here waits if another worker has it, or may have
// it.
type Elsewhere struct {
	Learners map[string]bool // names of other workers' learners
	Partial  bool            // not all workers have announced theirs yet
}

// Elsewhere sets the learners of other workers. The map must not change afterwards.
func (m *Machine) Elsewhere(learners Elsewhere) { m.elsewhere = learners }

// unknownHere returns a Wait if another worker has the learner, or may have it.
func (m *Machine) unknownHere(name string) error {
	switch {
	case m.elsewhere.Learners[name]:
		return &Wait{For: fmt.Sprintf("learner %.64q is not configured here, but it is at another worker of the group", name)}
	case m.elsewhere.Partial && name != "":
		return &Wait{For: fmt.Sprintf("learner %.64q is not configured here; other workers of the group have some seconds to announce it", name)}
	}
	return nil
}

// Begin notes the offsets from which an owner continues by its own choice. If the order of earlier steps is not known, it drops them.
func (m *Machine) Begin(offsets [event.Inputs]int64, known bool) {
	if !known {
		m.steps.restart()
	}
	m.steps.next = offsets
	m.steps.at(m.time.watermark)
	m.steps.read()
}

// Steps returns the steps since the last ranking or order record, as in a header; see ParseSteps.
func (m *Machine) Steps() []byte { return m.steps.appendHeader(nil) }

// Tick raises the watermark to the least, over the input topics, of the newest effective time read, or of now for a topic read to its end.
// It never falls and is never ahead of now.
func (m *Machine) Tick(now event.Millis, atEnd [event.Inputs]bool) {
	atEnd[event.Selections] = atEnd[event.Selections] || !m.cfg.HasSelections
	m.Raise(m.time.least(now, atEnd))
}

// Raise raises the watermark to w. Learners advance before the next step, seal or expiry, so the number of raises in between has no effect.
func (m *Machine) Raise(w event.Millis) {
	if m.time.raise(w) {
		m.behind = true
	}
}

func (m *Machine) Watermark() event.Millis { return m.time.watermark }

// Gaps returns how often this machine had to leave observations out of headers. It is not part of the state.
func (m *Machine) Gaps() int64 { return m.seen.gaps }

// Misspelt returns the misspelt fields of decoded records, by input topic. It is not part of the state.
func (m *Machine) Misspelt() (all [event.Inputs]event.Misspelling) {
	for topic := range all {
		all[topic] = m.decoder.Misspelt(event.Topic(topic))
	}
	return all
}

// read decodes a fetched record, and returns its fault.
func (m *Machine) read(rec *Record) (*event.Fault, error) {
	if rec.Fault != nil {
		return rec.Fault, nil
	}
	return m.decode(rec.Topic, rec.Key, &event.Content{Form: m.cfg.Formats.Of(rec.Topic, rec.Value), Value: rec.Value, Plain: rec.Plain})
}

func (m *Machine) decode(t event.Topic, key []byte, c *event.Content) (*event.Fault, error) {
	switch t {
	case event.Impressions:
		return fault(m.decoder.ImpressionIn(&m.impression, key, c))
	case event.Selections:
		return fault(m.decoder.SelectionIn(&m.selection, key, c))
	}
	return fault(m.decoder.PayoffIn(&m.payoff, key, c))
}

func fault(err error) (*event.Fault, error) {
	if err == nil {
		return nil, nil
	}
	if f, ok := err.(*event.Fault); ok { // the decoder returns nothing else
		return f, nil
	}
	return nil, err
}

func (m *Machine) reject(rec *Record, f *event.Fault, out *Output) {
	m.ledger.add(ofTopic(rec.Topic, impressionsRejected, selectionsRejected, payoffsRejected), 1)
	l := DeadLetter{
		Topic: rec.Topic, Offset: rec.Offset,
		Key: out.keep(rec.Key), Value: out.keep(rec.Value), Reason: string(f.Reason), Detail: f.Detail,
		Size: len(rec.Key) + len(rec.Value),
	}
	if rec.Cut != nil {
		l.Size = rec.Cut.Size
		if f.Reason == event.RecordTooLarge {
			l.Detail = fmt.Sprintf("key and value have %d bytes, a value may have at most %d", l.Size, m.cfg.MaxRecordBytes)
		}
	}
	out.DeadLetters = append(out.DeadLetters, l)
}

func faultf(r event.Reason, format string, args ...any) *event.Fault {
	return &event.Fault{Reason: r, Detail: fmt.Sprintf(format, args...)}
}
