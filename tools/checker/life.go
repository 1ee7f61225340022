package checker

import (
	"math"
	"slices"

	"github.com/cespare/xxhash/v2"

	"github.com/ranker-worker/ranker-worker/config"
	"github.com/ranker-worker/ranker-worker/stream/event"
)

// firstSweep is the number of lives at which the first sweep begins.
const firstSweep = 64

// life returns an id's state, or begins it; nil if the id is not followed.
func (f *fold) life(id []byte, at event.Millis) *life {
	l := f.lives[string(id)]
	key := xxhash.Sum64(id)
	switch {
	case l != nil && f.orderUnknown:
		f.lose(l)
		l.until = max(l.until, at)
		return l
	case l != nil:
		l.until = max(l.until, f.watermark)
		return l
	case f.orderUnknown && f.state.entries[storedID(string(id))] == nil:
		if !f.partial { // else it is not known any more at the end
			f.drifted[key] = max(f.drifted[key], at)
		}
		return nil
	}
	f.sweep()
	l = &life{offset: -1, selected: -1, open: f.orderUnknown, until: at}
	if until, ok := f.drifted[key]; ok {
		l.open = l.open || !f.isOver(until)
		delete(f.drifted, key)
	}
	f.lives[string(id)] = l
	return l
}

// isOver reports whether an id whose last record came then, in unknown order, is certainly over.
func (f *fold) isOver(until event.Millis) bool {
	return f.watermark > max(until, f.resumed)+f.longest
}

// mayBeKnown reports whether an impression of an id may be known. Due ends are
// not carried out: a worker that confirms an earlier refusal does not either.
func (f *fold) mayBeKnown(id []byte) bool {
	if l := f.lives[string(id)]; l != nil {
		return l.open || l.kind == pending && f.watermark <= l.payDeadline+f.longest || l.kind == tombstone && f.watermark <= l.kept.most
	}
	until, ok := f.drifted[xxhash.Sum64(id)]
	return f.orderUnknown || ok && !f.isOver(until)
}

// sweep drops lives that are over and have no stored entry, whenever their number has doubled: constant time per record. A life takes about
// 1 kB with a stored entry of 10 candidates, a third of that without (BenchmarkCheck, "at once"). A dead letter takes 8 bytes, an id of
// unknown order 30.
func (f *fold) sweep() {
	if len(f.lives) < f.sweepAt {
		return
	}
	f.held = max(f.held, int64(len(f.lives)))
	for id, l := range f.lives {
		if f.state.entries[storedID(id)] != nil || f.orderUnknown {
			continue
		}
		if f.settle(l, f.watermark); l.open && f.isOver(l.until) || !l.open && l.kind == 0 && len(l.waits) == 0 {
			delete(f.lives, id)
			f.forgotten++
		}
	}
	f.sweepAt = max(firstSweep, 2*len(f.lives))
}

// anyFate and anyEnd are all possible outcomes of a record, or of a ranked impression.
const (
	anyFate = isTaken | isDuplicate | isLate | isOrphan | isRejected | isParked
	anyEnd  = wasPaid | wasExpired | wasDefaulted | wasUnselected | isPending
)

// lose gives up following a life: its outcomes are not known from now on.
func (f *fold) lose(l *life) {
	if l.open {
		return
	}
	l.open, l.until = true, max(f.watermark, l.payDeadline)
	for i := range l.waits {
		f.count(l.waits[i].topic, anyFate)
		l.until = max(l.until, l.waits[i].since)
	}
	l.waits = nil
	if l.kind == pending {
		f.doubt(l, anyEnd)
	}
}

// doubt counts an impression with an unknown end.
func (f *fold) doubt(l *life, may fate) {
	if l.arm != (armKey{}) {
		made(&f.arms, l.arm).unknown = true
	}
	f.count(event.Impressions, may)
	if lf := l.learner; lf != nil && lf.reset == nil {
		lf.loose = true
		for _, i := range l.items {
			lf.item(i).unknown = true
		}
	}
}

// settle does all that event time has made due.
func (f *fold) settle(l *life, w event.Millis) {
	if l.open {
		return
	}
	switch {
	case l.kind <= parkedOnly:
		f.giveUp(l, w)
		return
	case l.kind == pending && w > l.next():
		f.expire(l)
	}
	if l.kind != tombstone {
		return
	}
	switch {
	case w > l.kept.most:
		*l = life{offset: -1, selected: -1}
	case w > l.kept.least:
		f.lose(l)
	}
}

