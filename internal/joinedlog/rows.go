package joinedlog

import (
	"errors"
	"slices"
	"strconv"

	"github.com/ranker-worker/ranker-worker/config"
	"github.com/ranker-worker/ranker-worker/policy"
	"github.com/ranker-worker/ranker-worker/state"
	"github.com/ranker-worker/ranker-worker/stream/event"
)

// half is an impression without its ranking yet, or the reverse.
type half struct {
	until   event.Millis
	items   []int32      // the impression's, by utility rank if it has utilities
	about   []byte       // Decision.About, in the order of items
	ranking *rankingHalf // nil for an impression
}

type rankingHalf struct {
	shown               []int32
	found               []int32 // ranks of shown, if the learner has found the order
	time, began         event.Millis
	selection, deadline event.Millis // selection is 0 without a deadline for it
	propensities        []float64
	ruled               bool
	shadows             [][]int32 // positions in shown, by Query.Shadows
}

func (j *join) impression(h *head) {
	imp := &h.impression
	if !imp.HasUtilities && j.q.Learner.Utilities == config.Given || j.outside(h.at) { // such a learner refuses it
		return
	}
	id := state.IDOf(imp.ID)
	other := j.halves[id]
	if other != nil && other.ranking == nil { // of several the first was ranked
		return
	}
	n := len(imp.Candidates)
	j.utilities, j.names, j.order = j.utilities[:0], j.names[:0], slices.Grow(j.order[:0], n)[:n]
	for i := range imp.Candidates {
		j.order[i] = int32(i)
		j.utilities = append(j.utilities, imp.Candidates[i].Utility)
		j.names = append(j.names, imp.Candidates[i].Item)
	}
	if imp.HasUtilities {
		policy.SortByUtility(j.order, j.utilities, j.names, &j.work)
	}
	items := make([]int32, n)
	for rank, at := range j.order {
		items[rank] = j.number(j.names[at])
	}
	about := j.about(imp)
	if other != nil {
		delete(j.halves, id)
		j.decided(id, other.ranking, items, about)
		return
	}
	j.wait(id, h.at, &half{items: items, about: about})
}

// about returns the part of an impression that contexts and rules need; nil if contexts are not read and no candidate is pinned.
func (j *join) about(imp *event.Impression) []byte {
	if !j.q.Context && !slices.ContainsFunc(imp.Candidates, func(c event.Candidate) bool { return c.Pin != 0 }) {
		return nil
	}
	kept := event.Impression{ID: []byte("i"), HasUtilities: true, Context: event.Context{Features: imp.Context.Features, Segment: imp.Context.Segment}}
	for rank, at := range j.order {
		kept.Candidates = append(kept.Candidates, event.Candidate{Item: strconv.AppendInt(nil, int64(rank), 36), Utility: imp.Candidates[at].Utility,
			Pin: imp.Candidates[at].Pin})
		if j.q.Context {
			kept.Context.Candidates = append(kept.Context.Candidates, imp.Context.Candidates[at])
		}
	}
	return event.AppendProtobufImpression(nil, &kept)
}

// halfTime is the time for which an impression waits for its ranking, and the reverse, in milliseconds of event time.
const halfTime = 3_600_000

func (j *join) outside(at event.Millis) bool {
	return at < j.q.From || j.q.To != 0 && at >= j.q.To
}

func (j *join) ranking(h *head) {
	r := &h.ranking
	d := &r.Decision
	switch {
	case j.log.Group == "":
		j.log.Group = d.Group
	case d.Group != j.log.Group:
		return
	}
	id := state.IDOf(r.ID)
	if j.q.Accept != nil {
		if !j.outside(r.Time) && j.q.Accept(int32(len(j.log.Outcomes)), r) {
			j.row(id, j.halfOf(r), nil, nil, nil)
		}
		return
	}
	impression := j.halves[id]
	if j.log.Learner == "" {
		j.log.Learner = string(r.Learner)
	}
	switch {
	case string(r.Learner) != j.log.Learner:
		j.log.Counts.Others++
		delete(j.halves, id)
		return
	case j.outside(r.Time):
		return
	}
	j.log.Policy = d.Policy
	if len(d.Undecided) > 0 {
		j.log.Counts.Uncertain++
		return
	}
	x := j.halfOf(r)
	x.found = slices.Clone(d.Ranks)
	switch {
	case impression != nil && impression.ranking == nil:
		delete(j.halves, id)
		j.decided(id, x, impression.items, impression.about)
		return
	case len(x.found) > 0 && !x.ruled: // without its impression, its contexts are unknown
		j.decided(id, x, x.shown, nil)
		return
	}
	x.propensities = slices.Clone(x.propensities)
	j.wait(id, h.at, &half{ranking: x})
}

// errSelections is returned for a ranking that waits for a selection, in a log without selections: each row would end without one.
var errSelections = errors.New("the rankings are of a worker with a selections topic: selections are needed, too, with --selections")

