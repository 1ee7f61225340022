package partition

import (
	"errors"
	"fmt"
	"slices"

	"github.com/ranker-worker/ranker-worker/delay"
	"github.com/ranker-worker/ranker-worker/policy"
	"github.com/ranker-worker/ranker-worker/state"
	"github.com/ranker-worker/ranker-worker/stream/event"
)

// ErrDecision means that a decision in the log cannot belong to the impression it names: log and state do not fit.
var ErrDecision = errors.New("partition: the decision in the log contradicts the state")

// DecisionLayout is the version of a ranking's decision part. A decision of another version is not adopted.
const DecisionLayout = 1

func (m *Machine) stepImpression(in *Input, out *Output) error {
	rec, imp := in.Record, &m.impression
	faulty, err := m.read(rec)
	if err != nil {
		return err
	}
	effective := m.effective(in, imp.Time, faulty == nil && imp.HasTime)
	if in.Decided != nil {
		return m.adopt(in, faulty == nil, out)
	}
	var l *learner
	var g assignment
	if faulty == nil {
		if l, g, faulty = m.examine(imp, effective); l == nil && !in.RefusedEarlier {
			err = m.unknownHere(string(imp.Learner))
		}
		if in.RefusedEarlier {
			return m.refuseAgain(in, faulty, out)
		}
	}
	if err != nil {
		return err
	}
	if faulty != nil {
		m.reject(rec, faulty, out)
		return nil
	}
	if err := m.openKey(in); err != nil {
		return err
	}
	m.settle()
	if m.cur.kind > waiting {
		m.count(impressionsDuplicate, 1)
		m.save(false)
		return nil
	}
	m.decide(l, rec, effective, &g, out)
	err = m.retryAll(out)
	m.save(false)
	return err
}

// refuseAgain treats an impression that an earlier owner left unranked as that owner did. It uses that owner's knowledge: the watermark may
// have moved since, and the learner may not be configured any more.
func (m *Machine) refuseAgain(in *Input, faulty *event.Fault, out *Output) error {
	if err := m.openKey(in); err != nil {
		return err
	}
	if m.cur.kind > waiting {
		m.count(impressionsDuplicate, 1)
		return nil
	}
	if faulty == nil {
		faulty = faultf(event.RefusedEarlier, "an earlier owner of the partition went past it")
	}
	m.reject(in.Record, faulty, out)
	return nil
}

// examine returns the learner that ranks the impression, its assignment to an experiment, and a fault that decoding alone does not find.
func (m *Machine) examine(imp *event.Impression, effective event.Millis) (by *learner, g assignment, faulty *event.Fault) {
	l := m.fallback
	if len(imp.Learner) > 0 {
		l = m.byName[string(imp.Learner)]
	}
	name, findsUtilities := "", false
	if l != nil && !l.gone {
		name, findsUtilities = l.name, l.cfg.FindsUtilities
	}
	if f := LearnerRefusal(imp, name, findsUtilities); f != nil {
		return nil, g, f
	}
	l, g = m.trials.give(l, imp, max(effective, m.time.watermark))
	if l.cfg.Context != nil {
		if f := l.cfg.Context.Read(&m.scratch.reading, imp, l.name); f != nil {
			return nil, g, f
		}
	}
	if size := m.rankingSize(l, imp, &g); size > m.cfg.MaxRankingBytes {
		return nil, g, faultf(event.RankingTooLarge, "its ranking could take %d bytes, one record takes at most %d", size,
			m.cfg.MaxRankingBytes)
	}
	return l, g, nil
}

// Upper bounds of a ranking record's bytes, besides id, learner and items: a fixed part, and for each item quotes, comma and the longest
// propensity.
const (
	rankingFixedBytes = 640 // with the header of steps, shortened if need be
	propensityBytes   = 26
	rankBytes         = 2 * 11 // a rank, and the mark of an undecided one
	expectedBytes     = 15     // with six decimals
	positionBytes     = 11     // of a shadow's order
	experimentBytes   = 280    // of an assignment, a verdict included, without names
	escapedByte       = 6      // the most bytes that JSON makes of one
)

