package joinedlog

import (
	"math"
	"slices"

	"github.com/cespare/xxhash/v2"

	"github.com/ranker-worker/ranker-worker/config"
	"github.com/ranker-worker/ranker-worker/internal/deadlines"
	"github.com/ranker-worker/ranker-worker/policy"
	"github.com/ranker-worker/ranker-worker/state"
	"github.com/ranker-worker/ranker-worker/stream/event"
	"github.com/ranker-worker/ranker-worker/stream/partition"
)

// open is a row that has not ended.
type open struct {
	id                  state.ID
	row                 int32
	live                bool
	began               event.Millis
	selection, deadline event.Millis // selection is 0 without a deadline for it
	shown               []int32      // items by position; nil after the selection
	ranks               []int32      // of shown
	item                int32        // the selected item; -1 for none yet
	parts               int32
	sum                 float64
	age                 event.Millis // of the last partial payoff
	events              []uint64
}

// parked is a selection or payoff that waits for a row, or for its selection.
type parked struct {
	topic      event.Topic
	at         event.Millis
	item       int32 // -1 if not named
	byUtility  bool
	utility    float64
	hasUtility bool
	payoff     float64
	event      uint64       // 0 for none
	until      event.Millis // event time up to which it waits for a row
}

// due is a row whose deadline comes, or the id of a record that is dropped then.
type due struct {
	slot, row int32
	id        state.ID
}

// next takes the first that is due before a time.
func next(q *deadlines.Queue[due], before event.Millis) (d due, at event.Millis, ok bool) {
	if at, some := q.Next(); some && at < before {
		return q.Take(at)
	}
	return d, 0, false
}

// join joins merged records, and emits events.
type join struct {
	q       *Query
	log     *Log
	numbers map[string]int32
	rows    map[state.ID]int32 // slots of open rows
	slots   []open
	free    []int32
	halves  map[state.ID]*half
	waiting map[state.ID][]parked

	selectionDue, payoffDue, halfDue, waitingDue deadlines.Queue[due]

	newest    [event.Topics]event.Millis // effective times
	now       event.Millis
	rankOf    []int32 // scratch, by item
	order     []int32
	work      policy.Workspace
	utilities []float64
	names     [][]byte
	err       error
}

func newJoin(q *Query, log *Log) *join {
	j := &join{q: q, log: log, numbers: map[string]int32{}, rows: map[state.ID]int32{}, halves: map[state.ID]*half{}, waiting: map[state.ID][]parked{}}
	for t := range j.newest {
		j.newest[t] = math.MinInt64
	}
	return j
}

// take joins a record. Later calls have its time or a later one.
func (j *join) take(h *head) error {
	topic := h.source.Topic()
	j.now = h.key
	if h.refused == nil {
		j.join(topic, h)
	}
	j.newest[topic] = max(j.newest[topic], h.reached)
	j.expire(j.reached())
	return j.err
}

func (j *join) join(topic event.Topic, h *head) {
	switch topic {
	case event.Impressions:
		j.impression(h)
	case event.Rankings:
		j.ranking(h)
	case event.Selections:
		s := &h.selection
		j.arrived(state.IDOf(s.ID), parked{topic: topic, at: h.at, item: j.number(s.Item), byUtility: s.ByUtility, utility: s.Utility, hasUtility: s.HasUtility})
	case event.Payoffs:
		p := &h.payoff
		x := parked{topic: topic, at: h.at, item: -1, payoff: p.Payoff}
		if len(p.Item) > 0 {
			x.item = j.number(p.Item)
		}
		if len(p.EventID) > 0 {
			x.event = max(1, xxhash.Sum64(p.EventID))
		}
		j.arrived(state.IDOf(p.ID), x)
	}
}

// reached returns event time: the least, over the input topics, of the newest time. Rankings have the times of their impressions. Behind
// Query.To no row begins, and these topics are not read to their ends.
func (j *join) reached() event.Millis {
	least := j.newest[event.Payoffs]
	if j.q.HasSelections {
		least = min(least, j.newest[event.Selections])
	}
	begun := j.newest[event.Impressions]
	if j.q.Accept != nil {
		begun = j.newest[event.Rankings]
	}
	if j.q.To != 0 && begun >= j.q.To {
		return least
	}
	return min(least, begun)
}

