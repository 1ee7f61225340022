package checker

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/cespare/xxhash/v2"

	"github.com/ranker-worker/ranker-worker/internal/app"
	"github.com/ranker-worker/ranker-worker/stream/event"
)

func newFold(c *checker, p int32, st *state, out *findings) *fold {
	f := &fold{c: c, p: p, state: st, out: out, selects: c.cfg.Kafka.Topics.HasSelections(),
		items: catalogue{numbers: map[string]uint32{}}, lives: map[string]*life{}, drifted: map[uint64]event.Millis{},
		past: map[string][]*learnerFold{}, sweepAt: firstSweep,
	}
	f.limits()
	f.parking.least = math.MaxInt64
	for _, cfg := range c.configs {
		t := cfg.Join.ParkingTime.Milliseconds()
		f.parking.least, f.parking.most = min(f.parking.least, t), max(f.parking.most, t)
		f.longest = max(f.longest, t+bucketWidth, cfg.Join.Remember.Milliseconds()+cfg.Join.Remember.Milliseconds()/256+bucketWidth)
	}
	f.learners = newLearnerFolds(c.configs)
	f.load()
	f.applyHistory()
	for _, lf := range f.learners {
		lf.followSilence()
		lf.followDrift()
		lf.followLately()
		lf.followContext()
		lf.followAttraction(f)
		lf.followKept(f)
	}
	return f
}

// limits makes the decoders. A record that only some configurations accept may have been refused: then it has a dead letter.
func (f *fold) limits() {
	f.formats = app.Formats(f.c.cfg)
	l := f.c.cfg.Limits
	most := event.Limits{MaxCandidates: l.MaxCandidates, MaxRecordBytes: l.MaxRecordBytes}
	least := most
	for _, cfg := range f.c.configs {
		most.MaxCandidates, least.MaxCandidates = max(most.MaxCandidates, cfg.Limits.MaxCandidates), min(least.MaxCandidates, cfg.Limits.MaxCandidates)
		most.MaxRecordBytes, least.MaxRecordBytes = max(most.MaxRecordBytes, cfg.Limits.MaxRecordBytes), min(least.MaxRecordBytes, cfg.Limits.MaxRecordBytes)
	}
	f.dec = event.NewDecoder(most).WithContext()
	if least != most {
		f.strict = event.NewDecoder(least)
	}
}

// refusable reports whether a selection or payoff was refused by the smaller limits.
func (f *fold) refusable(r *record, rec *logged) bool {
	if f.strict == nil || !f.buried(r) {
		return false
	}
	return decodeAs(f.strict, r.topic, rec, f.content(r.topic, rec), &event.Impression{}, &event.Selection{}, &event.Payoff{}) != nil
}

func (f *fold) content(t event.Topic, rec *logged) event.Content {
	return event.Content{Form: f.formats.Of(t, rec.value), Value: rec.value, Plain: rec.plain}
}

// decodeAs decodes a record of a topic.
func decodeAs(d *event.Decoder, t event.Topic, rec *logged, c event.Content, imp *event.Impression, sel *event.Selection, pay *event.Payoff) error {
	switch {
	case rec.fault != nil:
		return rec.fault
	case t == event.Impressions:
		return d.ImpressionIn(imp, rec.key, c)
	case t == event.Selections:
		return d.SelectionIn(sel, rec.key, c)
	}
	return d.PayoffIn(pay, rec.key, c)
}

// run reads and folds all topics.
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
		for _, s := range f.state.skipped[t] {
			if _, buried := slices.BinarySearch(about, s.from); !buried {
				f.out.skip("%s at offset %d: it was read once, and cannot be read any more: its outcome is not known", roles[t], s.from)
				f.partial = true
			}
		}
	}
	f.ranked.log = f.c.read(ctx, f.p, event.Rankings, f.ranked.from, -1)
	f.ranked.log.fences = f.ranked.fence
	for t := range f.topics {
		if tf := &f.topics[t]; tf.on {
			tf.log = f.c.read(ctx, f.p, event.Topic(t), tf.from, tf.to, f.state.skipped[t]...)
		}
	}
	if err := f.merge(); err != nil {
		return err
	}
	return f.ranked.drain(f)
}