// rankingSize returns an upper bound of the ranking's bytes. It is asked before the decision, because a decision may change its learner and
// a refused impression must leave no trace. Only near the limit the size is computed exactly, propensities aside.
func (m *Machine) rankingSize(l *learner, imp *event.Impression, g *assignment) int {
	rest := rankingFixedBytes + escapedByte*(len(m.cfg.Group)+len(l.name)+len(l.cfg.PolicyName)+len(l.cfg.DelayName)) +
		len(imp.ID)
	bytes := len(imp.ID)
	for i := range imp.Candidates {
		bytes += len(imp.Candidates[i].Item)
	}
	rest += (3 + propensityBytes) * len(imp.Candidates)
	if l.cfg.FindsUtilities {
		rest += rankBytes * len(imp.Candidates)
	}
	if x, ok := l.delay.(delay.Expecting); ok && x.Expects() {
		rest += expectedBytes * len(imp.Candidates)
	}
	if x := g.trial; x != nil {
		rest += experimentBytes + escapedByte*(len(x.Name)+3*x.longest+x.longestShadows)
		rest += len(x.shadows) * (len(`"":[],`) + positionBytes*len(imp.Candidates))
	}
	if rough := rest + escapedByte*bytes; rough <= m.cfg.MaxRankingBytes {
		return rough
	}
	r := event.Ranking{ID: imp.ID}
	for i := range imp.Candidates {
		r.Items = append(r.Items, imp.Candidates[i].Item)
	}
	return len(event.AppendRanking(nil, &r)) + rest - 3*len(imp.Candidates)
}

// decide ranks a new impression and makes it the current entry.
func (m *Machine) decide(l *learner, rec *Record, effective event.Millis, g *assignment, out *Output) {
	s, imp := &m.scratch, &m.impression
	m.follow()
	m.internCandidates(l, imp)
	n := len(imp.Candidates)
	s.order = slices.Grow(s.order[:0], n)[:n]
	s.candidates = slices.Grow(s.candidates[:0], n)[:n]
	m.sortCandidates(l)
	if n := len(imp.Filled); n > 0 && !l.cfg.FindsUtilities {
		l.filled.Candidates += int64(n)
		l.filled.Impressions++
	}
	for k, at := range s.order {
		s.candidates[k] = s.numbers[at]
	}
	as := g.ranks(l)
	key := policy.DecisionKey(as.cfg.Seed, m.salt, as.name, m.cfg.Partition, rec.Offset)
	d := &m.decision
	d.Ranks, d.Undecided = d.Ranks[:0], d.Undecided[:0]
	base := max(effective, m.time.watermark)
	about := m.about(l, base)
	if about != nil {
		l.cfg.Context.Categorise(l.delay, &s.reading, imp, s.numbers)
		l.meet(s.numbers, base)
	}
	g.decideAs(l, s.candidates, about, key, d)
	m.segments.loose += eventWeight
	favourite := favouriteOf(l, s.candidates, d)
	l.comparison.decided(l, s.candidates, favourite, favourite == int(d.Order[0]))

	r := &m.ranking
	r.ID, r.Learner, r.Time = imp.ID, append(r.Learner[:0], as.name...), effective
	r.Items = r.Items[:0]
	for _, k := range d.Order {
		r.Items = append(r.Items, s.names[s.order[k]])
	}
	r.Decision = event.Decision{
		Group: m.cfg.Group, Policy: as.cfg.PolicyName, Delay: as.cfg.DelayName, Partition: m.cfg.Partition,
		Offset: rec.Offset, Layout: DecisionLayout, Began: base, Propensities: d.Propensities, Expected: d.Expected,
		Instance: d.Instance, Explored: d.Explored,
		Ranks: d.Ranks, Undecided: d.Undecided, Seed: uint64(key), PayoffDeadline: later(base, l.cfg.PayoffHorizon),
	}
	if m.cfg.HasSelections {
		r.Decision.HasSelection, r.Decision.SelectionDeadline = true, later(base, as.cfg.SelectionTimeout)
	}
	g.write(&r.Decision)
	r.Decision.Shadows = m.shadow(g, s.candidates, about, d, rec.Offset)
	out.room(m.rankingSize(l, imp, g))
	start := len(out.buf)
	out.buf = event.AppendRanking(out.buf, r)
	value := out.buf[start:len(out.buf):len(out.buf)]
	m.makeRoomFor(len(rec.Key)+len(value), out)
	out.Rankings = append(out.Rankings, Message{Key: out.keep(rec.Key), Value: value, Steps: m.stepsOf(out), Seen: m.seenOf(out)})
	m.stepping.ranked = true
	l.looking.decided(m, l, s.candidates, favourite)

	e := m.begin(l, &r.Decision)
	g.enrol(e)
	l.carried(s.process, e.began, e.payoffDeadline)
	for _, k := range d.Order {
		e.items = append(e.items, s.candidates[k])
	}
	if m.keepsRanks(l, d) {
		e.ranks = append(e.ranks, d.Order...)
	}
	if about != nil {
		m.keepContext(l, e, d.Order)
	}
}

