package checker

import (
	"encoding/json"
	"fmt"
	"math"

	"github.com/ranker-worker/ranker-worker/config"
	"github.com/ranker-worker/ranker-worker/stream/event"
)

// rankingsLog reads the rankings in step with the impressions that they answer.
type rankingsLog struct {
	log     *topicLog
	from    int64
	dec     *event.Decoder
	cur     event.Ranking // the next of our group, whose impression has not been met
	at      int64         // its own offset
	has     bool
	highest int64 // offset of the impression that the ranking before answers
	begun   bool
}

func (l *rankingsLog) open(from int64) {
	l.from, l.dec, l.highest = from, event.NewDecoder(event.Limits{}), -1
}

// layout is the latest version of decision records that this program reads.
const layout = 2

// next goes on to the next ranking of our group that answers a later impression than the ones before.
func (l *rankingsLog) next(f *fold) error {
	l.has = false
	for {
		ok, err := l.log.peek()
		if err != nil || !ok {
			return err
		}
		rec := &l.log.cur.Records[l.log.at]
		l.log.at++
		f.read[event.Rankings]++
		f.checkWitness(event.Rankings, l.log)
		id := f.at(event.Rankings, rec.Offset, rec.Key)
		if err := l.dec.Ranking(&l.cur, rec.Value); err != nil {
			if groupOf(rec.Value) != f.c.cfg.Kafka.Group {
				continue
			}
			f.out.ok(rankingsReadable, false)
			f.out.breach(rankingsReadable, id, "a ranking", err.Error())
			continue
		}
		d := &l.cur.Decision
		if d.Group != f.c.cfg.Kafka.Group {
			continue
		}
		f.out.ok(rankingsReadable, true)
		if l.rises(f, id, rec.Offset) {
			l.at, l.has = rec.Offset, true
			if string(rec.Key) != string(l.cur.ID) {
				f.out.breach(rankingsDecision, id, fmt.Sprintf("key %q", l.cur.ID), fmt.Sprintf("%q", rec.Key))
			}
			return nil
		}
	}
}

// groupOf is the group that an undecodable ranking names; others' may be of any layout, or no rankings at all.
func groupOf(value []byte) string {
	var r struct {
		Decision struct {
			Group string `json:"group"`
		} `json:"decision"`
	}
	_ = json.Unmarshal(value, &r) // what cannot be read names nobody
	return r.Decision.Group
}

// rises checks the order, and that no decision which the checkpoint does not cover lies before the place where a replay
// looks for them.
func (l *rankingsLog) rises(f *fold, id any, offset int64) bool {
	d := &l.cur.Decision
	if !f.out.ok(rankingsDecision, d.Partition == f.p && d.Layout >= 1 && d.Layout <= layout) {
		f.out.breach(rankingsDecision, id, fmt.Sprintf("partition %d, layout up to %d", f.p, layout),
			fmt.Sprintf("partition %d, layout %d", d.Partition, d.Layout))
	}
	if !f.out.ok(rankingsOnce, !l.begun || d.Offset != l.highest) {
		f.out.breach(rankingsOnce, id, fmt.Sprintf("one ranking of the impression at offset %d", d.Offset), "another one")
		return false
	}
	if !f.out.ok(rankingsOrder, !l.begun || d.Offset > l.highest) {
		f.out.breach(rankingsOrder, id, fmt.Sprintf("an impression above offset %d", l.highest), fmt.Sprintf("offset %d", d.Offset))
		return false
	}
	l.begun, l.highest = true, d.Offset
	covered := d.Offset < f.state.inputs[event.Impressions].offset
	if !f.out.ok(metaRankings, covered || offset >= f.state.rankings.offset) {
		f.out.breach(metaRankings, id, fmt.Sprintf("at offset %d or later: the checkpoint does not cover its impression", f.state.rankings.offset),
			fmt.Sprintf("offset %d", offset))
	}
	return true
}

