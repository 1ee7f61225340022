package partition

import (
	"slices"

	"github.com/ranker-worker/ranker-worker/delay"
	"github.com/ranker-worker/ranker-worker/policy"
	"github.com/ranker-worker/ranker-worker/stream/event"
)

// DecisionLayout is the version of a ranking's decision part. A decision of another version is not adopted.
const DecisionLayout = 1

// decider ranks impressions, by the learner or the arm of an experiment that each is for.
type decider struct {
	*learnerTable
	cfg      *Config
	trials   *trials
	time     *eventTime
	segments *segments

	size     int  // an upper bound of the ranking's bytes
	ruled    bool // rules can change the ranking
	rules    Rules
	ranking  event.Ranking
	decision delay.Decision
	work     policy.Workspace
	// Reused memory:
	process    []int32       // process-wide numbers of the candidates, in the record's order
	numbers    []policy.Item // the learner's numbers
	order      []int32       // positions in the record, by increasing utility
	candidates []policy.Item // by increasing utility
	utilities  []float64
	names      [][]byte
	reading    Reading
	context    policy.Context
	shadows    shadowScratch
	positions  []int32
	expected   []float64
	rankOf     map[policy.Item]int32
}

// examine returns the learner that ranks the impression, its assignment to an experiment, and a fault that decoding alone does not find.
func (dec *decider) examine(imp *event.Impression, effective event.Millis) (by *learner, g assignment, faulty *event.Fault) {
	l := dec.fallback
	if len(imp.Learner) > 0 {
		l = dec.byName[string(imp.Learner)]
	}
	name, findsUtilities := "", false
	if l != nil && !l.gone {
		name, findsUtilities = l.name, l.cfg.FindsUtilities
	}
	if f := LearnerRefusal(imp, name, findsUtilities); f != nil {
		return nil, g, f
	}
	l, g = dec.trials.give(l, imp, max(effective, dec.time.watermark))
	if l.cfg.Context != nil {
		if f := l.cfg.Context.Read(&dec.reading, imp, l.name); f != nil {
			return nil, g, f
		}
	}
	caps := g.ranks(l).cfg.Caps
	if f := CapsRefusal(imp, caps); f != nil {
		return nil, g, f
	}
	dec.ruled = dec.rules.Read(imp, caps)
	if dec.size = dec.rankingSize(l, imp, &g); dec.size > dec.cfg.MaxRankingBytes {
		return nil, g, faultf(event.RankingTooLarge, "its ranking could take %d bytes, one record takes at most %d", dec.size,
			dec.cfg.MaxRankingBytes)
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
	positionBytes     = 11     // of a shadow's order, or that of the policy before rules
	experimentBytes   = 280    // of an assignment, a verdict included, without names
	escapedByte       = 6      // the most bytes that JSON makes of one
)

// rankingSize returns an upper bound of the ranking's bytes. It is asked before the decision, because a decision may change its learner and
// a refused impression must leave no trace. Only near the limit the size is computed exactly, propensities aside.
func (dec *decider) rankingSize(l *learner, imp *event.Impression, g *assignment) int {
	rest := rankingFixedBytes + escapedByte*(len(dec.cfg.Group)+len(l.name)+len(l.cfg.PolicyName)+len(l.cfg.DelayName)) +
		len(imp.ID)
	bytes := len(imp.ID)
	for i := range imp.Candidates {
		bytes += len(imp.Candidates[i].Item)
	}
	rest += (3 + propensityBytes) * len(imp.Candidates)
	if l.cfg.FindsUtilities {
		rest += rankBytes * len(imp.Candidates)
	}
	if l.delay.Expects() {
		rest += expectedBytes * len(imp.Candidates)
	}
	if dec.ruled {
		rest += positionBytes * len(imp.Candidates)
	}
	if x := g.trial; x != nil {
		rest += experimentBytes + escapedByte*(len(x.Name)+3*x.longest+x.longestShadows)
		rest += len(x.shadows) * (len(`"":[],`) + positionBytes*len(imp.Candidates))
	}
	if rough := rest + escapedByte*bytes; rough <= dec.cfg.MaxRankingBytes {
		return rough
	}
	r := event.Ranking{ID: imp.ID}
	for i := range imp.Candidates {
		r.Items = append(r.Items, imp.Candidates[i].Item)
	}
	return len(event.AppendRanking(nil, &r)) + rest - 3*len(imp.Candidates)
}

// decide ranks a new impression; the result is in dec.ranking. The caller begins its entry, and passes it to fill.
func (dec *decider) decide(l *learner, imp *event.Impression, offset int64, effective event.Millis, g *assignment) {
	dec.internCandidates(l, imp)
	dec.sortCandidates(l)
	as := g.ranks(l)
	key := policy.DecisionKey(as.cfg.Seed, dec.cfg.Salt, as.name, dec.cfg.Partition, offset)
	d := &dec.decision
	d.Ranks, d.Undecided = d.Ranks[:0], d.Undecided[:0]
	base := max(effective, dec.time.watermark)
	about := dec.about(l, base)
	if about != nil {
		l.cfg.Context.Categorise(l.delay, &dec.reading, imp, dec.numbers)
		l.meet(dec.numbers, base)
	}
	g.decideAs(l, dec.candidates, about, key, d)
	decided := dec.rule(l, d)
	dec.segments.loose += eventWeight

	r := &dec.ranking
	r.ID, r.Learner, r.Time = imp.ID, append(r.Learner[:0], as.name...), effective
	r.Items = r.Items[:0]
	for _, k := range d.Order {
		r.Items = append(r.Items, dec.names[dec.order[k]])
	}
	r.Decision = event.Decision{
		Group: dec.cfg.Group, Policy: as.cfg.PolicyName, Delay: as.cfg.DelayName, Partition: dec.cfg.Partition,
		Offset: offset, Layout: DecisionLayout, Began: base, Propensities: d.Propensities, Expected: d.Expected,
		Instance: d.Instance, Explored: d.Explored, Decided: decided,
		Ranks: d.Ranks, Undecided: d.Undecided, Seed: uint64(key), PayoffDeadline: later(base, l.cfg.PayoffHorizon),
	}
	if dec.cfg.HasSelections {
		r.Decision.HasSelection, r.Decision.SelectionDeadline = true, later(base, as.cfg.SelectionTimeout)
	}
	g.write(&r.Decision)
	r.Decision.Shadows = dec.shadow(g, imp, about, offset)
	l.observer.decided(imp, dec.candidates, d, r)
}

// rule puts a decision in the order that rules show, and returns the policy's order, by place shown; empty if no rule can change the ranking.
// Propensities of the policy's rankings are dropped. A learner that can use those of the ranking shown computes them.
func (dec *decider) rule(l *learner, d *delay.Decision) []int32 {
	if !dec.ruled {
		return nil
	}
	from := dec.rules.Show(d.Order, dec.order)
	move(d.Order, &dec.positions, from)
	move(d.Ranks, &dec.positions, from)
	move(d.Expected, &dec.expected, from)
	d.Propensities = d.Propensities[:0]
	l.delay.Reweigh(d)
	return dec.rules.Decided(from)
}

// fill adds the items and the context of the impression just decided to its entry.
func (dec *decider) fill(l *learner, e *entry) {
	d := &dec.decision
	l.carried(dec.numbers, e.began, e.payoffDeadline, dec.segments)
	for _, k := range d.Order {
		e.items = append(e.items, dec.candidates[k])
	}
	dec.keepRanks(l, d, e)
	if l.cfg.Context == nil {
		return
	}
	l.observer.contexts.took(&dec.reading)
	if l.delay.Needs().Context {
		e.beginContext(&dec.reading)
		for _, k := range d.Order {
			e.addContext(&dec.reading, int(dec.order[k]), len(dec.order))
		}
	}
}

// keepRanks keeps the order of an impression with given utilities: until its selection, or as long as its propensities are needed. A learner
// that does not need the candidates needs only the leaders.
func (dec *decider) keepRanks(l *learner, d *delay.Decision, e *entry) {
	needs := l.delay.Needs()
	if l.cfg.FindsUtilities || len(d.Propensities) == 0 && !(dec.cfg.HasSelections && needs.Ranking) {
		return
	}
	e.ranks = append(e.ranks[:0], d.Order...)
	if !needs.Candidates {
		keepLeaders(e.ranks)
	}
}

// sortCandidates sorts the interned candidates by increasing utility, or keeps the record's order if the learner finds utilities.
func (dec *decider) sortCandidates(l *learner) {
	n := len(dec.numbers)
	dec.order = slices.Grow(dec.order[:0], n)[:n]
	dec.candidates = slices.Grow(dec.candidates[:0], n)[:n]
	if !l.cfg.FindsUtilities {
		policy.SortByUtility(dec.order, dec.utilities, dec.names, &dec.work)
	} else {
		for k := range dec.order {
			dec.order[k] = int32(k)
		}
	}
	for k, at := range dec.order {
		dec.candidates[k] = dec.numbers[at]
	}
}

// internCandidates numbers the candidates in the order of the record, so that a replay gives new items the same numbers.
func (dec *decider) internCandidates(l *learner, imp *event.Impression) {
	dec.utilities, dec.names = dec.utilities[:0], dec.names[:0]
	for i := range imp.Candidates {
		dec.utilities = append(dec.utilities, imp.Candidates[i].Utility)
		dec.names = append(dec.names, imp.Candidates[i].Item)
	}
	dec.numbers = dec.intern(l, dec.numbers[:0], dec.names)
}

// intern appends the learner's numbers of items to dst. New items get new numbers.
func (dec *decider) intern(l *learner, dst []policy.Item, names [][]byte) []policy.Item {
	dec.process = dec.cfg.Names.Numbers(dec.process[:0], names)
	for k, process := range dec.process {
		dst = append(dst, l.intern(process, names[k], dec.segments))
	}
	l.grow()
	return dst
}

// intern returns the learner's number of an item, given its process-wide number and its name.
func (l *learner) intern(process int32, name []byte, g *segments) policy.Item {
	i, fresh := l.items.intern(process)
	if fresh {
		g.loose += nameWeight + int64(len(name))
	}
	return i
}

// adopt copies an adopted ranking's items into its entry, and feeds the decision to the learner. imp is nil if the record does not parse.
func (dec *decider) adopt(l *learner, e *entry, r *event.Ranking, imp *event.Impression) {
	d := &dec.decision
	ordered := imp != nil && imp.HasUtilities && !l.cfg.FindsUtilities
	*d = delay.Decision{
		Order: d.Order[:0], Propensities: append(d.Propensities[:0], r.Decision.Propensities...),
		Instance: r.Decision.Instance, Explored: r.Decision.Explored,
		Ranks: append(d.Ranks[:0], r.Decision.Ranks...), Undecided: append(d.Undecided[:0], r.Decision.Undecided...),
		Expected: append(d.Expected[:0], r.Decision.Expected...),
	}
	if imp != nil {
		dec.internCandidates(l, imp)
	}
	e.items = dec.intern(l, e.items, r.Items)
	l.carried(e.items, e.began, e.payoffDeadline, dec.segments)
	l.meet(e.items, e.began)
	if ordered {
		dec.sortCandidates(l)
		if clear(dec.rankOf); dec.rankOf == nil {
			dec.rankOf = make(map[policy.Item]int32, len(r.Items))
		}
		for rank, i := range dec.candidates {
			dec.rankOf[i] = int32(rank)
		}
		for _, i := range e.items {
			d.Order = append(d.Order, dec.rankOf[i])
		}
		dec.keepRanks(l, d, e)
	}
	if imp != nil {
		dec.adoptContext(l, e, imp)
	}
	l.delay.Adopt(r.Decision.Offset, d)
	dec.segments.loose += eventWeight
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

// about returns the context of the impression, with candidates in the order of dec.order; nil if the learner uses items alone. Its deadlines
// are counted from began.
func (dec *decider) about(l *learner, began event.Millis) *policy.Context {
	if l.cfg.Context == nil {
		return nil
	}
	l.cfg.Context.Fill(&dec.context, &dec.reading, dec.order, began)
	return &dec.context
}

// adoptContext takes the context of an adopted impression from its record. An entry whose record has no fitting context has none.
func (dec *decider) adoptContext(l *learner, e *entry, imp *event.Impression) {
	if l.cfg.Context == nil || !l.delay.Needs().Context || !dec.readLeniently(l, imp, dec.numbers) {
		return
	}
	at := make(map[policy.Item]int, len(dec.numbers))
	for k, i := range dec.numbers {
		at[i] = k
	}
	e.beginContext(&dec.reading)
	for _, i := range e.items {
		e.addContext(&dec.reading, at[i], len(dec.numbers))
	}
}

// readLeniently reads the context of an impression, given the learner's numbers of the candidates. Validation of the day does not apply:
// missing numbers count as the middle of their range. It returns false if no context fits.
func (dec *decider) readLeniently(l *learner, imp *event.Impression, numbers []policy.Item) bool {
	lenient := *l.cfg.Context
	lenient.missingZero = true
	if lenient.Read(&dec.reading, imp, l.name) != nil {
		return false
	}
	lenient.Categorise(l.delay, &dec.reading, imp, numbers)
	return true
}

type shadowScratch struct {
	decided []event.Shadow
	place   []int32 // by candidate: its position in the ranking
}

// shadow lets shadows decide, each on its share of impressions and by its rules, and returns their part of the ranking.
func (dec *decider) shadow(g *assignment, imp *event.Impression, about *policy.Context, offset int64) []event.Shadow {
	if g.trial == nil || len(g.trial.shadows) == 0 {
		return nil
	}
	s, shown := &dec.shadows, dec.decision.Order
	s.decided, s.place = s.decided[:0], slices.Grow(s.place[:0], len(shown))[:len(shown)]
	for at, k := range shown {
		s.place[k] = int32(at)
	}
	for i := range g.trial.shadows {
		x := &g.trial.shadows[i]
		seed := x.learner.cfg.Seed
		if u := policy.DecisionKey(^seed, dec.cfg.Salt, x.Name, dec.cfg.Partition, offset); float64(uint64(u)>>11)/(1<<53) >= x.Share {
			continue
		}
		key := policy.DecisionKey(seed, dec.cfg.Salt, x.Name, dec.cfg.Partition, offset)
		g.trial.knowing().delay.(delay.Readable).DecideBy(x.Policy, dec.candidates, about, key, &x.decision)
		if dec.rules.Read(imp, x.learner.cfg.Caps) {
			dec.rules.Reorder(x.decision.Order, dec.order)
		}
		for at, k := range x.decision.Order {
			x.decision.Order[at] = s.place[k]
		}
		s.decided = append(s.decided, event.Shadow{Name: x.Name, Order: x.decision.Order})
	}
	return s.decided
}
