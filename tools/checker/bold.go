package checker

import (
	"fmt"
	"math"
	"math/bits"
	"slices"
	"strconv"

	"github.com/ranker-worker/ranker-worker/config"
)

// instanceFold is the expected state of a BASE instance.
type instanceFold struct {
	lists map[int32]*listFold // by length of the list; 0: any length
}

// listFold counts the payoffs fed to an instance, for lists of one length or of all.
type listFold struct {
	fed   bound
	open  bool // the order of utilities of some payoffs is not certain
	blind bool // nor is their rank
	began bool // it began with imported values
	at    map[uint32]*coordinate
}

// coordinate is the expected value of an item, or of a utility rank.
type coordinate struct {
	start bool    // known from the beginning
	shown int64   // payoffs fed that concern it: of impressions that showed the item, or of selections of the rank
	sum   float64 // of their estimated losses
	mass  float64 // of those losses' absolute values
}

// Bounds of the estimates: see package policy. A propensity below the least makes no estimate.
const (
	leastPropensity = 0x1p-1022
	mostLoss        = 0x1p256
)

func (lf *learnerFold) byRank() bool { return lf.variants[0].LossIndex == config.ByRank }
func (lf *learnerFold) ftrl() bool   { return lf.variants[0].Policy == config.FTRL }

// feed adds a payoff that was fed to an instance and gives an estimate of the loss.
func (lf *learnerFold) feed(l *life, item uint32, v float64) {
	at := slices.Index(l.items, item)
	length := int32(0)
	if lf.byRank() {
		length = int32(len(l.items))
	}
	if at < 0 || len(l.propensities) != len(l.items) || l.propensities[at] < leastPropensity {
		return
	}
	list := made(&made(&lf.instances, l.instance).lists, length)
	if len(l.items) == 1 { // a list of one teaches nothing
		return
	}
	list.fed.hi++
	if l.ordered || lf.ftrl() && !lf.byRank() {
		list.fed.lo++
	} else {
		list.open = true
	}
	loss := 1 - v
	estimate := min(loss/l.propensities[at], mostLoss)
	switch {
	case lf.byRank() && !l.ordered:
		list.blind = true
	case lf.byRank():
		c := made(&list.at, uint32(l.ranks[at]))
		c.shown++
		c.sum += estimate
		c.mass += estimate
	default: // all items shown are shifted by the loss, so that new ones have no advantage
		for k, i := range l.items {
			c := made(&list.at, i)
			c.shown++
			c.sum -= loss
			c.mass += loss
			if k == at {
				c.sum += estimate
				c.mass += estimate
			}
		}
	}
}

// forgets reports whether an instance exceeds the bound of some configuration, so that it is dropped once it has drained.
func (lf *learnerFold) forgets(number int32) bool {
	for _, v := range lf.variants {
		if v.MaxInstances > 0 && int(number) >= v.MaxInstances {
			return true
		}
	}
	return false
}

// checkInstances compares each instance's outstanding decisions, number of payoffs, and losses.
func (lf *learnerFold) checkInstances(f *fold) {
	if f.state.complete {
		outstanding := map[int64]int64{}
		for _, e := range lf.pending.all {
			if e.instance >= 0 {
				outstanding[int64(e.instance)]++
			}
		}
		compareEach(lf, f, boldOutstanding, outstanding, lf.stored.outstanding, func(i int64) string { return fmt.Sprintf("instance %d", i) })
	}
	if !lf.determined(f, lf.always && !lf.loose, boldRounds, boldVectors) {
		return
	}
	none := &listFold{}
	want := map[string]*listFold{}
	for number, in := range lf.instances {
		for length, list := range in.lists {
			want[lf.instanceField(number, length)] = list
		}
	}
	for field := range either(lf.stored.rounds, lf.stored.blocks) {
		if want[field] == nil {
			want[field] = none
		}
	}
	for field, list := range want {
		number, length, err := cutInstance(field)
		if !f.out.must(delayFields, err == nil && (length > 0) == lf.byRank(), lf.name+": "+field,
			"an instance, with the length of a list where losses belong to ranks", "no such") {
			continue
		}
		forgets := lf.forgets(number) // it may have been dropped while nothing was outstanding
		lf.checkRounds(f, field, list, forgets)
		if forgets {
			f.out.open(boldVectors)
			continue
		}
		lf.checkVector(f, field, length, list)
	}
}

func (lf *learnerFold) instanceField(number, length int32) string {
	field := strconv.Itoa(int(number))
	if lf.byRank() {
		field += ":" + strconv.Itoa(int(length))
	}
	return field
}

// cutInstance reads "<number>" or "<number>:<length>".
func cutInstance(field string) (number, length int32, err error) {
	w := split(field, ":")
	if number = w.number(0); w.more() {
		length = w.number(1)
	}
	return number, length, w.end()
}

func (lf *learnerFold) checkRounds(f *fold, field string, list *listFold, forgets bool) {
	b := list.fed
	if forgets {
		b.lo = 0
	}
	f.out.within(boldRounds, lf.name+": payoffs fed to instance "+field, b, lf.stored.rounds[field])
}

