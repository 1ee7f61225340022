package partition

import (
	"errors"
	"maps"
	"slices"

	"github.com/cespare/xxhash/v2"

	"github.com/ranker-worker/ranker-worker/delay"
	"github.com/ranker-worker/ranker-worker/policy"
	"github.com/ranker-worker/ranker-worker/state"
)

// PooledState is what the learners of a process know over all partitions, kept once for all machines of the process: of each learner that
// can share (delay.Sharing) a whole, which is told of what every partition has published, those included that the process owns. A machine
// keeps besides what is its own.
//
// It changes between steps only, from one epoch to the next: whoever tells it must see to it that no machine which was made with it is used
// meanwhile. In between any number of machines may read it.
type PooledState struct {
	names  Names
	wholes map[string]*global
	others bool // there are learners that do not share
	epoch  Epoch
	anew   map[int32]map[string]*policy.Pages[bool] // by source that tells all anew, and hash: the items it has told of
	trials pool

	stand     stand // what is told, which is in the next epoch
	estimates []estimate
}

// estimate is what one of the wholes estimates, of one kind.
type estimate struct {
	of   *global
	kind delay.Estimates
	made uint64 // how often
	last Epoch  // that made it; its At is not set
}

// Epoch says what a PooledState holds.
type Epoch struct {
	// Number is one more than that of the epoch before; the first is 1.
	Number uint64
	// At is by source the checkpoint up to which all that it has published is in it, as a Follower names it. It is not there of sources that
	// are not known whole, such as those never heard of. It must not be changed.
	At map[int32]state.Fence
	// Sources says the same by source, and of one that tells all anew how much of that is in the epoch. It must not be changed.
	Sources []SourceAt
}

// global is a learner that is told of all sources. Its numbers of items are the process's.
type global struct {
	delay.Sharing
	pooled   []delay.Pooled
	has      map[int32]*policy.Pages[bool] // by source, and number: the source has the item
	coming   map[int32]*policy.Pages[bool] // likewise by source that tells all anew: the items it has told of
	met      policy.Pages[int32]           // by number: how many sources have the item
	items    int                           // that any has
	counts   map[int32]int                 // by source: how many items it says that it has, those of which it tells nothing among them
	again    map[int32]int                 // likewise by source that tells all anew
	ended    []int32                       // numbers of items that some source has ended since the last epoch
	arrivals map[int32]arrivals            // by source
}

// NewPooledState makes one in which nothing is known, for machines of these learners and with these names.
func NewPooledState(learners []LearnerConfig, names Names) *PooledState {
	k := &PooledState{names: names, wholes: make(map[string]*global), epoch: Epoch{Number: 1, At: map[int32]state.Fence{}},
		anew: make(map[int32]map[string]*policy.Pages[bool])}
	for i := range learners {
		if l, ok := learners[i].New().(delay.Sharing); ok && l.Shares() {
			l.BeWhole(func(i policy.Item) uint64 { return xxhash.Sum64String(names.Name(i)) })
			k.wholes[learners[i].Name] = &global{Sharing: l, pooled: l.Pooled(), has: make(map[int32]*policy.Pages[bool]),
				coming: make(map[int32]*policy.Pages[bool]), counts: make(map[int32]int), again: make(map[int32]int), arrivals: make(map[int32]arrivals)}
		} else {
			k.others = true
		}
	}
	for _, name := range k.sorted() {
		w := k.wholes[name]
		for kind := delay.Estimates(1); kind <= w.Makes(); kind <<= 1 {
			if w.Makes()&kind != 0 {
				k.estimates = append(k.estimates, estimate{of: w, kind: kind})
			}
		}
	}
	return k
}

// sorted are the names of the wholes.
func (k *PooledState) sorted() []string { return slices.Sorted(maps.Keys(k.wholes)) }

// Others tells whether there are learners that do not share: what is published has to be told to each machine, too (SetSource).
func (k *PooledState) Others() bool { return k.others }

// Epoch is the present one.
func (k *PooledState) Epoch() Epoch {
	return Epoch{k.epoch.Number, maps.Clone(k.epoch.At), slices.Clone(k.epoch.Sources)}
}

// At is the checkpoint up to which a source is known, if it is known whole.
func (k *PooledState) At(source int32) (at state.Fence, known bool) {
	at, known = k.epoch.At[source]
	return at, known
}

// Tell takes in what a source has published. Items must come before the fields that are about them.
func (k *PooledState) Tell(source int32, all []Published) {
	if k.anew[source] != nil {
		k.stand.at(source).Parts++
	}
	for i := range all {
		k.set(source, &all[i])
	}
}

// Reached says that all has been told that a source has published up to a checkpoint, since it was whole.
func (k *PooledState) Reached(source int32, at state.Fence) {
	k.epoch.At[source] = at
	s := k.stand.at(source)
	*s = sourceAt(at)
	s.Whole = true
}

