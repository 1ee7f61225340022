package checker

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/ranker-worker/ranker-worker/config"
	"github.com/ranker-worker/ranker-worker/stream/event"
	"github.com/ranker-worker/ranker-worker/stream/task"
)

// rankingsLog reads the rankings in step with their impressions.
type rankingsLog struct {
	log     *topicLog
	from    int64
	dec     *event.Decoder
	cur     event.Ranking
	steps   []byte // its header; nil: none
	at      int64  // its own offset
	highest int64  // offset of the last ranking's impression
	begun   bool
	beyond  bool  // its impression is beyond the checkpoint
	order   int64 // number of the order record it is; 0: it is a ranking
	orders  int64 // number of the last order record

	witnessed bool           // the state's witness is a record of the log
	producers map[int64]bool // of owners of the partition
	foreign   int64          // rankings of the group by other producers
}

func (l *rankingsLog) open(from int64, producers []int64) {
	l.from, l.dec, l.highest, l.producers = from, event.NewDecoder(event.Limits{}), -1, map[int64]bool{}
	for _, p := range producers {
		l.producers[p] = true
	}
}

// fence notes the producer of a marker: a fence leaves one for each producer of an owner.
func (l *rankingsLog) fence(m task.Marker) {
	if m.Abort {
		l.producers[m.Producer.ID] = true
	}
}

// layout is the version of decision records that this program reads.
const layout = 1

// next moves to our group's next ranking that answers a later impression than the last, within the checkpoint; false if there is none.
func (l *rankingsLog) next(f *fold) (bool, error) {
	for !l.beyond {
		ok, err := l.log.peek()
		if err != nil || !ok {
			return false, err
		}
		rec := l.log.record()
		f.read[event.Rankings]++
		f.checkWitness(event.Rankings, rec)
		id := f.at(event.Rankings, rec.offset, rec.key)
		l.order = 0
		foreign := rec.transactional || !l.producers[rec.producer]
		if n, ok := orderNumber(rec, f.c.cfg.Kafka.Group, f.p); ok {
			if foreign {
				l.foreign++
				continue
			}
			if !f.out.must(rankingsOrder, n > l.orders, id, say("an order record above number %d", l.orders), n) {
				continue
			}
			l.orders = n
			covered := n <= f.state.orders
			f.checkPosition(id, covered, rec.offset)
			l.at, l.steps, l.order = rec.offset, rec.steps, n
			l.beyond = !covered
			return covered, nil
		}
		faulty := l.dec.Ranking(&l.cur, rec.value)
		group := l.cur.Decision.Group
		if faulty != nil {
			group = groupOf(rec.value)
		}
		if group != f.c.cfg.Kafka.Group {
			continue
		}
		if foreign {
			l.foreign++
			continue
		}
		if !f.out.must(rankingsReadable, faulty == nil, id, "a ranking", faulty) {
			continue
		}
		if !l.rises(f, id, rec.offset) {
			continue
		}
		l.at, l.steps = rec.offset, rec.steps
		if string(rec.key) != string(l.cur.ID) {
			f.out.breach(rankingsDecision, id, fmt.Sprintf("key %q", l.cur.ID), fmt.Sprintf("%q", rec.key))
		}
		l.beyond = l.cur.Decision.Offset >= f.state.inputs[event.Impressions].offset
		return !l.beyond, nil
	}
	return false, nil
}

// orderNumber returns an order record's number: its key is "<group>-<partition>/<number>", its value null.
func orderNumber(rec *logged, group string, p int32) (n int64, ok bool) {
	if rec.value != nil {
		return 0, false
	}
	digits, ok := strings.CutPrefix(string(rec.key), fmt.Sprintf("%s-%d/", group, p))
	if n, err := strconv.ParseInt(digits, 10, 64); ok && err == nil && n > 0 {
		return n, true
	}
	return 0, false
}

// groupOf returns the group in an undecodable ranking; other groups' may have any format.
func groupOf(value []byte) string {
	var r struct {
		Decision struct {
			Group string `json:"group"`
		} `json:"decision"`
	}
	_ = json.Unmarshal(value, &r) // an unreadable value names no group
	return r.Decision.Group
}

