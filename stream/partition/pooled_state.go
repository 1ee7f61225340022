package partition

import (
	"cmp"
	"errors"
	"maps"
	"slices"

	"github.com/cespare/xxhash/v2"

	"github.com/ranker-worker/ranker-worker/delay"
	"github.com/ranker-worker/ranker-worker/policy"
	"github.com/ranker-worker/ranker-worker/state"
)

// PooledState holds the statistics of all partitions, once for all machines of a process. For each learner it has a global one
// (delay.Pooling), fed with the published fields of every partition, the process's own included. A machine keeps only its own statistics.
//
// It changes between steps, from one epoch to the next. Its writer must make sure that no machine using it runs meanwhile. In between any
// number of machines may read it.
type PooledState struct {
	names   Names
	globals map[string]*global
	epoch   Epoch
	resync  map[int32]map[string]*policy.Set // by source under resync, and hash: the items it has sent
	trials  *pool

	stand     stand // published state taken in, which is part of the next epoch
	estimates []estimate
}

// estimate is one kind of estimate of a global learner.
type estimate struct {
	of   *global
	kind delay.Estimates
	last Epoch // the epoch that made it; its At is not set
}

// Epoch identifies the contents of a PooledState.
type Epoch struct {
	// Number rises by 1 from 1.
	Number uint64
	// At maps each source that is known whole to the checkpoint up to which its published fields are included. It must not be changed.
	At map[int32]state.Fence
	// Sources is the progress by source, resyncs included. It must not be changed.
	Sources []SourceAt
}

// global is a learner that is fed by all sources. Its item numbers are the process's.
type global struct {
	delay.Learner
	pooled   []delay.Pooled
	has      map[int32]*policy.Set // by source and number: the source has the item
	coming   map[int32]*policy.Set // likewise, for a source under resync: the items sent so far
	met      policy.Pages[int32]   // by number: how many sources have the item
	items    int                   // items that any source has
	counts   map[int32]int         // by source: the number of its items, those without published sums included
	again    map[int32]int         // likewise, for sources under resync
	ended    []int32               // items that some source has ended since the last epoch
	arrivals map[int32]arrivals    // by source
}

// NewPooledState makes an empty one, for machines with these learners and names.
func NewPooledState(learners []LearnerConfig, names Names) *PooledState {
	k := &PooledState{names: names, globals: make(map[string]*global), epoch: Epoch{Number: 1, At: map[int32]state.Fence{}},
		resync: make(map[int32]map[string]*policy.Set), trials: newPool()}
	for i := range learners {
		l := learners[i].New()
		l.BeGlobal(func(i policy.Item) uint64 { return xxhash.Sum64String(names.Name(i)) })
		k.globals[learners[i].Name] = &global{Learner: l, pooled: l.Pooled(), has: make(map[int32]*policy.Set),
			coming: make(map[int32]*policy.Set), counts: make(map[int32]int), again: make(map[int32]int), arrivals: make(map[int32]arrivals)}
	}
	for _, name := range k.sorted() {
		w := k.globals[name]
		for kind := delay.Estimates(1); kind <= w.Makes(); kind <<= 1 {
			if w.Makes()&kind != 0 {
				k.estimates = append(k.estimates, estimate{of: w, kind: kind})
			}
		}
	}
	return k
}

func (k *PooledState) sorted() []string { return slices.Sorted(maps.Keys(k.globals)) }

func (k *PooledState) Epoch() Epoch {
	return Epoch{k.epoch.Number, maps.Clone(k.epoch.At), slices.Clone(k.epoch.Sources)}
}

// At returns the checkpoint up to which a source is known, if it is known whole.
func (k *PooledState) At(source int32) (at state.Fence, known bool) {
	at, known = k.epoch.At[source]
	return at, known
}

// Update applies a part of a source's published fields. Items must precede the fields about them.
func (k *PooledState) Update(source int32, all []Published) {
	if k.resync[source] != nil {
		k.stand.at(source).Parts++
	}
	for i := range all {
		k.set(source, &all[i])
	}
}

