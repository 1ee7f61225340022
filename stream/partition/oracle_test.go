package partition

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/ranker-worker/ranker-worker/state"
	"github.com/ranker-worker/ranker-worker/stream/event"
)

// oracle is the join as one would first write it: maps, no store, and everything that the watermark makes due is done
// at once for every id. It knows nothing of overlays, buckets or look-ups.
type oracle struct {
	cfg       Config
	watermark event.Millis
	newest    [event.Inputs]event.Millis
	stories   map[string]*story
	account   Account
	fed       map[string][]float64 // by item, normalised
	ended     outcomesOf           // selections by whether they were paid; those that expire without a default alone
}

// story is the oracle's state of one impression id.
type story struct {
	ranked, ended  bool
	paid, selected string // items
	items          []string
	began          event.Millis
	selectBy       event.Millis
	payBy          event.Millis
	keptUntil      event.Millis // once ended
	sum            float64
	count          int
	events         []string
	waiting        []waitingRecord
}

type waitingRecord struct {
	selection *event.Selection
	payoff    *event.Payoff
	effective event.Millis
	deadline  event.Millis
}

func newOracle(cfg Config) *oracle {
	o := &oracle{cfg: cfg, stories: map[string]*story{}, fed: map[string][]float64{}}
	for i := range o.newest {
		o.newest[i] = math.MinInt64
	}
	return o
}

func (o *oracle) learner() *LearnerConfig { return &o.cfg.Learners[0] }

func (o *oracle) effective(t event.Topic, now, at event.Millis, has bool) event.Millis {
	if has {
		now = min(now, at)
	}
	o.newest[t] = max(o.newest[t], now)
	o.account.Read[t]++
	return now
}

func (o *oracle) tick(now event.Millis, atEnd [event.Inputs]bool) {
	low := now
	for t := range o.newest {
		if !atEnd[t] && (o.cfg.HasSelections || event.Topic(t) != event.Selections) {
			low = min(low, o.newest[t])
		}
	}
	o.watermark = max(o.watermark, low)
	for id, s := range o.stories {
		o.due(id, s)
	}
}

// due does all that the watermark has made due for one id.
func (o *oracle) due(id string, s *story) {
	w := o.watermark
	if !s.ranked {
		s.waiting = slices.DeleteFunc(s.waiting, func(r waitingRecord) bool {
			if w > r.deadline {
				o.giveUp(r)
				return true
			}
			return false
		})
		return
	}
	i := &o.account.Impressions
	awaited := o.cfg.HasSelections && s.selected == ""
	if !s.ended && (w > s.payBy || awaited && w > s.selectBy) {
		o.end(s)
		for _, r := range s.waiting {
			o.giveUp(r)
		}
		s.waiting = nil
		switch {
		case awaited:
			i.Unselected++
		case s.selected == "":
			i.Expired++
		case s.count > 0:
			i.Paid++
			o.ended.paid++
			o.feed(s.selected, s.sum)
		case o.learner().ExpiryDefault != nil:
			i.Defaulted++
			o.feed(s.selected, *o.learner().ExpiryDefault)
		default:
			i.Expired++
			o.ended.expired++
		}
	}
	if s.ended && w > s.keptUntil {
		delete(o.stories, id)
	}
}

// end notes that an impression has ended, and until when it is remembered: to the end of ten seconds of the clock. A deadline ends it
// when it comes, not when somebody looks.
func (o *oracle) end(s *story) {
	s.ended = true
	o.account.Impressions.Pending--
	until := max(s.began, min(o.watermark, s.payBy)) + o.cfg.Remember
	if o.cfg.HasSelections && s.selected == "" {
		until = max(s.began, min(o.watermark, s.payBy, s.selectBy)) + o.cfg.Remember
	}
	if o.cfg.Remember == UntilHorizon {
		until = s.payBy + o.cfg.ParkingTime
	}
	s.keptUntil = until - until%10_000 + 9_999
}

func (o *oracle) giveUp(r waitingRecord) {
	if r.selection != nil {
		o.account.Selections.Parked--
		o.account.Selections.Orphan++
	} else {
		o.account.Payoffs.Parked--
		o.account.Payoffs.Orphan++
	}
}

func (o *oracle) feed(item string, raw float64) {
	l := o.learner()
	r := (raw - l.PayoffMin) / (l.PayoffMax - l.PayoffMin)
	if r < 0 || r > 1 {
		o.account.PayoffsClamped++
	}
	o.fed[item] = append(o.fed[item], min(max(r, 0), 1))
}

