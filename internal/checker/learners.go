package checker

import (
	"fmt"
	"math"
	"slices"
	"strconv"

	"github.com/ranker-worker/ranker-worker/config"
)

// Ways late payoffs are handled.
const (
	delayQPMD   = "qpmd"
	delayBOLD   = "bold"
	delayDirect = "direct"
)

// learnerFold is what a learner must have been told, by the log, and what Redis has of it.
type learnerFold struct {
	name     string
	variants []*config.Learner // by the configurations that have it, the present one first
	always   bool              // all have it
	unknown  bool              // something depends on the interleaving in ways that are not followed
	delay    string            // the present one
	given    bool              // utilities are given, by all configurations
	windows  []float64         // see windowsOf; nil: not known

	items          []itemFold // by the fold's number
	instances      map[int32]*instanceFold
	selections     int64 // that told of a window, for certain
	openSelections int64

	stored storedLearner
}

// itemFold is what was taken in of an item.
type itemFold struct {
	shown   bool // it was ranked
	unknown bool // see learnerFold
	n       int64
	sum, sq float64 // normalised
	open    int64   // payoffs that may have been taken in
	openSum float64
	openSq  float64
	queue   *queueFold // where Redis has a queue of it
}

// instanceFold is what is known of one BASE instance.
type instanceFold struct {
	fed map[int32]*bound // payoffs, by length of the list (0: whatever it was)
}

// takeOrder is where impression, selection and payoff stand in their topics; -1 where that is not known.
type takeOrder struct{ impression, selection, payoff int64 }

func (o takeOrder) known() bool { return o.impression >= 0 && o.selection >= 0 && o.payoff >= 0 }

// before tells that o was taken in before p, whatever the interleaving: all its records stand before p's.
func (o takeOrder) before(p takeOrder) bool {
	return o.known() && p.known() && o.impression < p.impression && o.selection < p.selection && o.payoff < p.payoff
}

func newLearnerFolds(configs []*config.Config) map[string]*learnerFold {
	all := map[string]*learnerFold{}
	for _, cfg := range configs {
		for i := range cfg.Learners {
			l := &cfg.Learners[i]
			lf := all[l.Name]
			if lf == nil {
				lf = &learnerFold{name: l.Name, delay: string(l.Delay), instances: map[int32]*instanceFold{}}
				all[l.Name] = lf
			}
			lf.variants = append(lf.variants, l)
		}
	}
	for _, lf := range all {
		lf.always = len(lf.variants) == len(configs)
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

func (lf *learnerFold) instance(i int32) *instanceFold {
	f := lf.instances[i]
	if f == nil {
		f = &instanceFold{fed: map[int32]*bound{}}
		lf.instances[i] = f
	}
	return f
}

func (lf *learnerFold) show(items []uint32) {
	for _, i := range items {
		lf.item(i).shown = true
	}
}

// take tells of a payoff taken in, for certain or perhaps.
func (lf *learnerFold) take(l *life, i uint32, v float64, o takeOrder, sure bool) {
	it := lf.item(i)
	if sure {
		it.n++
		it.sum += v
		it.sq += v * v
	} else {
		it.open++
		it.openSum += v
		it.openSq += v * v
	}
	if it.queue != nil {
		it.queue.take(v, o, sure)
	}
	if l.instance >= 0 {
		lf.feed(l, i, sure)
	}
}

// takeSome tells that a payoff of any value may have been taken in.
func (lf *learnerFold) takeSome(l *life, i uint32) {
	it := lf.item(i)
	it.open++
	it.openSum++
	it.openSq++
	if it.queue != nil {
		it.queue.any++
	}
	if l.instance >= 0 {
		lf.feed(l, i, false)
	}
}

// leastPropensity is the least probability that a loss is estimated with.
const leastPropensity = 0x1p-1022

// feed tells of a payoff that was fed to an instance: one whose loss can be estimated.
func (lf *learnerFold) feed(l *life, item uint32, sure bool) {
	at := -1
	for k, i := range l.items {
		if i == item {
			at = k
		}
	}
	length := int32(0)
	if lf.variants[0].LossIndex == config.ByRank {
		length = int32(len(l.items))
	}
	if at < 0 || len(l.propensities) != len(l.items) || l.propensities[at] < leastPropensity {
		return
	}
	in := lf.instance(l.instance)
	b := in.fed[length]
	if b == nil {
		b = &bound{}
		in.fed[length] = b
	}
	b.hi++
	if sure && l.ordered {
		b.lo++
	}
}

// selected tells of a selection for certain. What it tells of windows needs the order of utilities.
func (lf *learnerFold) selected(l *life) {
	if l.ordered {
		lf.selections++
	} else {
		lf.openSelections++
	}
}

// checkLearners compares what the learners have with what they must have been told.
func (f *fold) checkLearners() {
	for _, lf := range f.learners {
		lf.checkItems(f)
		if lf.delay == delayQPMD {
			lf.checkQueues(f)
			lf.checkHold(f)
		}
		if lf.delay == delayQPMD || lf.delay == delayDirect {
			lf.checkFlights(f)
		}
		if lf.delay == delayBOLD {
			lf.checkInstances(f)
		}
		lf.checkWindows(f)
	}
}

// checkItems compares items' sums with the payoffs taken in: all of them, or, with queues, all that do not wait.
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
		if it.open > 0 {
			f.out.open(itemsSums)
		}
		n, sum, sq := s.n, s.sum, s.sq
		if q := it.queue; q != nil {
			for _, v := range q.stored.payoffs {
				n++
				sum += v
				sq += v * v
			}
		}
		ok := n >= it.n && n <= it.n+it.open && atLeast(sum, it.sum, n) && atLeast(it.sum+it.openSum, sum, n) &&
			atLeast(sq, it.sq, n) && atLeast(it.sq+it.openSq, sq, n)
		if !f.out.ok(itemsSums, ok) {
			f.out.breach(itemsSums, lf.name+": "+name, it.said(), fmt.Sprintf("%d payoffs (%d of them waiting), sum %v, of squares %v",
				n, n-s.n, sum, sq))
		}
	}
}