// end ends all rows that event time has ended.
func (j *join) end() error {
	l := j.log
	if l.End = j.reached(); j.q.AsOf != 0 {
		l.End = max(l.End, j.q.AsOf)
	}
	j.expire(l.End)
	for _, h := range j.halves {
		if h.ranking != nil {
			l.Counts.Halves++
		}
	}
	// Rows younger than their payoff deadline do not count, not even paid ones, since others as young are unpaid yet. Before the
	// first open row there are no such others.
	ended := int32(len(l.Outcomes))
	for i := range j.slots {
		if o := &j.slots[i]; o.live {
			ended = min(ended, o.row)
		}
	}
	for d, _, ok := j.payoffDue.Take(math.MaxInt64); ok; d, _, ok = j.payoffDue.Take(math.MaxInt64) {
		if d.row >= ended {
			l.Outcomes[d.row].How = Immature
		}
	}
	for _, o := range l.Outcomes {
		*[...]*int64{Immature: &l.Counts.Immature, Unselected: &l.Counts.Unselected, Unpaid: &l.Counts.Unpaid, Paid: &l.Counts.Paid,
			Replaced: &l.Counts.Replaced}[o.How]++
	}
	return j.err
}

func (j *join) number(name []byte) int32 {
	i, ok := j.numbers[string(name)]
	if !ok {
		i = int32(len(j.log.Names))
		j.log.Names = append(j.log.Names, string(name))
		j.numbers[j.log.Names[i]] = i
		j.rankOf = append(j.rankOf, 0)
	}
	return i
}

func (j *join) slot() int32 {
	if n := len(j.free); n > 0 {
		s := j.free[n-1]
		j.free = j.free[:n-1]
		return s
	}
	j.slots = append(j.slots, open{})
	return int32(len(j.slots) - 1)
}

func (j *join) emit(e Event) {
	if j.q.Accept != nil {
		return
	}
	e.At = j.now
	if err := j.log.spool.put(&e); err != nil && j.err == nil {
		j.err = err
	}
}

func (j *join) came(slot int32, at event.Millis, how How, payoff float64) {
	if j.q.Came != nil {
		j.q.Came(j.slots[slot].row, at, how, payoff)
	}
}

// close frees a row's slot. Payoffs that wait for its selection are dropped.
func (j *join) close(slot int32) {
	id := j.slots[slot].id
	delete(j.rows, id)
	delete(j.waiting, id)
	j.slots[slot] = open{}
	j.free = append(j.free, slot)
}

// arrived joins or parks a selection or payoff.
func (j *join) arrived(id state.ID, p parked) {
	slot, ok := j.rows[id]
	switch {
	case ok && j.apply(slot, &p):
		if p.topic == event.Selections {
			j.again(id)
		}
		return
	case len(j.waiting[id]) >= partition.MaxParkedPerID:
		return
	case !ok:
		p.until = max(p.at, j.reached()) + j.q.Parking.Milliseconds()
		j.waitingDue.Add(p.until, due{id: id})
	}
	j.waiting[id] = append(j.waiting[id], p)
}

// giveUp drops records that have waited too long for an impression. If it has come, they wait for its ranking, or for a selection.
func (j *join) giveUp(id state.ID, reached event.Millis) {
	half := j.halves[id]
	if _, begun := j.rows[id]; begun || half != nil && half.ranking == nil {
		return
	}
	kept := slices.DeleteFunc(j.waiting[id], func(p parked) bool { return p.until < reached })
	if len(kept) > 0 {
		j.waiting[id] = kept
	} else {
		delete(j.waiting, id)
	}
}

// again joins the waiting records of a row that has just begun, or was just selected.
func (j *join) again(id state.ID) {
	all := j.waiting[id]
	delete(j.waiting, id)
	var kept []parked
	for _, topic := range []event.Topic{event.Selections, event.Payoffs} {
		for k := range all {
			if all[k].topic != topic {
				continue
			}
			if slot, ok := j.rows[id]; ok && !j.apply(slot, &all[k]) {
				kept = append(kept, all[k])
			}
		}
	}
	if len(kept) > 0 {
		j.waiting[id] = kept
	}
}

// apply joins a selection or payoff to a row, if it belongs to it; false if it must wait for the selection.
func (j *join) apply(slot int32, p *parked) bool {
	o := &j.slots[slot]
	switch {
	case p.topic == event.Selections:
		if o.item < 0 && p.at <= o.selectBy() {
			j.selected(slot, p)
		}
	case p.at > o.deadline:
	case p.item < 0 && o.selection == 0 && (o.item < 0 || !j.q.HasSelections): // each payoff must name its item
	case o.item < 0 && o.selection != 0:
		return false
	case o.item < 0 && !j.selected(slot, p), p.item >= 0 && p.item != o.item:
	default:
		j.paid(slot, p)
	}
	return true
}