func (o *oracle) story(id string) *story {
	if o.stories[id] == nil {
		o.stories[id] = &story{}
	}
	return o.stories[id]
}

func (o *oracle) read(record any, now event.Millis) {
	switch r := record.(type) {
	case *event.Impression:
		o.impression(r, now)
	case *event.Selection:
		o.selection(r, now)
	case *event.Payoff:
		o.payoff(r, now)
	}
}

func (o *oracle) impression(imp *event.Impression, now event.Millis) {
	at := o.effective(event.Impressions, now, imp.Time, imp.HasTime)
	i := &o.account.Impressions
	if !imp.HasUtilities {
		i.Rejected++
		return
	}
	s := o.story(string(imp.ID))
	if s.ranked {
		i.Duplicate++
		return
	}
	i.Pending++
	s.ranked = true
	base := max(at, o.watermark)
	s.began, s.selectBy, s.payBy = base, base+o.learner().SelectionTimeout, base+o.learner().PayoffHorizon
	for _, c := range imp.Candidates {
		s.items = append(s.items, string(c.Item))
	}
	waiting := s.waiting
	s.waiting = nil
	for _, r := range waiting {
		if r.selection != nil {
			o.account.Selections.Parked--
			o.selected(s, r.selection, r.effective)
		}
	}
	for _, r := range waiting {
		if r.payoff != nil {
			o.account.Payoffs.Parked--
			o.paid(s, r.payoff, r.effective)
		}
	}
}

func (o *oracle) selection(sel *event.Selection, now event.Millis) {
	at := o.effective(event.Selections, now, sel.Time, sel.HasTime)
	s := o.story(string(sel.ID))
	before := s.selected
	if o.selected(s, sel, at); before == s.selected {
		return
	}
	waiting := s.waiting
	s.waiting = nil
	for _, r := range waiting {
		o.account.Payoffs.Parked--
		o.paid(s, r.payoff, r.effective)
	}
}

func (o *oracle) payoff(p *event.Payoff, now event.Millis) {
	at := o.effective(event.Payoffs, now, p.Time, p.HasTime)
	o.paid(o.story(string(p.ID)), p, at)
}

func (o *oracle) wait(s *story, r waitingRecord, parked, orphan *int64) {
	if len(s.waiting) == MaxParkedPerID {
		*orphan++
		return
	}
	*parked++
	r.deadline = max(r.effective, o.watermark) + o.cfg.ParkingTime
	s.waiting = append(s.waiting, r)
}

func (o *oracle) selected(s *story, sel *event.Selection, at event.Millis) {
	n, item := &o.account.Selections, string(sel.Item)
	switch {
	case !s.ranked:
		o.wait(s, waitingRecord{selection: sel, effective: at}, &n.Parked, &n.Orphan)
	case s.ended && s.selected != "":
		n.Duplicate++
	case s.ended:
		n.Late++
	case s.selected != "":
		n.Duplicate++
	case !slices.Contains(s.items, item):
		n.Rejected++
	case at > s.selectBy:
		n.Late++
	default:
		n.Joined++
		s.selected = item
	}
}

func (o *oracle) paid(s *story, p *event.Payoff, at event.Millis) {
	n, item, l := &o.account.Payoffs, string(p.Item), o.learner()
	switch {
	case !s.ranked && !o.cfg.HasSelections && item == "":
		n.Rejected++
	case !s.ranked:
		o.wait(s, waitingRecord{payoff: p, effective: at}, &n.Parked, &n.Orphan)
	case s.ended && s.paid != "":
		n.Duplicate++
	case s.ended:
		n.Late++
	case item == "" && !o.cfg.HasSelections:
		n.Rejected++
	case item != "" && !slices.Contains(s.items, item), item != "" && s.selected != "" && item != s.selected:
		n.Rejected++
	case at > s.payBy:
		n.Late++
	case s.selected == "" && o.cfg.HasSelections:
		o.wait(s, waitingRecord{payoff: p, effective: at}, &n.Parked, &n.Orphan)
	case l.AggregateSum && slices.Contains(s.events, string(p.EventID)):
		n.Duplicate++
	case l.RefuseOutOfRange && !l.AggregateSum && (p.Payoff < l.PayoffMin || p.Payoff > l.PayoffMax):
		n.Rejected++
		s.selected = cmp.Or(s.selected, item)
		o.end(s)
		o.account.Impressions.Expired++
	default:
		n.Applied++
		if s.selected == "" {
			s.selected = item
		}
		if l.AggregateSum {
			s.sum += p.Payoff
			s.count++
			if len(p.EventID) > 0 {
				s.events = append(s.events, string(p.EventID))
			}
			return
		}
		s.paid = s.selected
		o.end(s)
		o.account.Impressions.Paid++
		o.ended.paid++
		o.feed(s.selected, p.Payoff)
	}
}