// BeginResync begins to tell all that a source has published up to a checkpoint: with Tell, in parts of PublishedAtOnce, and then Whole. What
// the source told before stays meanwhile.
func (k *PooledState) BeginResync(source int32, at state.Fence) {
	delete(k.epoch.At, source)
	s := k.stand.at(source)
	before := *s
	if *s = sourceAt(at); before.Whole {
		s.Over, s.OverWriter, s.OverSeq = true, before.Writer, before.Seq
	} else {
		s.Over, s.OverWriter, s.OverSeq = before.Over, before.OverWriter, before.OverSeq
	}
	k.anew[source] = make(map[string]*policy.Pages[bool])
	k.trials.begin(source)
	for _, w := range k.wholes {
		w.BeginResync(source)
		w.coming[source] = &policy.Pages[bool]{}
	}
}

// Whole says that a source has told all since Anew, up to a checkpoint: what else it told before is gone.
func (k *PooledState) Whole(source int32, at state.Fence) {
	told := k.anew[source]
	delete(k.anew, source)
	k.trials.whole(source)
	for name, w := range k.wholes {
		w.EndResync(source, func(hash string, i policy.Item) bool {
			about := told[name+":"+hash]
			return about != nil && about.Get(i)
		})
		w.sweepItems(source)
		w.arrivals[source] = w.arrivals[source].ofAll()
		if n, told := w.again[source]; told {
			w.counts[source] = n
		} else {
			delete(w.counts, source)
		}
		delete(w.again, source)
	}
	k.Reached(source, at)
}

// Commit begins the next epoch, with what has been told since the last, and makes the estimates that are due.
func (k *PooledState) Commit() {
	k.told(func(_ *global, due delay.Estimates) delay.Estimates { return due })
}

// ToldAs begins the next epoch as one did at which these estimates were made, as a Sight of SeenEpoch tells, and no others.
func (k *PooledState) ToldAs(made []int) error {
	which := map[*global]delay.Estimates{}
	for _, n := range made {
		if n >= len(k.estimates) {
			return errEstimates
		}
		which[k.estimates[n].of] |= k.estimates[n].kind
	}
	k.told(func(w *global, _ delay.Estimates) delay.Estimates { return which[w] })
	return nil
}

var errEstimates = errors.New("partition: estimates of other learners")

// told begins the next epoch. Which says what is to be estimated of what is due.
func (k *PooledState) told(which func(w *global, due delay.Estimates) delay.Estimates) {
	k.epoch.Number++
	k.epoch.Sources = append(k.epoch.Sources[:0], k.stand...)
	for _, w := range k.wholes {
		w.release()
		made := w.Estimate(which(w, w.Commit(w.count())))
		for n := range k.estimates {
			if e := &k.estimates[n]; e.of == w && made&e.kind != 0 {
				e.made++
				e.last.Number, e.last.Sources = k.epoch.Number, append(e.last.Sources[:0], k.stand...)
			}
		}
	}
}

// Estimates is how often each kind was estimated of what each learner knows of all items and sources together, of those that do, in the
// order of their names.
func (k *PooledState) Estimates() []uint64 {
	all := make([]uint64, len(k.estimates))
	for n := range all {
		all[n] = k.estimates[n].made
	}
	return all
}

// lastAt are the estimates that were made last at an epoch.
func (k *PooledState) lastAt(number uint64) (all []int) {
	for n := range k.estimates {
		if k.estimates[n].last.Number == number {
			all = append(all, n)
		}
	}
	return all
}

// estimating are the learners that estimate, in the order of their names.
func (k *PooledState) estimating() (all []*global) {
	for _, name := range k.sorted() {
		if w := k.wholes[name]; w.Makes() != 0 {
			all = append(all, w)
		}
	}
	return all
}

// TakeEstimates makes learners go by estimates that a Sight of SeenStand tells, until they make their own.
func (k *PooledState) TakeEstimates(told [][]byte) error {
	all := k.estimating()
	if len(told) != len(all) {
		return errEstimates
	}
	for i, w := range all {
		if err := w.TakeEstimate(told[i]); err != nil {
			return err
		}
	}
	return nil
}

func (k *PooledState) set(source int32, pub *Published) {
	if pub.learner == "" && pub.hash == ExperimentsHash {
		k.trials.set(source, string(pub.field), pub.value)
		return
	}
	w := k.wholes[pub.learner]
	if w == nil || len(pub.field) == 0 {
		return
	}
	for _, n := range pub.about.process[:pub.about.n] {
		w.arrivals[source] = w.arrivals[source].add(n)
	}
	switch pub.hash {
	case ItemsHash:
		w.setItem(source, pub)
		return
	case CatalogueHash:
		if k.anew[source] != nil {
			w.again[source] = pub.items
		} else {
			w.counts[source] = pub.items
		}
		return
	}
	if slices.ContainsFunc(w.pooled, func(p delay.Pooled) bool { return p.Hash == pub.hash }) {
		k.mention(source, pub)
		w.SetSourceField(source, pub.hash, pub.field, pub.value, pub.about.inProcess)
	}
}

