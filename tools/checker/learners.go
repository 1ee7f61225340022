package checker

import (
	"slices"

	"github.com/ranker-worker/ranker-worker/config"
)

// The values of a learner's delay.
const (
	delayQPMD   = "qpmd"
	delayBOLD   = "bold"
	delayDirect = "direct"
)

// learnerFold is a learner's expected state, and its stored one.
type learnerFold struct {
	name     string
	decided  []*config.Learner // by the configurations that have it, the present one first: a decision fits one of them
	variants []*config.Learner // those under which it has learned: all, unless it was reset
	reset    *history          // the reset that ended it; nil: it goes on
	always   bool              // all configurations have it
	unknown  bool              // its state cannot be computed
	loose    bool              // some impressions' ends are not known
	delay    string            // the present one
	given    bool              // all configurations give utilities
	windows  []float64         // see windowsOf; nil: not known
	ranks    bool              // its learning depends on the order of utilities
	longest  int               // the longest window counted separately, if windows are learned

	items       []itemFold // by the fold's number
	instances   map[int32]*instanceFold
	intervals   map[string]int64    // selections, by their interval of the user's window
	anyInterval int64               // selections with an unknown interval
	pairs       map[[2]uint32]int64 // selections of the first item below the second
	against     map[[2]uint32]int64 // those of them that contradict a certain order
	rated       map[uint32]*moments // estimates of utilities with selections, by item
	silence     *silenceFold        // nil: not determined
	drift       *driftFold          // likewise
	lately      *latelyFold         // likewise
	context     *contextFold        // likewise
	attraction  map[uint32][]ending // by the item on top; nil: not determined
	kept        *keptFold           // nil: its items are kept for ever
	imported    *storedLearner      // imported values; nil: none

	stored storedLearner
}

// itemFold is an item's expected state.
type itemFold struct {
	shown   bool
	ended   int64 // it ended after the impressions below this offset; 0: never
	unknown bool  // see learnerFold.loose
	n       int64
	sum, sq float64    // normalised
	queue   *queueFold // if Redis has a queue of it
}

func newLearnerFolds(configs []*config.Config) map[string]*learnerFold {
	all := map[string]*learnerFold{}
	for _, cfg := range configs {
		for i := range cfg.Learners {
			l := &cfg.Learners[i]
			lf := all[l.Name]
			if lf == nil {
				lf = &learnerFold{name: l.Name, delay: string(l.Delay), longest: l.Windows.Max, instances: map[int32]*instanceFold{},
					intervals: map[string]int64{}, pairs: map[[2]uint32]int64{}, against: map[[2]uint32]int64{},
					rated: map[uint32]*moments{}}
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

func (lf *learnerFold) item(i uint32) *itemFold {
	for int(i) >= len(lf.items) {
		lf.items = append(lf.items, itemFold{})
	}
	return &lf.items[i]
}

func (lf *learnerFold) show(items []uint32) {
	for _, i := range items {
		lf.item(i).shown = true
	}
}

// take adds a payoff: at its turn, or when the expiry walk reached its impression.
// age is its delay from the beginning of the selection's impression, or neverPaid.
func (lf *learnerFold) take(l *life, i uint32, v float64, walked bool, age int64) {
	if lf.reset != nil { // its statistics are gone
		return
	}
	it := lf.item(i)
	if l.offset < it.ended {
		if lf.lately != nil {
			lf.lately.takeEnded(l, l.began, v)
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
	if lf.lately != nil {
		lf.lately.take(l, i, l.began, v)
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
		if _, stored := lf.stored.items[f.items.names[i]]; it.shown && !f.out.ok(itemsCatalogue, stored) {
			f.out.breach(itemsCatalogue, lf.name+": "+f.items.names[i], "an entry: it was ranked", "none")
		}
	}
	if f.partial || lf.unknown {
		f.out.open(itemsSums)
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
	if !f.state.complete || lf.name == "" {
		return
	}
	flights := map[int64]int64{}
	for _, e := range f.state.entries {
		if e.kind == pending && f.state.learners[e.learner] == lf.name && e.selected >= 0 && !lf.hasEnded(f, e.items[e.selected], e) {
			flights[int64(e.items[e.selected])]++
		}
	}
	compareEach(lf, f, delayFlights, flights, lf.stored.flights, lf.stored.name)
}

// compareEach compares values by item or instance; zero values are not stored.
func compareEach[K, V comparable](lf *learnerFold, f *fold, by law, want, got map[K]V, name func(K) string) {
	var none V
	if !lf.always {
		f.out.open(by)
		return
	}
	for k, n := range want {
		equal(f.out, by, lf.name+": "+name(k), n, got[k])
	}
	for k, n := range got {
		if _, ok := want[k]; !ok {
			equal(f.out, by, lf.name+": "+name(k), none, n)
		}
	}
}