// Reached notes that a whole source's published fields are in up to a checkpoint.
func (k *PooledState) Reached(source int32, at state.Fence) {
	k.epoch.At[source] = at
	s := k.stand.at(source)
	*s = sourceAt(at)
	s.Whole = true
}

// BeginResync begins to read all of a source's published fields as of a checkpoint: with Update, in parts of PublishedAtOnce, and
// then Whole. Earlier fields stay meanwhile.
func (k *PooledState) BeginResync(source int32, at state.Fence) {
	delete(k.epoch.At, source)
	s := k.stand.at(source)
	before := *s
	if *s = sourceAt(at); before.Whole {
		s.Over, s.OverWriter, s.OverSeq = true, before.Writer, before.Seq
	} else {
		s.Over, s.OverWriter, s.OverSeq = before.Over, before.OverWriter, before.OverSeq
	}
	k.resync[source] = make(map[string]*policy.Set)
	k.trials.begin(source)
	for _, w := range k.globals {
		w.BeginResync(source)
		w.coming[source] = &policy.Set{}
	}
}

// Whole ends a resync at a checkpoint: fields not sent since BeginResync are dropped.
func (k *PooledState) Whole(source int32, at state.Fence) {
	mentioned := k.resync[source]
	delete(k.resync, source)
	k.trials.endResync(source)
	for name, w := range k.globals {
		var of string
		about := &policy.Set{} // of this hash
		w.EndResync(source, func(hash string, i policy.Item) bool {
			if hash != of {
				of, about = hash, cmp.Or(mentioned[name+":"+hash], &policy.Set{})
			}
			return about.Has(i)
		})
		w.sweepItems(source)
		w.arrivals[source] = w.arrivals[source].ofAll()
		if n, sent := w.again[source]; sent {
			w.counts[source] = n
		} else {
			delete(w.counts, source)
		}
		delete(w.again, source)
	}
	k.Reached(source, at)
}

// Commit begins the next epoch with all fields applied since the last, and makes the estimates that are due.
func (k *PooledState) Commit() {
	k.advance(func(_ *global, due delay.Estimates) delay.Estimates { return due })
}

// AdvanceAs begins the next epoch with just these estimates, as in an Observation of kind SeenEpoch. It fails on an unknown number.
func (k *PooledState) AdvanceAs(made []int) error {
	which := map[*global]delay.Estimates{}
	for _, n := range made {
		if n >= len(k.estimates) {
			return errEstimates
		}
		which[k.estimates[n].of] |= k.estimates[n].kind
	}
	k.advance(func(w *global, _ delay.Estimates) delay.Estimates { return which[w] })
	return nil
}

var errEstimates = errors.New("partition: estimates of other learners")

// advance begins the next epoch. which returns the estimates to make, of those due.
func (k *PooledState) advance(which func(w *global, due delay.Estimates) delay.Estimates) {
	k.epoch.Number++
	k.epoch.Sources = append(k.epoch.Sources[:0], k.stand...)
	for _, w := range k.globals {
		w.release()
		made := w.Estimate(which(w, w.Commit(w.count())))
		for n := range k.estimates {
			if e := &k.estimates[n]; e.of == w && made&e.kind != 0 {
				e.last.Number, e.last.Sources = k.epoch.Number, append(e.last.Sources[:0], k.stand...)
			}
		}
	}
}

func (k *PooledState) lastAt(number uint64) (all []int) {
	for n := range k.estimates {
		if k.estimates[n].last.Number == number {
			all = append(all, n)
		}
	}
	return all
}

// estimating returns the learners that estimate, in the order of their names.
func (k *PooledState) estimating() (all []*global) {
	for _, name := range k.sorted() {
		if w := k.globals[name]; w.Makes() != 0 {
			all = append(all, w)
		}
	}
	return all
}

// TakeEstimates sets the estimates of an Observation of kind SeenStand, until the learners make their own. all reports whether those of every
// kind are there; of others partitions' learners use their own stored ones.
func (k *PooledState) TakeEstimates(recorded [][]byte) (all bool, err error) {
	learners := k.estimating()
	if len(recorded) != len(learners) {
		return false, errEstimates
	}
	all = true
	for i, w := range learners {
		taken, err := w.TakeEstimate(recorded[i])
		if err != nil {
			return false, err
		}
		all = all && taken == w.Makes()
	}
	return all, nil
}