// take processes the next record of a topic, with its step if there is one.
func (f *fold) take(t event.Topic, s *step, ranked bool) error {
	defer f.endItems()
	tf := &f.topics[t]
	rec := tf.log.record()
	tf.last = rec.offset
	f.checkWitness(t, rec)
	f.read[t]++
	if f.orderUnknown {
		f.unordered++
	}
	if s.crowded {
		f.crowded[t]++
	}
	r := record{topic: t, offset: rec.offset, item: noItem, crowded: s.crowded, effective: rec.timestamp}
	if rec.skipped { // its content is not known
		f.concludeRefused(&r)
		return nil
	}
	tf.seen = rec.offset
	var at event.Millis
	var has bool
	c := f.content(t, rec)
	err := decodeAs(f.dec, t, rec, c, &f.imp, &f.sel, &f.pay)
	switch t {
	case event.Impressions:
		at, has = f.imp.Time, f.imp.HasTime
	case event.Selections:
		at, has = f.sel.Time, f.sel.HasTime
	default:
		at, has = f.pay.Time, f.pay.HasTime
	}
	switch untimed := r.effective < 0; { // Kafka has no time of it
	case has && err == nil && untimed:
		r.effective = at
	case has && err == nil:
		r.effective = min(r.effective, at)
	case untimed && f.watermark > 0:
		r.effective = f.watermark
	case untimed: // it counts as now
		r.effective = event.MaxTime
	}
	if s.timed {
		r.effective = f.watermark + s.by
	}
	switch {
	case t == event.Impressions && ranked:
		f.rankedImpression(&r, rec, err == nil)
	case t == event.Impressions:
		f.unranked(&r, rec.key, err)
	case err != nil:
		f.concludeRefused(&r)
	default:
		f.feedback(&r, rec)
	}
	return nil
}

// feedback processes a selection or a payoff.
func (f *fold) feedback(r *record, rec *logged) {
	r.hash = xxhash.Sum64(rec.value)
	if r.topic == event.Selections {
		r.item = f.items.intern(f.sel.Item)
		r.value, r.hasUtility, r.byUtility = f.sel.Utility, f.sel.HasUtility, f.sel.ByUtility
	} else {
		r.value = f.pay.Payoff
		if len(f.pay.Item) > 0 {
			r.item = f.items.intern(f.pay.Item)
		}
		if len(f.pay.EventID) > 0 {
			r.event = xxhash.Sum64(f.pay.EventID)
		}
	}
	r.refusable = f.refusable(r, rec)
	l := f.life(rec.key, r.effective)
	switch {
	case l == nil || l.open:
		f.conclude(l, r, anyFate)
	case r.refusable:
		f.settle(l, f.watermark)
		f.conclude(l, r, isRejected)
	case r.topic == event.Selections:
		f.settle(l, f.watermark)
		fate := f.judgeSelection(l, r)
		f.conclude(l, r, fate)
		if fate == isTaken {
			f.retry(l, event.Payoffs)
		}
	default:
		f.settle(l, f.watermark)
		f.conclude(l, r, f.judgePayoff(l, r))
	}
}

// unranked computes the outcome of an impression without a ranking.
func (f *fold) unranked(r *record, id []byte, faulty error) {
	buried := f.buried(r)
	var may fate
	if buried {
		may |= wasRejected
	}
	lf := f.learnerOf(f.imp.Learner)
	refused := faulty != nil || lf == nil || !f.imp.HasUtilities && lf.given
	if !refused && f.mayBeKnown(id) { // else it was refused, whether its id is known or not
		may |= wasDuplicate
	}
	if !f.out.ok(rankingsMissing, may != 0 || f.partial) {
		what := "a ranking"
		if refused {
			what = "a dead letter: " + reason(faulty)
			may = wasRejected
		}
		f.out.breach(rankingsMissing, f.at(event.Impressions, r.offset, id), what, "neither that nor a sign that its id was known")
	}
	f.count(event.Impressions, may)
}

func reason(faulty error) string {
	if faulty == nil {
		return "it has no utilities, or an unknown learner"
	}
	return faulty.Error()
}

func (w *recordRef) String() string {
	return fmt.Sprintf("%s %.64q at offset %d", roles[w.topic], bytes.ToValidUTF8(w.id, []byte{'?'}), w.offset)
}

// learnerOf returns the learner that an impression names; nil if none is configured, or it is not known since when.
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