// find tells whether the impression at an offset, which rises from call to call, has a ranking: cur.
func (l *rankingsLog) find(f *fold, offset int64) (bool, error) {
	for {
		if !l.has {
			if err := l.next(f); err != nil || !l.has {
				return false, err
			}
		}
		switch d := &l.cur.Decision; {
		case d.Offset == offset:
			l.has = false // it is used up by the caller
			return true, nil
		case d.Offset > offset:
			return false, nil
		}
		if d := &l.cur.Decision; d.Offset < f.topics[event.Impressions].from { // retention has taken the impression
			l.has = false
			continue
		}
		f.out.breach(rankingsDecision, f.at(event.Rankings, l.at, l.cur.ID), "an impression of the log",
			fmt.Sprintf("offset %d, where there is none", l.cur.Decision.Offset))
		l.has = false
	}
}

// drain checks the rankings of impressions beyond the checkpoint.
func (l *rankingsLog) drain(f *fold) error {
	for {
		if err := l.next(f); err != nil || !l.has {
			return err
		}
	}
}

// rankedImpression takes in an impression with its ranking. Without the impression itself, which may be faulty by today's
// limits, the ranking is believed.
func (f *fold) rankedImpression(r *record, id []byte, parsed bool) {
	rk := &f.ranked.cur
	d := &rk.Decision
	name := f.at(event.Impressions, r.offset, id)
	if !f.out.ok(rankingsDecision, string(id) == string(rk.ID)) {
		f.out.breach(rankingsDecision, name, fmt.Sprintf("%q", id), fmt.Sprintf("%q", rk.ID))
	}
	l := f.life(id)
	lf := f.decidedBy(rk.Learner, r.offset)
	switch {
	case l.offset >= 0:
		f.rankedAgain(name, l, d, lf, l.payDeadline+f.parking)
	case l.known:
		f.rankedAgain(name, l, d, lf, l.past.until())
	}
	if l.strays != [event.Inputs]uint16{} {
		f.astray(l)
		l.again, l.strays = true, [event.Inputs]uint16{}
	}
	l.offset, l.learner, l.instance, l.watermark = r.offset, lf, d.Instance, r.watermark
	l.hasSelection, l.selDeadline, l.payDeadline = d.HasSelection, d.SelectionDeadline, d.PayoffDeadline
	l.items = make([]uint32, len(rk.Items))
	for i, item := range rk.Items {
		l.items[i] = f.items.intern(item)
	}
	l.propensities = append([]float64(nil), d.Propensities...)
	l.ranks, l.undecided = append([]int32(nil), d.Ranks...), append([]int32(nil), d.Undecided...)
	l.recorded = len(d.Ranks) > 0
	l.ordered = l.recorded && len(d.Undecided) == 0
	if parsed && f.imp.HasUtilities && lf != nil && lf.given {
		l.ordered = true
		f.order(lf, l)
	}
	if parsed {
		f.checkItems(name, l)
		if lf != nil && len(f.imp.Learner) > 0 {
			equal(f.out, rankingsDecision, name, string(f.imp.Learner), string(rk.Learner))
		}
	}
	if lf == nil {
		f.out.skip("learner %q of %s is in none of the configurations", rk.Learner, name)
		return
	}
	lf.show(l.items)
	f.checkDecision(name, r, lf, d)
	checkPropensities(f.out, name, lf, l, d)
	f.checkAdmissible(name, lf, l)
}

// rankedAgain: an id may be used again when its tombstone is forgotten, because the watermark has passed the deadline and the
// parking time. What the new deadline counts from is no less than the watermark of that moment.
func (f *fold) rankedAgain(name any, l *life, d *event.Decision, lf *learnerFold, known event.Millis) {
	l.again = true
	if lf == nil {
		return
	}
	base := int64(math.MinInt64)
	for _, v := range lf.decided {
		base = max(base, d.PayoffDeadline-v.PayoffHorizon.Milliseconds())
	}
	watermark := f.reach
	if !f.out.ok(rankingsOnce, min(base, watermark) > known) {
		f.out.breach(rankingsOnce, name, fmt.Sprintf("no second ranking: the id was known until %d", known),
			fmt.Sprintf("one of watermark %d at most", min(base, watermark)))
	}
}