// halfOf returns a ranking's half. Its propensities are valid until the next record.
func (j *join) halfOf(r *event.Ranking) *rankingHalf {
	d := &r.Decision
	x := &rankingHalf{time: r.Time, began: d.Began, deadline: d.PayoffDeadline, propensities: d.Propensities, ruled: len(d.Decided) > 0}
	if d.HasSelection {
		x.selection = d.SelectionDeadline
		if !j.q.HasSelections {
			j.err = errSelections
		}
	}
	x.shadows = j.shadows(d)
	x.shown = make([]int32, len(r.Items))
	for k, item := range r.Items {
		x.shown[k] = j.number(item)
	}
	return x
}

// shadows returns the recorded decisions of the query's shadows; nil if there are none.
func (j *join) shadows(d *event.Decision) (all [][]int32) {
	if len(d.Shadows) == 0 || len(j.q.Shadows) == 0 {
		return nil
	}
	for i := range d.Shadows {
		if name := d.Shadows[i].Name; !slices.Contains(j.log.Shadows, name) {
			j.log.Shadows = append(j.log.Shadows, name)
		}
	}
	for _, name := range j.q.Shadows {
		var order []int32
		if i := slices.IndexFunc(d.Shadows, func(s event.Shadow) bool { return s.Name == name }); i >= 0 {
			order = slices.Clone(d.Shadows[i].Order)
		}
		all = append(all, order)
	}
	return all
}

func (j *join) wait(id state.ID, at event.Millis, h *half) {
	h.until = max(j.now, at) + halfTime
	j.halves[id] = h
	j.halfDue.Add(h.until, due{id: id})
}

// decided makes a row of both halves, if their candidates agree.
func (j *join) decided(id state.ID, x *rankingHalf, items []int32, about []byte) {
	l := j.log
	if len(items) != len(x.shown) {
		l.Counts.Halves++
		return
	}
	for rank, i := range items {
		j.rankOf[i] = int32(rank)
	}
	ranks := make([]int32, len(x.shown))
	for k, i := range x.shown {
		if ranks[k] = j.rankOf[i]; int(ranks[k]) >= len(items) || items[ranks[k]] != i {
			l.Counts.Halves++ // other candidates
			return
		}
	}
	if len(x.found) > 0 {
		order := make([]int32, len(ranks)) // places among items by the rank found
		items = make([]int32, len(ranks))
		for k, rank := range x.found {
			order[rank], items[rank] = ranks[k], x.shown[k]
		}
		about, ranks = j.reordered(about, order), x.found
	}
	j.row(id, x, items, ranks, about)
}

// reordered returns an impression's About in another order of its candidates.
func (j *join) reordered(about []byte, order []int32) []byte {
	if about == nil {
		return nil
	}
	var imp event.Impression
	if err := event.NewKeylessDecoder(event.Limits{}).WithContext().ImpressionIn(&imp, nil, event.Content{Form: event.Protobuf, Value: about}); err != nil {
		j.err = err
		return nil
	}
	kept := imp
	kept.Candidates, kept.Context.Candidates = nil, nil
	for _, at := range order {
		kept.Candidates = append(kept.Candidates, imp.Candidates[at])
		if len(imp.Context.Candidates) > 0 {
			kept.Context.Candidates = append(kept.Context.Candidates, imp.Context.Candidates[at])
		}
	}
	return event.AppendProtobufImpression(nil, &kept)
}

// row begins a row; ranks are of x.shown, by position. With Accept, sorted and ranks are nil.
func (j *join) row(id state.ID, x *rankingHalf, sorted, ranks []int32, about []byte) {
	l := j.log
	if len(l.Outcomes) == 0 {
		l.First = x.time
	}
	l.First, l.Last, l.Longest = min(l.First, x.time), max(l.Last, x.time), max(l.Longest, len(sorted))
	for _, shadow := range x.shadows { // from positions to utility ranks
		for k, at := range shadow {
			shadow[k] = ranks[at]
		}
	}
	if x.ruled {
		l.Counts.Ruled++
	}
	row := int32(len(l.Outcomes))
	l.Outcomes = append(l.Outcomes, Outcome{Selected: -1})
	if last, again := j.rows[id]; again { // the id is used again: its first row stays immature
		j.close(last)
	}
	slot := j.slot()
	j.slots[slot] = open{id: id, row: row, live: true, began: x.began, selection: x.selection, deadline: x.deadline, shown: x.shown, ranks: ranks, item: -1}
	j.rows[id] = slot
	if x.selection != 0 {
		j.selectionDue.Add(j.slots[slot].selectBy(), due{slot: slot, row: row})
	}
	j.payoffDue.Add(x.deadline, due{slot: slot, row: row})
	j.emit(Event{Kind: Decided, Row: row, Decision: Decision{Time: x.time, Began: x.began, Items: sorted, Order: ranks, Propensities: x.propensities,
		Shadows: x.shadows, About: about}})
	j.again(id)
}