func (k *PooledState) set(source int32, pub *Published) {
	if pub.learner == "" && pub.hash == ExperimentsHash {
		k.trials.set(source, string(pub.field), pub.value)
		return
	}
	w := k.globals[pub.learner]
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
		if k.resync[source] != nil {
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

// count returns a lower bound of the number of items over all sources: at least that of each source. Items without published sums are
// counted by their source only, so shared ones are not known.
func (w *global) count() int {
	n := w.items
	for _, of := range w.counts {
		n = max(n, of)
	}
	return n
}

func (k *PooledState) mention(source int32, pub *Published) {
	mentioned := k.resync[source]
	if mentioned == nil || pub.about.n == 0 {
		return
	}
	hash := pub.learner + ":" + pub.hash
	if mentioned[hash] == nil {
		mentioned[hash] = &policy.Set{}
	}
	mentioned[hash].Add(pub.about.process[0])
}

func (w *global) setItem(source int32, pub *Published) {
	if pub.sums.Check() != nil {
		return
	}
	n := pub.about.process[0]
	if coming := w.coming[source]; coming != nil {
		if pub.gone {
			coming.Remove(n)
		} else {
			coming.Add(n)
		}
	}
	if pub.gone {
		w.end(source, n)
		return
	}
	if w.has[source] == nil {
		w.has[source] = &policy.Set{}
	}
	if has := w.has[source]; !has.Has(n) {
		has.Add(n)
		met := w.met.At(n)
		if *met++; *met == 1 {
			w.items++
			w.Grow(int(n) + 1)
		}
	}
	w.SetSource(source, n, pub.sums)
}

func (w *global) end(source, n int32) {
	has := w.has[source]
	if has == nil || !has.Has(n) {
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

// sweepItems ends the items that a source did not send in its resync.
func (w *global) sweepItems(source int32) {
	coming, has := w.coming[source], w.has[source]
	delete(w.coming, source)
	if coming == nil || has == nil {
		return
	}
	for n := range has.All() {
		if !coming.Has(n) {
			w.end(source, n)
		}
	}
}

func (w *global) release() {
	for _, n := range w.ended {
		if w.met.Get(n) == 0 {
			w.Release(n)
		}
	}
	w.ended = w.ended[:0]
}

func (a *about) inProcess(theirs policy.Item) (process policy.Item, ok bool) {
	if at := slices.Index(a.theirs[:a.n], theirs); at >= 0 {
		return a.process[at], true
	}
	return 0, false
}

// share connects a learner with the global one of its name, if there is a pooled state.
func (k *PooledState) share(l *learner, partition int32) {
	if k == nil {
		return
	}
	w := k.globals[l.name]
	l.arrived = w.arrivals[partition].end()
	l.delay.Share(w.Learner, partition, func(i policy.Item) policy.Item { return l.items.inProcess(i) })
}

type stand []SourceAt

func (s *stand) at(source int32) *SourceAt {
	if grow := int(source) + 1 - len(*s); grow > 0 {
		*s = append(*s, slices.Repeat([]SourceAt{{}}, grow)...)
	}
	return &(*s)[source]
}

func sourceAt(f state.Fence) SourceAt {
	return SourceAt{Known: true, Writer: WriterOf(f.Token), Seq: f.Seq}
}

// refresh brings a local learner to the present state of its global one.
func (k *PooledState) refresh(l *learner, partition int32) {
	a, before := k.globals[l.name].arrivals[partition], l.arrived
	l.arrived = a.end()
	if before < a.lost {
		l.delay.Refresh(l.items.all())
		return
	}
	l.delay.Refresh(func(yield func(policy.Item) bool) {
		for _, process := range a.items[before-a.lost:] {
			if i, ours := l.items.number(process); ours && !yield(i) {
				return
			}
		}
	})
}