// giveUp makes orphans of records that waited too long for their impression. The parking time may have changed.
func (f *fold) giveUp(l *life, w event.Millis) {
	doubt := false
	l.waits = slices.DeleteFunc(l.waits, func(r record) bool {
		gone := w > r.since+f.parking.most
		if gone {
			f.count(r.topic, isOrphan)
		}
		doubt = doubt || !gone && w > r.since+f.parking.least
		return gone
	})
	if doubt {
		f.lose(l)
	}
}

// next returns the event time above which a pending impression changes next.
func (l *life) next() event.Millis {
	if l.selected < 0 && l.hasSelection {
		return min(l.selDeadline, l.payDeadline)
	}
	return l.payDeadline
}

func (f *fold) end(l *life, as fate) {
	f.close(l, as)
	f.count(event.Impressions, as)
}

// close makes a pending impression a tombstone: ended at the watermark, or at its
// past deadline, not before it began. It is forgotten at the end of a bucket.
func (f *fold) close(l *life, as fate) {
	f.valued(l, as)
	at := max(l.began, min(f.watermark, l.next()))
	l.kept.least, l.kept.most = math.MaxInt64, 0
	for _, cfg := range f.c.configs {
		until := at + cfg.Join.Remember.Milliseconds()
		if cfg.Join.Remember == config.UntilHorizon {
			until = l.payDeadline + cfg.Join.ParkingTime.Milliseconds()
		}
		until = (bucketFrom(at, until)+1)*bucketWidth - 1
		l.kept.least, l.kept.most = min(l.kept.least, until), max(l.kept.most, until)
	}
	l.kind, l.ends, l.wasSelected = tombstone, as, l.selected >= 0
}

// bucketFrom returns the bucket of a deadline as seen from a time: the number of its last ten seconds.
// Its width is the largest power of two up to 1/256 of the distance, and ten seconds up to an hour ahead.
func bucketFrom(seen, deadline event.Millis) int64 {
	at := max(deadline, 0) / bucketWidth
	ahead := at - max(seen, 0)/bucketWidth
	width := int64(1)
	for ahead > 360 && 2*width <= ahead/256 {
		width *= 2
	}
	return at - at%width + width - 1
}

// expire ends an impression whose deadline is past. Records parked for its selection wait in vain.
func (f *fold) expire(l *life) {
	lf, cfg := l.learner, l.learner.variants[0]
	drop, defaults := lf.onExpiry()
	switch {
	case l.selected < 0 && l.hasSelection:
		lf.attracted(l, -1)
		f.end(l, wasUnselected)
	case l.selected < 0:
		f.end(l, wasExpired)
	case l.count > 0 && lf.reset != nil: // before the reset, or after
		f.end(l, wasPaid|wasExpired)
	case l.count > 0:
		l.paid = normalise(cfg, l.sum)
		lf.take(l, l.items[l.selected], l.paid, true, max(0, l.payDeadline-l.began))
		f.end(l, wasPaid)
	case len(defaults) == 0:
		f.end(l, wasExpired)
	case len(defaults) > 1 || drop || lf.reset != nil:
		f.doubt(l, wasDefaulted|wasExpired)
		f.close(l, wasDefaulted|wasExpired)
	default:
		lf.take(l, l.items[l.selected], defaults[0], true, neverPaid)
		f.end(l, wasDefaulted)
	}
	for i := range l.waits {
		f.count(l.waits[i].topic, isOrphan)
	}
	l.waits = nil
}

// onExpiry returns the possible substitutes of a payoff that never came, over all configurations: none, or normalised defaults.
func (lf *learnerFold) onExpiry() (drop bool, defaults []float64) {
	for _, v := range lf.variants {
		if v.OnExpiry.Default == nil {
			drop = true
		} else if d := normalise(v, *v.OnExpiry.Default); !slices.Contains(defaults, d) {
			defaults = append(defaults, d)
		}
	}
	return drop, defaults
}

// judgeSelection returns the outcome of a selection, and joins it.
func (f *fold) judgeSelection(l *life, r *record) fate {
	switch {
	case l.kind <= parkedOnly:
		return isParked
	case l.kind == tombstone && l.wasSelected:
		return isDuplicate
	case l.kind == tombstone:
		return isLate
	case l.learner.isGone(r):
		return isRejected
	}
	at := slices.Index(l.items, r.item)
	switch {
	case l.selected >= 0 && at < 0 && f.buried(r): // while the entry still had its other items
		return isRejected
	case l.selected >= 0:
		return isDuplicate
	case at < 0:
		return isRejected
	case r.effective > l.next():
		return isLate
	}
	l.pick(at)
	if r.byUtility { // the ranking was not shown
		l.propensities, l.expected, l.ranks, l.undecided, l.ordered = nil, nil, nil, nil, false
		f.leaveOut(l)
		return isTaken
	}
	l.learner.selected(l, at, r)
	return isTaken
}