func (o *open) selectBy() event.Millis {
	if o.selection == 0 {
		return o.deadline
	}
	return min(o.selection, o.deadline)
}

// selected joins a selection; false if the item was not shown.
func (j *join) selected(slot int32, p *parked) bool {
	o := &j.slots[slot]
	at := slices.Index(o.shown, p.item)
	if at < 0 {
		return false
	}
	out := &j.log.Outcomes[o.row]
	ranks := o.ranks
	if o.item = p.item; ranks != nil {
		out.Selected = ranks[at]
	}
	o.shown, o.ranks = nil, nil
	if p.byUtility {
		out.How = Replaced
		if j.came(slot, p.at, Replaced, 0); j.q.Came == nil {
			j.close(slot)
		}
		return true
	}
	j.came(slot, p.at, Immature, 0)
	if ranks != nil {
		j.log.Selections.Add(ranks, at)
	}
	j.emit(Event{Kind: WasSelected, Row: o.row, Utility: p.utility, HasUtility: p.hasUtility})
	return true
}

func (j *join) paid(slot int32, p *parked) {
	o := &j.slots[slot]
	l := j.q.Learner
	age := max(0, p.at-o.began)
	outside := p.payoff < l.PayoffRange.Min || p.payoff > l.PayoffRange.Max
	switch {
	case l.Aggregate == config.Sum:
	case outside && l.OutOfRange == config.Refuse:
		j.log.Outcomes[o.row].Refused = true
		j.unpaid(slot, p.at)
		return
	default:
		j.came(slot, p.at, Paid, p.payoff)
		j.ended(slot, p.payoff, age)
		return
	}
	if p.event != 0 {
		if slices.Contains(o.events, p.event) || len(o.events) >= partition.MaxEventsPerID {
			return
		}
		o.events = append(o.events, p.event)
	}
	o.sum = min(max(o.sum+p.payoff, -math.MaxFloat64), math.MaxFloat64)
	o.parts++
	o.age = age
	j.came(slot, p.at, Paid, o.sum)
	j.emit(Event{Kind: PaidPart, Row: o.row, Payoff: o.sum, Age: age})
}

func (j *join) ended(slot int32, payoff float64, age event.Millis) {
	o := &j.slots[slot]
	j.log.Outcomes[o.row].end(Paid, payoff)
	j.emit(Event{Kind: WasPaid, Row: o.row, Payoff: payoff, Age: age})
	j.close(slot)
}

func (j *join) unpaid(slot int32, at event.Millis) { j.without(slot, at, Unpaid, NeverPaid) }

func (j *join) notSelected(slot int32, at event.Millis) { j.without(slot, at, Unselected, NotSelected) }

// without ends a row without a payoff.
func (j *join) without(slot int32, at event.Millis, how How, kind Kind) {
	row := j.slots[slot].row
	j.came(slot, at, how, 0)
	j.log.Outcomes[row].end(how, 0)
	j.emit(Event{Kind: kind, Row: row})
	j.close(slot)
}

// expire ends rows whose deadline event time has reached.
func (j *join) expire(reached event.Millis) {
	for {
		d, _, ok := next(&j.selectionDue, reached)
		if !ok {
			break
		}
		if o := &j.slots[d.slot]; o.live && o.row == d.row && o.item < 0 {
			j.notSelected(d.slot, o.selectBy())
		}
	}
	for {
		d, _, ok := next(&j.payoffDue, reached)
		if !ok {
			break
		}
		o := &j.slots[d.slot]
		switch {
		case !o.live || o.row != d.row:
		case o.parts > 0:
			j.ended(d.slot, o.sum, o.deadline-o.began)
		case o.item >= 0:
			j.unpaid(d.slot, o.deadline)
		default: // without selections topic no selection is known
			j.notSelected(d.slot, o.deadline)
		}
	}
	for {
		d, at, ok := next(&j.halfDue, j.now)
		if !ok {
			break
		}
		if h := j.halves[d.id]; h != nil && h.until <= at {
			delete(j.halves, d.id)
			if h.ranking != nil {
				j.log.Counts.Halves++
			}
			j.giveUp(d.id, reached)
		}
	}
	for {
		d, _, ok := next(&j.waitingDue, reached)
		if !ok {
			break
		}
		j.giveUp(d.id, reached)
	}
}