// checkVector compares an instance's vector: with FTRL sums of losses,
// with OSMD a point, of which only the form is a function of the topics.
func (lf *learnerFold) checkVector(f *fold, field string, length int32, list *listFold) {
	got := make(map[uint32]float64, len(lf.stored.vectors[field]))
	for c, x := range lf.stored.vectors[field] {
		if length == 0 {
			c = lf.number(int32(c))
		}
		got[c] = x
	}
	name := lf.name + ": instance " + field
	for c := range got {
		known := list.blind || list.at[c] != nil
		if length > 0 {
			known = c < uint32(length) && (known || !lf.ftrl())
		}
		f.out.must(boldVectors, known, name, "losses of its payoffs alone", "something of "+lf.coordinateName(f, length, c))
	}
	switch {
	case !lf.ftrl():
		lf.checkPoint(f, name, field, length, list, got)
	case list.blind || list.open && length == 0:
		f.out.open(boldVectors)
	default:
		lf.checkLosses(f, name, length, list, got)
	}
}

// checkLosses checks that a rank's value is the sum of estimated losses. For an item it is that sum less the loss itself, if it was a
// candidate of each payoff fed. An item that comes later begins with the median of the others, at an unknown time.
func (lf *learnerFold) checkLosses(f *fold, name string, length int32, list *listFold, got map[uint32]float64) {
	for c, want := range list.at {
		x, known := got[c]
		what := lf.coordinateName(f, length, c)
		sure := length > 0 && want.sum > 0 || length == 0 && want.shown > 0
		if !f.out.must(boldVectors, known || !sure, name, say("%v of %s", want.sum, what), "nothing") {
			continue
		}
		late := !want.start && (list.began || want.shown != list.fed.lo)
		if length == 0 && (late || want.mass >= mostLoss) { // beyond that a sum depends on its truncation
			f.out.open(boldVectors)
			continue
		}
		sum := min(want.sum, mostLoss)
		slack := 1e-12 * (1 + min(want.mass, mostLoss)) * float64(16+want.shown)
		f.out.must(boldVectors, math.Abs(x-sum) <= slack, name, say("%v of %s", sum, what), x)
	}
}

// pointSlack allows for errors of the solver and rounding in a point's sum.
const pointSlack = 1e-6

// checkPoint checks that a point has probabilities, which add up to 1 for the last list
// fed. With a doubled horizon it restarts after 1, 3, 7, … payoffs, and is empty then.
func (lf *learnerFold) checkPoint(f *fold, name, field string, length int32, list *listFold, got map[uint32]float64) {
	rounds := lf.stored.rounds[field]
	doubled, fixed := true, true
	for _, v := range lf.variants {
		doubled, fixed = doubled && v.Eta.Auto, fixed && !v.Eta.Auto
	}
	if restarts := bits.OnesCount64(uint64(rounds)+1) == 1; rounds == 0 || doubled && restarts {
		f.out.must(boldVectors, len(got) == 0, name, say("nothing after %d payoffs: it restarts", rounds), say("%d numbers", len(got)))
		return
	}
	if !doubled && !fixed {
		f.out.open(boldVectors)
		return
	}
	sum, ok := 0.0, true
	for _, x := range got {
		sum += x
		ok = ok && (x == 0 || x >= leastPropensity) && x <= 1+0x1p-40
	}
	size := len(got)
	whole := length > 0
	if whole {
		ok = ok && size == int(length)
	} else if !list.open && !list.began { // was it always the same list?
		whole = true
		for _, c := range list.at {
			whole = whole && c.shown == list.fed.lo
		}
		ok = ok && (!whole || size == len(list.at))
	}
	ok = ok && sum >= 1-pointSlack && (!whole || sum <= 1+pointSlack)
	f.out.must(boldVectors, ok, name, "probabilities of a list, which add up to 1", say("%d that add up to %v", size, sum))
}

func (lf *learnerFold) coordinateName(f *fold, length int32, c uint32) string {
	if length > 0 {
		return fmt.Sprintf("rank %d", c)
	}
	return "item " + f.items.name(c)
}

// vectorBlock is the number of neighbouring coordinates stored together.
const vectorBlock = 32

// loadVector reads a block of a vector, field "<instance>:<block>" or "<instance>:<length>:<block>":
// a bitmap of known coordinates (4 bytes), then their values (8 bytes each), little endian.
func (s *storedLearner) loadVector(k, w *words) {
	instance := k.word()
	if len(k.left) > 1 {
		instance += ":" + k.word()
	}
	_, _, err := cutInstance(instance)
	block := k.number(0)
	c := cursor{b: []byte(w.text())}
	known := c.half()
	if err != nil || k.err != nil || block >= 1<<26 || known == 0 || len(c.b) != 8*bits.OnesCount32(known) {
		w.fail(fmt.Sprintf("%d bytes for %d numbers of a block", len(c.b), bits.OnesCount32(known)))
		return
	}
	if s.vectors[instance] == nil {
		put(&s.vectors, instance, map[uint32]float64{})
	}
	put(&s.blocks, instance, s.blocks[instance]+1)
	for j := range uint32(vectorBlock) {
		if known>>j&1 == 0 {
			continue
		}
		x := c.float()
		if !(math.Abs(x) <= mostLoss) {
			w.fail(fmt.Sprintf("%v is no number of an instance", x))
		}
		s.vectors[instance][uint32(block)*vectorBlock+j] = x
	}
}