// pick selects the item at a position. Whether it is learned shows later.
func (l *life) pick(at int) {
	l.selected = at
	if s := l.learner.silence; s != nil {
		s.first = min(s.first, l.began)
	}
}

const maxEventsPerID = 1000

// judgePayoff returns the outcome of a payoff, and applies it.
func (f *fold) judgePayoff(l *life, r *record) fate {
	switch {
	case l.kind <= parkedOnly && !f.selects && r.item == noItem:
		return isRejected
	case l.kind <= parkedOnly:
		return isParked
	case l.kind == tombstone && l.ends == wasPaid && l.learner.variants[0].Aggregate == config.First:
		return isDuplicate
	case l.kind == tombstone:
		return isLate
	}
	at := slices.Index(l.items, r.item)
	switch {
	case f.contradicts(l, r, at):
		return isRejected
	case r.effective > l.payDeadline:
		return isLate
	case l.selected < 0 && l.hasSelection:
		return isParked
	}
	cfg := l.learner.variants[0]
	if cfg.Aggregate == config.Sum && r.event != 0 {
		if _, had := l.events[r.event]; had {
			return isDuplicate
		}
		if len(l.events) >= maxEventsPerID {
			return isRejected
		}
		if l.events == nil {
			l.events = map[uint64]struct{}{}
		}
		l.events[r.event] = struct{}{}
	}
	if l.selected < 0 {
		l.pick(at)
		l.learner.selected(l, at, nil)
	}
	if cfg.Aggregate == config.Sum {
		before, had := normalise(cfg, l.sum), l.count > 0
		l.sum = min(max(l.sum+r.value, -math.MaxFloat64), math.MaxFloat64)
		l.count++
		l.learner.part(l, r, before, had)
		return isTaken
	}
	if f.refusesRange(l.learner, r) {
		f.end(l, wasExpired)
		return isRejected
	}
	l.paid = normalise(cfg, r.value)
	l.learner.take(l, l.items[l.selected], l.paid, false, max(0, r.effective-l.began))
	f.end(l, wasPaid)
	return isTaken
}

// refusesRange reports whether a payoff was refused because it is outside its learner's
// range, which ends its impression. If configurations differ, its dead letter decides.
func (f *fold) refusesRange(lf *learnerFold, r *record) bool {
	if in := lf.variants[0].PayoffRange; r.value >= in.Min && r.value <= in.Max {
		return false
	}
	refuses := func(v *config.Learner) bool { return v.OutOfRange == config.Refuse }
	clamps := func(v *config.Learner) bool { return !refuses(v) }
	return slices.ContainsFunc(lf.variants, refuses) && (!slices.ContainsFunc(lf.variants, clamps) || f.buried(r))
}

// contradicts reports whether a pending impression refuses a payoff for an item shown at a position (-1: not shown).
func (f *fold) contradicts(l *life, r *record, at int) bool {
	switch {
	case l.learner.isGone(r):
		return true
	case r.item == noItem:
		return !l.hasSelection && (l.selected < 0 || !f.selects)
	}
	return at < 0 || l.selected >= 0 && at != l.selected
}

// isGone reports whether the learner of a record's impression was reset before the record's turn.
func (lf *learnerFold) isGone(r *record) bool {
	return lf.reset != nil && r.offset >= lf.reset.Offsets[r.topic]
}

// retry processes waiting records again.
func (f *fold) retry(l *life, t event.Topic) {
	if l.open {
		return
	}
	waited := l.waits
	l.waits = nil
	for i := range waited {
		r := &waited[i]
		may := isParked
		if r.topic == t && t == event.Selections {
			may = f.judgeSelection(l, r)
		} else if r.topic == t {
			may = f.judgePayoff(l, r)
		}
		if may == isParked {
			l.waits = append(l.waits, *r)
			continue
		}
		f.conclude(l, r, may)
	}
}

// conclude counts the outcome of a selection or payoff, and parks one that must wait.
func (f *fold) conclude(l *life, r *record, may fate) {
	switch {
	case may == isRejected:
		f.concludeRefused(r)
	case may == isParked && r.crowded:
		f.count(r.topic, isOrphan)
	case may == isParked:
		r.since = max(r.effective, f.watermark)
		l.waits = append(l.waits, *r)
	default:
		f.count(r.topic, may)
	}
}