// checkItems: what is ranked are the candidates, each once.
func (f *fold) checkItems(name any, l *life) {
	f.items.begin()
	for i := range f.imp.Candidates {
		f.items.mark(f.items.intern(f.imp.Candidates[i].Item))
	}
	seen := 0
	f.items.epoch++
	for _, n := range l.items {
		if f.items.stamp[n] == f.items.epoch-1 {
			f.items.stamp[n] = f.items.epoch
			seen++
		}
	}
	if !f.out.ok(rankingsItems, seen == len(l.items) && seen == len(f.imp.Candidates)) {
		f.out.breach(rankingsItems, name, fmt.Sprintf("its %d candidates, each once", len(f.imp.Candidates)),
			fmt.Sprintf("%d items, of which %d are candidates", len(l.items), seen))
	}
}

// checkDecision holds a decision against the configurations: one of them must fit.
func (f *fold) checkDecision(name any, r *record, lf *learnerFold, d *event.Decision) {
	if !f.out.ok(rankingsDecision, f.ranked.cur.Time >= r.lo && f.ranked.cur.Time <= r.hi) {
		f.out.breach(rankingsDecision, name, fmt.Sprintf("effective time within %d and %d", r.lo, r.hi), fmt.Sprint(f.ranked.cur.Time))
	}
	fits, known := false, false
	for _, v := range lf.decided {
		known = known || d.Policy == string(v.Policy) && d.Delay == string(v.Delay)
		fits = fits || f.deadlinesFit(r, v, d)
	}
	if !f.out.ok(rankingsDecision, known) {
		f.out.breach(rankingsDecision, name, "policy and delay of learner "+lf.name, d.Policy+" and "+d.Delay)
	}
	if !f.out.ok(rankingsDeadlines, fits) {
		v := lf.decided[0]
		f.out.breach(rankingsDeadlines, name, fmt.Sprintf("%v for the selection and %v for the payoff, from within %d and %d on",
			v.SelectionTimeout, v.PayoffHorizon, r.lo, max(r.hi, f.reach)),
			fmt.Sprintf("deadlines %d and %d", d.SelectionDeadline, d.PayoffDeadline))
	}
}

// deadlinesFit: both count from the later of the impression's effective time and the watermark. That was the watermark of
// the owner that decided, which may have died before it saved it: what is stored can be of an owner that adopted the
// decision and has not come so far yet.
func (f *fold) deadlinesFit(r *record, v *config.Learner, d *event.Decision) bool {
	horizon, timeout := v.PayoffHorizon.Milliseconds(), v.SelectionTimeout.Milliseconds()
	base := d.PayoffDeadline - horizon
	if d.PayoffDeadline == event.MaxTime || r.lo == math.MinInt64 {
		return true
	}
	return base >= r.lo && base <= max(r.hi, f.reach) && d.HasSelection == f.selects &&
		(!d.HasSelection || d.SelectionDeadline-timeout == base)
}

// checkPropensities: probabilities of the items shown, which add up to one, where the learner has instances.
func checkPropensities(out *findings, name any, lf *learnerFold, l *life, d *event.Decision) {
	if len(d.Propensities) == 0 {
		// A learner that has yet to find the order of utilities ranks without any.
		if d.Delay == delayBOLD && lf.given && !out.ok(rankingsPropensities, false) {
			out.breach(rankingsPropensities, name, "propensities", "none")
		}
		return
	}
	sum, ok := 0.0, len(d.Propensities) == len(l.items)
	for _, p := range d.Propensities {
		ok = ok && p >= 0 && p <= 1+0x1p-40 // by what rounding leaves
		sum += p
	}
	ok = ok && math.Abs(sum-1) <= 1e-6 && (d.Delay != delayBOLD || d.Instance >= 0)
	if !out.ok(rankingsPropensities, ok) {
		out.breach(rankingsPropensities, name, fmt.Sprintf("%d probabilities that add up to 1, of an instance", len(l.items)),
			fmt.Sprintf("instance %d, sum %v, %v", d.Instance, sum, d.Propensities))
	}
}