// rises checks the order of offsets, and that decisions beyond the checkpoint are at or above the position where a replay reads.
func (l *rankingsLog) rises(f *fold, id any, offset int64) bool {
	d := &l.cur.Decision
	if !f.out.ok(rankingsDecision, d.Partition == f.p && d.Layout == layout) {
		f.out.breach(rankingsDecision, id, fmt.Sprintf("partition %d, layout %d", f.p, layout),
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
	f.checkPosition(id, covered, offset)
	return true
}

// checkPosition checks that a replay reads a ranking or order record that the checkpoint does not cover.
func (f *fold) checkPosition(id any, covered bool, offset int64) {
	if !f.out.ok(metaRankings, covered || offset >= f.state.rankings.offset) {
		f.out.breach(metaRankings, id, say("at offset %d or later: the checkpoint does not cover it", f.state.rankings.offset), offset)
	}
}

// drain checks the rankings of impressions beyond the checkpoint.
func (l *rankingsLog) drain(f *fold) error {
	for {
		ok, err := l.log.peek()
		if err != nil || !ok {
			return err
		}
		l.beyond = false
		if _, err := l.next(f); err != nil {
			return err
		}
	}
}

// rankedImpression processes an impression with its ranking. If the impression
// is faulty under all configurations' limits, the ranking is believed.
func (f *fold) rankedImpression(r *record, rec *logged, parsed bool) {
	rk, id := &f.ranked.cur, rec.key
	d := &rk.Decision
	name := f.at(event.Impressions, r.offset, id)
	if !f.out.ok(rankingsDecision, string(id) == string(rk.ID)) {
		f.out.breach(rankingsDecision, name, fmt.Sprintf("%q", id), fmt.Sprintf("%q", rk.ID))
	}
	l := f.life(id, d.PayoffDeadline)
	followed := l != nil
	if !followed {
		l = &life{open: true}
	}
	f.settle(l, f.watermark)
	if !f.out.ok(rankingsOnce, l.open || l.kind <= parkedOnly) {
		f.out.breach(rankingsOnce, name, fmt.Sprintf("no second ranking: the id was known until %d", l.kept.least),
			fmt.Sprintf("one at watermark %d", f.watermark))
		f.lose(l)
	}
	lf := f.decidedBy(f.fedBy(rk), r.offset)
	f.begin(l, lf, d)
	f.enrol(name, l, d)
	f.carry(lf, l, parsed) // while candidates are in the record's order, as their contexts are
	if parsed && f.readByAll(rec) {
		f.see(l)
	}
	if parsed && lf != nil {
		checkRules(f, name, f.decidedBy(rk.Learner, r.offset), d)
	}
	if parsed && f.imp.HasUtilities && lf != nil && lf.given && f.readByAll(rec) {
		l.ordered = true
		f.order(lf, l)
	}
	if lf != nil && lf.context != nil && l.steps == nil {
		lf.loose = true
	}
	if parsed {
		f.checkItems(name, l)
		f.checkArm(name, rk)
	}
	if lf == nil {
		f.out.skip("learner %q of %s is in none of the configurations", rk.Learner, name)
	} else {
		lf.show(l.items)
		f.checkDecision(name, r, f.decidedBy(rk.Learner, r.offset), d, parsed)
		checkPropensities(f.out, name, lf, l, d)
		f.checkAdmissible(name, lf, l)
	}
	switch {
	case l.open:
		f.doubt(l, anyEnd)
	case lf == nil || !lf.always:
		f.lose(l)
	}
	f.retry(l, event.Selections)
	f.retry(l, event.Payoffs)
}

// readByAll reports whether all configurations can read an impression. An adoption of an unread one does not know the order of utilities.
func (f *fold) readByAll(rec *logged) bool {
	return f.strict == nil || f.strict.Impression(&event.Impression{}, rec.key, rec.value) == nil
}

// begin makes the current ranking's impression pending.
func (f *fold) begin(l *life, lf *learnerFold, d *event.Decision) {
	rk := &f.ranked.cur
	*l = life{open: l.open, until: max(l.until, d.PayoffDeadline), waits: l.waits, selected: -1,
		kind: pending, offset: d.Offset, learner: lf, instance: d.Instance, began: d.Began,
		hasSelection: d.HasSelection, selDeadline: d.SelectionDeadline, payDeadline: d.PayoffDeadline,
		items: make([]uint32, len(rk.Items)), expected: slices.Clone(d.Expected),
		ranks: slices.Clone(d.Ranks), undecided: slices.Clone(d.Undecided),
		recorded: len(d.Ranks) > 0, ordered: len(d.Ranks) > 0 && len(d.Undecided) == 0}
	if len(d.Undecided) == 0 { // those of a guess are not learned from
		l.propensities = slices.Clone(d.Propensities)
	}
	for i, item := range rk.Items {
		l.items[i] = f.items.intern(item)
	}
}

func (f *fold) carry(lf *learnerFold, l *life, parsed bool) {
	if lf == nil || lf.kept == nil {
		return
	}
	items := l.items
	if parsed {
		items = make([]uint32, len(f.imp.Candidates))
		for i := range f.imp.Candidates {
			items[i] = f.items.intern(f.imp.Candidates[i].Item)
		}
	}
	lf.kept.carry(items, l, l.began)
}

// checkItems checks that the ranked items are the candidates, each once.
func (f *fold) checkItems(name any, l *life) {
	seen := 0
	f.items.epoch += 2
	for i := range f.imp.Candidates {
		n := f.items.intern(f.imp.Candidates[i].Item)
		f.items.stamp[n] = f.items.epoch - 1
	}
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

// clockBound is how far ahead of now a record's own time is believed, in milliseconds.
const clockBound = 300_000

// checkDecision checks that a decision fits one of the configurations. The
// effective time of a record dated too far ahead is known from its ranking only.
func (f *fold) checkDecision(name any, r *record, lf *learnerFold, d *event.Decision, parsed bool) {
	at := f.ranked.cur.Time
	if !f.out.ok(rankingsDecision, at == r.effective || at < r.effective-clockBound || !parsed && at < r.effective) {
		f.out.breach(rankingsDecision, name, fmt.Sprintf("effective time %d", r.effective), fmt.Sprint(at))
	}
	fits, known := false, false
	for _, v := range lf.decided {
		known = known || d.Policy == string(v.Policy) && d.Delay == string(v.Delay)
		fits = fits || f.deadlinesFit(at, v, d)
	}
	f.out.must(rankingsDecision, known, name, "policy and delay of learner "+lf.name, d.Policy+" and "+d.Delay)
	if !f.out.ok(rankingsDeadlines, fits) {
		v := lf.decided[0]
		f.out.breach(rankingsDeadlines, name, fmt.Sprintf("%v for the selection and %v for the payoff, from %d on, at watermark %d",
			v.SelectionTimeout, v.PayoffHorizon, at, f.watermark),
			fmt.Sprintf("from %d on, deadlines %d and %d", d.Began, d.SelectionDeadline, d.PayoffDeadline))
	}
}

// deadlinesFit checks that both deadlines count from the later of the impression's effective time and the watermark.
func (f *fold) deadlinesFit(at event.Millis, v *config.Learner, d *event.Decision) bool {
	began := max(at, f.watermark)
	if f.orderUnknown { // the watermark is not known
		began = d.Began
	}
	return began >= at && d.Began == began && d.HasSelection == f.selects &&
		d.PayoffDeadline == later(began, v.PayoffHorizon) &&
		(!d.HasSelection || d.SelectionDeadline == later(began, v.SelectionTimeout))
}

func later(t event.Millis, by time.Duration) event.Millis {
	d := min(by.Milliseconds(), event.MaxTime)
	return min(t, event.MaxTime-d) + d
}

// checkPropensities checks for probabilities that add up to 1, if the learner has instances or is robust.
func checkPropensities(out *findings, name any, lf *learnerFold, l *life, d *event.Decision) {
	if len(d.Propensities) == 0 {
		// A learner that does not know the order of utilities yet ranks without any, and BOLD where rules bear.
		if (d.Delay == delayBOLD && len(d.Decided) == 0 || d.Policy == string(config.Robust)) && lf.given && !out.ok(rankingsPropensities, false) {
			out.breach(rankingsPropensities, name, "propensities", "none")
		}
		return
	}
	sum, ok := 0.0, len(d.Propensities) == len(l.items)
	for _, p := range d.Propensities {
		ok = ok && p >= 0 && p <= 1+0x1p-40 // up to rounding
		sum += p
	}
	ok = ok && math.Abs(sum-1) <= 1e-6 && (d.Delay != delayBOLD || d.Instance >= 0) && (len(d.Decided) == 0 || d.Delay != delayBOLD)
	if !out.ok(rankingsPropensities, ok) {
		out.breach(rankingsPropensities, name, fmt.Sprintf("%d probabilities that add up to 1, of an instance", len(l.items)),
			fmt.Sprintf("instance %d, sum %v, %v", d.Instance, sum, d.Propensities))
	}
}

func (lf *learnerFold) show(items []uint32) {
	for _, i := range items {
		lf.item(i).shown = true
	}
}
