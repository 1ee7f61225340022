package checker

import (
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"

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

// storedLearner is what Redis has of a learner.
type storedLearner struct {
	items       map[string]storedItem
	names       []string // by number
	numbers     []uint32 // of the fold, by number
	queues      map[int64]*storedQueue
	flights     map[int64]int64
	hold        string
	outstanding map[int64]int64
	rounds      map[string]int64
	windows     map[string]int64
	learned     string // the estimate of windows
}

type storedItem struct {
	number  int64
	n       int64
	sum, sq float64
}

// hashesOf are the hashes of a learner that can be checked, by its delay.
var hashesOf = map[string][]string{
	delayQPMD:   {"queue", "queues", "flights", "learner", "windows"},
	delayBOLD:   {"instances", "rounds", "vectors", "windows", "learner"},
	delayDirect: {"flights", "windows", "learner"},
}

// load parses what Redis has of the learners. What nothing here can check is said.
func (f *fold) load() {
	for name, fields := range f.state.hashes {
		learner, hash, _ := strings.Cut(name, ":")
		lf := f.learners[learner]
		if lf == nil {
			f.out.skip("hash %q: learner %q is in none of the configurations", name, learner)
			continue
		}
		known := hash == "items"
		for _, h := range hashesOf[lf.delay] {
			known = known || h == hash
		}
		if !known {
			f.out.skip("hash %q (%d fields): not known with delay %s", name, len(fields), lf.delay)
			continue
		}
		if hash != "items" {
			lf.stored.loadHash(f.out, name, hash, fields)
		}
	}
	for _, lf := range f.learners {
		lf.stored.loadItems(f, lf.name, f.state.hashes[lf.name+":items"])
		for number, q := range lf.stored.queues {
			if q.complete(f.out, lf.name, number, lf.stored.name(number)) && number < int64(len(lf.stored.numbers)) {
				lf.item(lf.stored.numbers[number]).queue = newQueueFold(q)
			}
		}
	}
}

// name gives an item's name by its number.
func (s *storedLearner) name(number int64) string {
	if number >= 0 && number < int64(len(s.names)) {
		return s.names[number]
	}
	return fmt.Sprintf("number %d", number)
}

// loadItems parses items: each has a number of its own, from 0 on.
func (s *storedLearner) loadItems(f *fold, learner string, fields map[string]string) {
	out := f.out
	s.items = make(map[string]storedItem, len(fields))
	s.names = make([]string, len(fields))
	s.numbers = make([]uint32, len(fields))
	for name, value := range fields {
		var v struct {
			No         *int64
			N          *int64
			Sum, SumSq *float64
		}
		err := json.Unmarshal([]byte(value), &v)
		ok := err == nil && v.No != nil && v.N != nil && v.Sum != nil && v.SumSq != nil && *v.No >= 0 && *v.No < int64(len(fields)) &&
			s.names[*v.No] == "" && name != ""
		if !out.ok(itemsCatalogue, ok) {
			out.breach(itemsCatalogue, learner+": "+name, fmt.Sprintf("statistics and a number of its own below %d", len(fields)), value)
			continue
		}
		s.items[name] = storedItem{*v.No, *v.N, *v.Sum, *v.SumSq}
		s.names[*v.No] = name
		s.numbers[*v.No] = f.items.intern([]byte(name))
	}
}

// number is the fold's number of an item that Redis numbers so; noItem where there is none.
func (lf *learnerFold) number(stored int32) uint32 {
	if stored >= 0 && int(stored) < len(lf.stored.numbers) && lf.stored.names[stored] != "" {
		return lf.stored.numbers[stored]
	}
	return noItem
}

// loadHash parses one of the learner's own hashes.
func (s *storedLearner) loadHash(out *findings, name, hash string, fields map[string]string) {
	for field, value := range fields {
		var err error
		switch hash {
		case "queue":
			err = s.loadPayoff(field, value)
		case "queues":
			err = s.loadQueue(field, value)
		case "flights":
			err = loadCount(&s.flights, field, value)
		case "instances":
			err = loadCount(&s.outstanding, field, value)
		case "rounds":
			err = loadNamed(&s.rounds, field, value)
		case "windows":
			err = loadNamed(&s.windows, field, value)
		case "learner":
			switch field {
			case "hold":
				s.hold = value
			case "windows":
				s.learned = value
			default:
				out.skip("field %q of hash %q: not known", field, name)
			}
		case "vectors":
			err = s.loadVector(field)
		}
		if !out.ok(delayFields, err == nil) {
			out.breach(delayFields, name+" "+field, "a field as the learner writes it", fmt.Sprintf("%.100q: %v", value, err))
		}
	}
}

func loadCount(into *map[int64]int64, field, value string) error {
	k, err := strconv.ParseInt(field, 10, 64)
	if err != nil || k < 0 {
		return fmt.Errorf("field is no number: %w", err)
	}
	n, err := strconv.ParseInt(value, 10, 64)
	if err != nil || n <= 0 {
		return fmt.Errorf("value is no number above 0: %w", err)
	}
	if *into == nil {
		*into = map[int64]int64{}
	}
	(*into)[k] = n
	return nil
}

func loadNamed(into *map[string]int64, field, value string) error {
	n, err := strconv.ParseInt(value, 10, 64)
	if err != nil || n <= 0 {
		return fmt.Errorf("value is no number above 0: %w", err)
	}
	if *into == nil {
		*into = map[string]int64{}
	}
	(*into)[field] = n
	return nil
}

// loadVector takes only the name of a block of what an instance knows: what it holds depends on the order of the payoffs.
func (s *storedLearner) loadVector(field string) error {
	parts := strings.Split(field, ":")
	for _, p := range parts {
		if n, err := strconv.ParseInt(p, 10, 32); err != nil || n < 0 {
			return fmt.Errorf("field is not numbers with colons between: %w", err)
		}
	}
	if len(parts) < 2 || len(parts) > 3 {
		return fmt.Errorf("field has %d parts", len(parts))
	}
	return nil
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
	if f.partial {
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
		if !lf.always || !v.Windows.Learned() {
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