// settleAll does all that the watermark has made due, for every id, as the walk would.
func (w *world) settleAll() {
	for id := range w.ids() {
		key := w.text(id)
		require.NoError(w.t, w.m.join.open(key, []byte(id), w.store.find(key)))
		w.m.join.expireDue()
		w.m.save(false)
	}
}

// checkIndex checks the pages. After a save, each stored id lies in one alone, which the machine knows as it is. Its bucket is never later
// than that of its next deadline.
func (w *world) checkIndex() {
	if unsaved, _ := w.m.Dirty(); unsaved > 0 {
		return
	}
	seen := map[state.ID]uint32{}
	require.Len(w.t, w.m.expiry.pages.all, len(w.store.pages))
	for number, p := range w.store.pages {
		known := w.m.expiry.pages.all[number]
		require.Equal(w.t, p.bucket, known.bucket)
		require.EqualValues(w.t, len(p.entries), known.live)
		require.LessOrEqual(w.t, known.put, int32(pageEntries))
		require.GreaterOrEqual(w.t, p.bucket, w.m.expiry.floor)
		for id, value := range p.entries {
			require.NotContains(w.t, seen, id, "%s lies in two pages", w.store.texts[id])
			seen[id] = number
			require.Equal(w.t, []state.Place{{Page: number, ID: id}}, w.m.Places(nil, id))
			hash, value := cutKeyHash([]byte(value))
			var e entry
			require.NoError(w.t, decodeEntry(value, p.bucket, &e))
			if e.kind != tombstone && id.Hashed() {
				require.Equal(w.t, state.KeyHash([]byte(w.store.texts[id])), hash)
			}
			if p.bucket > w.m.expiry.fixed+1 {
				require.LessOrEqual(w.t, p.bucket, bucketOf(e.nextDeadline(), 0), "%s is visited too late", w.store.texts[id])
			}
		}
	}
}

func drawConfig(t *rapid.T) Config {
	cfg := testConfig()
	l := &cfg.Learners[0]
	cfg.HasSelections = rapid.Bool().Draw(t, "selections topic")
	l.AggregateSum = rapid.Bool().Draw(t, "sum")
	if rapid.Bool().Draw(t, "forgets soon") {
		cfg.Remember = rapid.Int64Range(cfg.ParkingTime, 4*cfg.ParkingTime).Draw(t, "remember")
	}
	l.RefuseOutOfRange = rapid.Bool().Draw(t, "refuse")
	if rapid.Bool().Draw(t, "default") {
		d := 0.25
		l.ExpiryDefault = &d
	}
	return cfg
}

// drawTime draws milliseconds, and most of the time whole multiples of 5 s, so that times often meet deadlines exactly.
func drawTime(t *rapid.T, name string, low, high int64) int64 {
	if rapid.IntRange(0, 4).Draw(t, "odd") == 0 {
		return rapid.Int64Range(low, high).Draw(t, name)
	}
	return 5_000 * rapid.Int64Range(low/5_000, high/5_000).Draw(t, name)
}

// drawRecord draws a record of any topic about one of a few ids.
func drawRecord(t *rapid.T, cfg *Config, now event.Millis) (topic event.Topic, record any) {
	id := []byte(rapid.SampledFrom([]string{"i-1", "i-2", "i-3", "i-4", "i-5"}).Draw(t, "id"))
	item := rapid.SampledFrom([]string{"a", "b", "c", "d"})
	at, hasTime := now-drawTime(t, "age", -20_000, 100_000), rapid.Bool().Draw(t, "has time")
	if !hasTime {
		at = 0
	}
	switch rapid.IntRange(0, 3).Draw(t, "topic") {
	case 0:
		imp := &event.Impression{ID: id, Time: at, HasTime: hasTime, HasUtilities: rapid.IntRange(0, 9).Draw(t, "faulty") > 0}
		for _, c := range rapid.SliceOfNDistinct(item, 1, 3, rapid.ID[string]).Draw(t, "candidates") {
			imp.Candidates = append(imp.Candidates, event.Candidate{Item: []byte(c), Utility: rapid.Float64Range(0, 1).Draw(t, "utility")})
		}
		return event.Impressions, imp
	case 1:
		if cfg.HasSelections {
			return event.Selections, &event.Selection{ID: id, Time: at, HasTime: hasTime, Item: []byte(item.Draw(t, "item")),
				Utility: float64(rapid.IntRange(0, 3).Draw(t, "estimate")), HasUtility: true}
		}
	}
	p := &event.Payoff{ID: id, Time: at, HasTime: hasTime, Payoff: rapid.Float64Range(-0.1, 1.1).Draw(t, "payoff")}
	if rapid.Bool().Draw(t, "names item") {
		p.Item = []byte(item.Draw(t, "item"))
	}
	if rapid.Bool().Draw(t, "has event") {
		p.EventID = fmt.Appendf(nil, "e-%d", rapid.IntRange(0, 4).Draw(t, "event"))
	}
	return event.Payoffs, p
}