// keepsRanks reports whether an impression with given utilities keeps its order: until its selection, or as long as its propensities are
// needed.
func (m *Machine) keepsRanks(l *learner, d *delay.Decision) bool {
	return !l.cfg.FindsUtilities && (len(d.Propensities) > 0 || m.cfg.HasSelections && l.delay.Needs().Ranking)
}

// sortCandidates sorts the positions of the interned candidates by increasing utility, or keeps the record's order if the learner finds
// utilities.
func (m *Machine) sortCandidates(l *learner) {
	s := &m.scratch
	if !l.cfg.FindsUtilities {
		policy.SortByUtility(s.order, s.utilities, s.names, &m.work)
		return
	}
	for k := range s.order {
		s.order[k] = int32(k)
	}
}

// later returns t plus by, at most the latest time that a record can hold.
func later(t event.Millis, by int64) event.Millis {
	return min(t, event.MaxTime-min(by, event.MaxTime)) + min(by, event.MaxTime)
}

// internCandidates numbers the candidates in the order of the record, so that a replay gives new items the same numbers.
func (m *Machine) internCandidates(l *learner, imp *event.Impression) {
	s := &m.scratch
	s.utilities, s.names = s.utilities[:0], s.names[:0]
	for i := range imp.Candidates {
		c := &imp.Candidates[i]
		s.utilities = append(s.utilities, c.Utility)
		s.names = append(s.names, c.Item)
	}
	s.numbers = m.intern(l, s.numbers[:0], s.names)
}

// intern appends the learner's numbers of items to dst. New items get new numbers.
func (m *Machine) intern(l *learner, dst []policy.Item, names [][]byte) []policy.Item {
	s := &m.scratch
	s.process = m.cfg.Names.Numbers(s.process[:0], names)
	for k, process := range s.process {
		dst = append(dst, m.internNumber(l, process, names[k]))
	}
	l.grow()
	return dst
}

// internNumber returns the learner's number of an item, given its process-wide number and its name.
func (m *Machine) internNumber(l *learner, process int32, name []byte) policy.Item {
	i, fresh := l.items.intern(process, name)
	if fresh {
		m.segments.loose += nameWeight + int64(len(name))
	}
	return i
}

// begin makes the current entry a pending impression, still without items. Records parked under the id stay.
func (m *Machine) begin(l *learner, d *event.Decision) *entry {
	c := &m.cur
	e := &c.entry
	e.forget()
	e.kind, e.learner, e.offset = pending, l.number, d.Offset
	e.wasSelected, e.paidOnce, e.forgetAt = false, false, 0
	e.began, e.payoffDeadline = d.Began, d.PayoffDeadline
	e.hasSelectionDeadline, e.selectionDeadline = d.HasSelection, d.SelectionDeadline
	if !d.HasSelection {
		e.selectionDeadline = 0
	}
	e.propensities = append(e.propensities, d.Propensities...)
	for _, x := range d.Expected {
		e.expected = append(e.expected, event.Millionths(x))
	}
	e.ranks, e.undecided = append(e.ranks, d.Ranks...), append(e.undecided, d.Undecided...)
	e.instance = d.Instance
	c.changed = true
	m.count(impressionsPending, 1)
	l.ledger.add(impressionsRead, 1)
	return e
}

// adopt applies a decision from the log. Present rules do not apply: the record need not parse, nor its learner be configured.
func (m *Machine) adopt(in *Input, parsed bool, out *Output) error {
	rec, r := in.Record, in.Decided
	if l := m.byName[string(r.Learner)]; l == nil || l.gone {
		if err := m.unknownHere(string(r.Learner)); err != nil {
			return err
		}
	}
	if string(r.ID) != string(rec.Key) || r.Decision.Offset != rec.Offset {
		return fmt.Errorf("%w: it is for impression %.64q at offset %d, not for %.64q at offset %d", ErrDecision,
			r.ID, r.Decision.Offset, rec.Key, rec.Offset)
	}
	if err := m.openKey(in); err != nil {
		return err
	}
	m.makeRoom(r)
	l := m.stateOf(r)
	if l == nil {
		l = m.registerUnconfigured(string(r.Learner))
	}
	if parsed && !permutes(r.Items, m.impression.Candidates) {
		return fmt.Errorf("%w: impression %.64q at offset %d: its items are not the candidates", ErrDecision, r.ID,
			rec.Offset)
	}
	m.follow() // the learner may take up items
	e := m.begin(l, &r.Decision)
	if len(r.Decision.Propensities) != 0 && len(r.Decision.Propensities) != len(r.Items) {
		return fmt.Errorf("%w: impression %.64q at offset %d: %d propensities for %d items", ErrDecision, r.ID,
			rec.Offset, len(r.Decision.Propensities), len(r.Items))
	}
	if len(r.Decision.Expected) != 0 && len(r.Decision.Expected) != len(r.Items) {
		return fmt.Errorf("%w: impression %.64q at offset %d: %d are expected of %d items", ErrDecision, r.ID, rec.Offset,
			len(r.Decision.Expected), len(r.Items))
	}
	m.trials.enrolAdopted(e, r)
	m.ledger.add(decisionsAdopted, 1)
	m.stepping.ranked = true
	if l.gone { // its items are not loaded: the impression can only expire
		e.propensities, e.ranks, e.undecided, e.instance = e.propensities[:0], e.ranks[:0], e.undecided[:0], -1
		e.expected = e.expected[:0]
	} else {
		m.adoptItems(l, r, parsed)
	}
	err := m.retryAll(out)
	m.save(false)
	return err
}