// count is how many items there are over all sources, as far as that can be known: at least as many as any of them has, for which they have in
// common is told of those only of which there is something to know.
func (w *global) count() int {
	n := w.items
	for _, of := range w.counts {
		n = max(n, of)
	}
	return n
}

// mention notes what a source that tells all anew has told of.
func (k *PooledState) mention(source int32, pub *Published) {
	told := k.anew[source]
	if told == nil || pub.about.n == 0 {
		return
	}
	hash := pub.learner + ":" + pub.hash
	if told[hash] == nil {
		told[hash] = &policy.Pages[bool]{}
	}
	*told[hash].At(pub.about.process[0]) = true
}

func (w *global) setItem(source int32, pub *Published) {
	if pub.sums.Check() != nil {
		return
	}
	n := pub.about.process[0]
	if coming := w.coming[source]; coming != nil {
		*coming.At(n) = !pub.gone
	}
	if pub.gone {
		w.end(source, n)
		return
	}
	if w.has[source] == nil {
		w.has[source] = &policy.Pages[bool]{}
	}
	if has := w.has[source].At(n); !*has {
		*has = true
		met := w.met.At(n)
		if *met++; *met == 1 {
			w.items++
			w.Grow(int(n) + 1)
		}
	}
	w.SetSource(source, n, pub.sums)
}

// end takes in that a source has an item no longer.
func (w *global) end(source, n int32) {
	has := w.has[source]
	if has == nil || !has.Get(n) {
		return
	}
	has.Remove(n)
	w.Ended(source, n)
	w.ended = append(w.ended, n)
	if met := w.met.At(n); *met > 1 {
		*met--
		return
	}
	w.met.Remove(n)
	w.items--
}

// sweepItems ends the items that a source has not told of when it told all anew.
func (w *global) sweepItems(source int32) {
	told, has := w.coming[source], w.has[source]
	delete(w.coming, source)
	if told == nil || has == nil {
		return
	}
	for n, had := range has.All() {
		if *had && !told.Get(n) {
			w.end(source, n)
		}
	}
}

// release gives the memory back of items that no source has any more.
func (w *global) release() {
	for _, n := range w.ended {
		if w.met.Get(n) == 0 {
			w.Release(n)
		}
	}
	w.ended = w.ended[:0]
}

// inProcess gives the process's number of an item that the source numbers theirs.
func (a *about) inProcess(theirs policy.Item) (process policy.Item, ok bool) {
	if at := slices.Index(a.theirs[:a.n], theirs); at >= 0 {
		return a.process[at], true
	}
	return 0, false
}

// share makes a learner part of the whole of its name, if there is one.
func (k *PooledState) share(l *learner, partition int32) {
	if k == nil || k.wholes[l.name] == nil {
		return
	}
	w := k.wholes[l.name]
	l.sharing, l.arrived = l.delay.(delay.Sharing), w.arrivals[partition].end()
	l.sharing.Share(w.Sharing, partition, func(i policy.Item) policy.Item { return l.items.inProcess(i) })
}

// follow goes over to the present epoch, and notes that for a replay. It comes before decisions and before seals that store an estimate.
// Nothing else that lasts depends on the epoch, so those in between leave no trace.
func (m *Machine) follow() {
	k := m.cfg.Pooled
	if k == nil || m.epoch == k.epoch.Number {
		return
	}
	before := m.epoch
	m.epoch, m.shown = k.epoch.Number, k.epoch.Number
	m.turned(before)
	m.refresh()
	m.takeTrials()
}

// show makes learners show the present epoch to who looks at them. A replay, in which nobody looks, comes to the same decisions.
func (m *Machine) show() {
	k := m.cfg.Pooled
	switch {
	case len(m.trials.all) > 0:
		m.follow()
	case k != nil && m.shown != k.epoch.Number:
		m.shown = k.epoch.Number
		m.refresh()
	}
}

// refresh makes learners go by the present state of the wholes that they are parts of.
func (m *Machine) refresh() {
	for _, l := range m.learners {
		if l.sharing != nil && !l.gone {
			m.cfg.Pooled.refresh(l, m.cfg.Partition)
		}
	}
}

// sealsEpoch tells whether a seal would store what is estimated of all partitions, or is followed by how far they are known. A replay is told
// of an epoch where the owner went over to it.
func (m *Machine) sealsEpoch() bool {
	return !m.seen.on || m.seen.standsNext() || slices.ContainsFunc(m.learners, func(l *learner) bool {
		return l.sharing != nil && !l.gone && l.sharing.Unstored()
	})
}