func (it *itemFold) said() string {
	if it.open == 0 {
		return fmt.Sprintf("%d payoffs taken in, sum %v, of squares %v", it.n, it.sum, it.sq)
	}
	return fmt.Sprintf("%d to %d payoffs taken in, sum from %v to %v", it.n, it.n+it.open, it.sum, it.sum+it.openSum)
}

// checkFlights: what is in flight of an item are the pending impressions from which it was selected.
func (lf *learnerFold) checkFlights(f *fold) {
	if !f.state.complete || lf.name == "" {
		return
	}
	flights := map[int64]int64{}
	for _, e := range f.state.entries {
		if e.kind == pending && f.state.learners[e.learner] == lf.name && e.selected >= 0 {
			flights[int64(e.items[e.selected])]++
		}
	}
	lf.compareCounts(f, delayFlights, flights, lf.stored.flights, func(i int64) string { return lf.stored.name(i) })
}

func (lf *learnerFold) compareCounts(f *fold, by law, want, got map[int64]int64, name func(int64) string) {
	if !lf.always {
		f.out.open(by)
		return
	}
	for k, n := range want {
		equal(f.out, by, lf.name+": "+name(k), n, got[k])
	}
	for k, n := range got {
		if _, ok := want[k]; !ok {
			equal(f.out, by, lf.name+": "+name(k), 0, n)
		}
	}
}

// checkInstances: an instance waits for its pending decisions, and knows as many payoffs as it was fed.
func (lf *learnerFold) checkInstances(f *fold) {
	if f.state.complete {
		outstanding := map[int64]int64{}
		for _, e := range f.state.entries {
			if e.kind == pending && f.state.learners[e.learner] == lf.name && e.instance >= 0 {
				outstanding[int64(e.instance)]++
			}
		}
		lf.compareCounts(f, boldOutstanding, outstanding, lf.stored.outstanding, func(i int64) string { return fmt.Sprintf("instance %d", i) })
	}
	if f.partial || lf.unknown || !lf.always {
		f.out.open(boldRounds)
		return
	}
	want := map[string]bound{}
	for number, in := range lf.instances {
		for length, b := range in.fed {
			field := strconv.Itoa(int(number))
			if lf.variants[0].LossIndex == config.ByRank {
				field += ":" + strconv.Itoa(int(length))
			}
			if lf.forgets(number) { // it may have been forgotten when it waited for nothing
				b.lo = 0
			}
			want[field] = *b
		}
	}
	for field := range lf.stored.rounds {
		if _, ok := want[field]; !ok {
			want[field] = bound{}
		}
	}
	for field, b := range want {
		got := lf.stored.rounds[field]
		if b.lo < b.hi {
			f.out.open(boldRounds)
		}
		if !f.out.ok(boldRounds, got >= b.lo && got <= b.hi) {
			f.out.breach(boldRounds, lf.name+": instance "+field, fmt.Sprintf("%d to %d payoffs fed", b.lo, b.hi), fmt.Sprint(got))
		}
	}
}

// forgets tells whether an instance is beyond the bound of some configuration, so that it is forgotten when it has drained.
func (lf *learnerFold) forgets(number int32) bool {
	for _, v := range lf.variants {
		if v.MaxInstances > 0 && int(number) >= v.MaxInstances {
			return true
		}
	}
	return false
}

// checkWindows: each selection whose impression's order of utilities is known told of one window. Whether windows are
// learned is up to the configuration; where they were not always, there are fewer.
func (lf *learnerFold) checkWindows(f *fold) {
	if len(lf.stored.windows) == 0 && lf.delay != delayBOLD || f.partial {
		return
	}
	var told int64
	for _, n := range lf.stored.windows {
		told += n
	}
	least := lf.selections
	for _, v := range lf.variants {
		if !lf.always || !lf.given || !v.Windows.Learned() {
			least = 0
		}
	}
	most := lf.selections + lf.openSelections
	if lf.unknown {
		least, most = 0, math.MaxInt64
	}
	if least < most {
		f.out.open(boldWindows)
	}
	if !f.out.ok(boldWindows, told >= least && told <= most) {
		f.out.breach(boldWindows, lf.name, fmt.Sprintf("%d to %d selections that told of a window", least, most), fmt.Sprint(told))
	}
}