// makeRoom ends an impression that stands under the id of an adopted decision. Such a one may exist if it was forgotten when the decision
// was made but is not yet in this replay. Then join.remember was raised, or the watermark is not as far again. The decision's maker had
// seen it end. If it is pending here, its deadline is past, or its payoff came out of this replay's sight: then the learner receives none.
func (m *Machine) makeRoom(r *event.Ranking) {
	e, d := &m.cur.entry, &r.Decision
	if e.kind <= waiting {
		m.settle()
		return
	}
	switch {
	case e.kind == pending && e.nextDeadline() < d.Began:
		m.expire()
	case e.kind == pending:
		m.giveUp()
	default:
		m.orphanAll()
	}
	e.reset()
	m.cur.changed = true
}

// Holds reports whether the state includes the decision about an impression read at offset that began then. Found is the look-up's result.
// An ended impression may be forgotten and its id reused, but not before the parking time is over. An entry with a selection, or a
// tombstone, does not say which impression it is of.
func (m *Machine) Holds(id state.ID, found Found, offset int64, began event.Millis) bool {
	if m.open(id, nil, found) != nil {
		return false
	}
	e := &m.cur.entry
	if e.kind <= waiting {
		return m.time.watermark > began+m.cfg.ParkingTime
	}
	return e.kind == closed || e.offset == unknownOffset || e.offset >= offset
}

// adoptItems copies the adopted ranking's items, and feeds the decision to the learner.
func (m *Machine) adoptItems(l *learner, r *event.Ranking, parsed bool) {
	s, e, d := &m.scratch, &m.cur.entry, &m.decision
	ordered := parsed && m.impression.HasUtilities && !l.cfg.FindsUtilities
	*d = delay.Decision{
		Order: d.Order[:0], Propensities: append(d.Propensities[:0], r.Decision.Propensities...),
		Instance: r.Decision.Instance, Explored: r.Decision.Explored,
		Ranks: append(d.Ranks[:0], r.Decision.Ranks...), Undecided: append(d.Undecided[:0], r.Decision.Undecided...),
		Expected: append(d.Expected[:0], r.Decision.Expected...),
	}
	if parsed {
		m.internCandidates(l, &m.impression)
	}
	e.items = m.intern(l, e.items, r.Items)
	l.carried(s.process, e.began, e.payoffDeadline)
	l.meet(e.items, e.began)
	if ordered {
		n := len(r.Items)
		s.order = slices.Grow(s.order[:0], n)[:n]
		policy.SortByUtility(s.order, s.utilities, s.names, &m.work)
		if clear(s.rankOf); s.rankOf == nil {
			s.rankOf = make(map[policy.Item]int32, n)
		}
		for rank, at := range s.order {
			s.rankOf[s.numbers[at]] = int32(rank)
		}
		for _, i := range e.items {
			d.Order = append(d.Order, s.rankOf[i])
		}
		if m.keepsRanks(l, d) {
			e.ranks = append(e.ranks[:0], d.Order...)
		}
	}
	if parsed {
		m.adoptContext(l)
	}
	l.delay.Adopt(r.Decision.Offset, d)
	m.segments.loose += eventWeight
}

// permutes reports whether items, all different, are the candidates.
func permutes(items [][]byte, candidates []event.Candidate) bool {
	if len(items) != len(candidates) {
		return false
	}
	have := make(map[string]struct{}, len(candidates))
	for i := range candidates {
		have[string(candidates[i].Item)] = struct{}{}
	}
	for _, item := range items {
		if _, ok := have[string(item)]; !ok {
			return false
		}
		delete(have, string(item))
	}
	return true
}
