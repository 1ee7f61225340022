package checker

import (
	"slices"

	"github.com/ranker-worker/ranker-worker/config"
)

func newLearnerFolds(configs []*config.Config) map[string]*learnerFold {
	all := map[string]*learnerFold{}
	for _, cfg := range configs {
		for i := range cfg.Learners {
			l := &cfg.Learners[i]
			lf := all[l.Name]
			if lf == nil {
				lf = &learnerFold{name: l.Name, delay: string(l.Delay),
					intervals: map[string]int64{}, pairs: map[[2]uint32]int64{}, against: map[[2]uint32]int64{}}
				all[l.Name] = lf
			}
			lf.decided = append(lf.decided, l)
			lf.ranks = lf.ranks || looksAtWindows(l)
		}
	}
	for _, lf := range all {
		lf.variants = lf.decided
		lf.always = len(lf.decided) == len(configs)
		lf.windows = windowsOf(lf.variants)
		lf.given = !slices.ContainsFunc(lf.variants, func(v *config.Learner) bool { return v.Utilities != config.Given })
	}
	return all
}

// take adds a payoff: at its turn, or when the expiry walk reached its impression.
// age is its delay from the beginning of the selection's impression, or neverPaid.
func (lf *learnerFold) take(l *life, i uint32, v float64, walked bool, age int64) {
	if lf.reset != nil { // its statistics are gone
		return
	}
	it := lf.item(i)
	if l.offset < it.ended {
		if lf.recency != nil {
			lf.recency.takeEnded(l, v)
		}
		return
	}
	if lf.context != nil { // payoffs are fed in whole units
		v = float64(inParts(v)) / partUnits
	}
	it.n++
	it.sum += v
	it.sq += v * v
	if it.queue != nil {
		it.queue.take(v, walked)
	}
	if l.instance >= 0 {
		lf.feed(l, i, v)
	}
	if lf.silence != nil {
		lf.silence.take(i, l.began, age, v)
	}
	if lf.drift != nil {
		lf.drift.take(i, l.began, v)
	}
	if lf.recency != nil {
		lf.recency.take(l, i, v)
	}
	if lf.context != nil && l.steps != nil {
		lf.context.take(l, i, v)
	}
}

// part adds a partial payoff; before is the sum of earlier ones, if had.
func (lf *learnerFold) part(l *life, r *record, before float64, had bool) {
	if lf.silence == nil || lf.reset != nil {
		return
	}
	now, age := normalise(lf.variants[0], l.sum), max(0, r.effective-l.began)
	if had {
		lf.silence.part(l.began, age, &before, now)
	} else {
		lf.silence.part(l.began, age, nil, now)
	}
}

func (f *fold) checkLearners() {
	for _, e := range f.state.entries {
		if e.kind != pending || f.learners[f.state.learners[e.learner]] == nil {
			continue
		}
		lf := f.learners[f.state.learners[e.learner]]
		lf.pending.all = append(lf.pending.all, e)
		if e.selected >= 0 && !lf.hasEnded(f, e.items[e.selected], e) {
			lf.pending.selected = append(lf.pending.selected, e)
		}
	}
	for _, lf := range f.learners {
		lf.checkItems(f)
		lf.checkKept(f)
		if lf.delay == delayQPMD {
			lf.checkQueues(f)
			lf.checkHold(f)
		}
		if lf.delay == delayQPMD || lf.delay == delayDirect {
			lf.checkFlights(f)
		}
		if lf.delay == delayDirect {
			lf.checkSilence(f)
			lf.checkDrift(f)
			lf.checkContext(f)
			lf.checkLately(f)
			lf.checkAttraction(f)
		}
		if lf.addsUp() {
			lf.checkOpen(f)
		}
		if lf.delay == delayBOLD {
			lf.checkInstances(f)
		}
		lf.checkWindows(f)
		lf.checkPreferences(f)
	}
}

// checkItems compares items' sums with the payoffs fed: all or, with queues, all that do not wait.
func (lf *learnerFold) checkItems(f *fold) {
	for i := range lf.items {
		it := &lf.items[i]
		if _, stored := lf.stored.items[f.items.names[i]]; it.shown {
			f.out.must(itemsCatalogue, stored, lf.name+": "+f.items.names[i], "an entry: it was ranked", "none")
		}
	}
	if !lf.determined(f, true, itemsSums) {
		return
	}
	var none itemFold
	for name, s := range lf.stored.items {
		it := &none
		if i := f.items.intern([]byte(name)); int(i) < len(lf.items) {
			it = &lf.items[i]
		}
		if it.unknown {
			f.out.open(itemsSums)
			continue
		}
		n, sum, sq := s.n, s.sum, s.sq
		if q := it.queue; q != nil {
			for _, v := range q.stored.payoffs {
				n++
				sum += v
				sq += v * v
			}
		}
		f.out.must(itemsSums, n == it.n && near(sum, it.sum, n) && near(sq, it.sq, n), lf.name+": "+name,
			say("%d payoffs taken in, sum %v, of squares %v", it.n, it.sum, it.sq),
			say("%d payoffs (%d of them waiting), sum %v, of squares %v", n, n-s.n, sum, sq))
	}
}

// checkFlights compares an item's selections in flight with the pending impressions.
func (lf *learnerFold) checkFlights(f *fold) {
	if !f.state.complete {
		return
	}
	flights := map[int64]int64{}
	for _, e := range lf.pending.selected {
		flights[e.item()]++
	}
	compareEach(lf, f, delayFlights, flights, lf.stored.flights, lf.stored.name)
}