func encodeRecord(record any) (id string, value []byte) {
	switch r := record.(type) {
	case *event.Impression:
		return string(r.ID), event.AppendImpression(nil, r)
	case *event.Selection:
		return string(r.ID), event.AppendSelection(nil, r)
	case *event.Payoff:
		return string(r.ID), event.AppendPayoff(nil, r)
	}
	panic("not a record")
}

// TestJoinAgainstOracle compares the machine with the oracle on random histories. Records of all kinds come early, late or twice. Ticks,
// checkpoints, partial walks and crashes lie in between, none of which the oracle knows.
func TestJoinAgainstOracle(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cfg := drawConfig(t)
		w, o := newWorld(t, cfg), newOracle(cfg)
		w.now = day
		crashed := false
		for range rapid.IntRange(1, 120).Draw(t, "steps") {
			switch rapid.IntRange(0, 11).Draw(t, "step") {
			default:
				topic, record := drawRecord(t, &cfg, w.now)
				id, value := encodeRecord(record)
				require.NoError(t, w.read(topic, id, value, w.now))
				o.read(record, w.now)
			case 5:
				var batch []Record
				for range rapid.IntRange(2, 8).Draw(t, "batch") {
					topic, record := drawRecord(t, &cfg, w.now)
					id, value := encodeRecord(record)
					batch = append(batch, w.record(topic, id, value, w.now))
					o.read(record, w.now)
				}
				w.readBatch(batch, func() bool { return rapid.IntRange(0, 2).Draw(t, "save") == 0 })
			case 0, 1:
				var atEnd [event.Inputs]bool
				for i := range atEnd {
					atEnd[i] = rapid.IntRange(0, 3).Draw(t, "at end") > 0
				}
				now := w.now + drawTime(t, "passes", 0, 90_000)
				w.tick(now, atEnd)
				o.tick(now, atEnd)
				require.Equal(t, o.watermark, w.m.Watermark())
			case 2:
				w.save()
				w.checkIndex()
			case 3:
				w.walkSome(rapid.IntRange(1, 5).Draw(t, "chunk"), rapid.IntRange(1, 4).Draw(t, "chunks"))
				w.checkIndex()
			case 4:
				w.crash()
				crashed = true
			}
		}
		w.settleAll()
		got, want := w.m.Account(), o.account
		want.Adopted, want.ParkedBytes = got.Adopted, got.ParkedBytes
		require.Equal(t, want, got)
		w.requireFed(o.fed)
		l := w.m.Learners()[0]
		require.Zero(t, l.Untaught, "on_expiry has always been the same")
		if cfg.Learners[0].ExpiryDefault != nil {
			require.Zero(t, l.Drops)
		} else if !crashed {
			require.Equal(t, o.ended, outcomesOf{l.Drops.Paid, l.Drops.Expired})
		}
		w.save()
		w.checkIndex()
	})
}

// walkSome makes a checkpoint and walks on by at most so many chunks.
func (w *world) walkSome(limit, chunks int) {
	for range chunks {
		bucket, ok := w.m.DueUpTo()
		if !ok {
			return
		}
		w.save()
		due := w.store.dueUpTo(bucket, limit)
		if len(due) == 0 {
			w.m.Walked(bucket)
		}
		for _, e := range due {
			require.NoError(w.t, w.m.Expire(e))
		}
		w.save()
	}
}

func (w *world) requireFed(fed map[string][]float64) {
	l := w.m.byName["feed"]
	var total int64
	for i := range int32(l.items.len()) {
		name, s := l.items.name(i), l.delay.Sums(i)
		require.EqualValues(w.t, len(fed[name]), s.N, "payoffs fed for %s", name)
		sum := 0.0
		for _, r := range fed[name] {
			sum += r
		}
		require.InDelta(w.t, sum, s.R, 1e-9, "sum of payoffs fed for %s", name)
		total += s.N
	}
	a := w.m.Account()
	require.Equal(w.t, a.Impressions.Paid+a.Impressions.Defaulted, total, "each paid impression is fed once")
}
