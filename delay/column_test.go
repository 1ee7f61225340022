package delay

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/ranker-worker/ranker-worker/policy"
	"github.com/ranker-worker/ranker-worker/policy/words"
)

// tally is a statistic that no learner has. It stands here at one place, as any new statistic does: a type of values, its format,
// and keepColumn.
type tally struct{ n, sum int64 }

func (a tally) Add(b tally) tally { return tally{a.n + b.n, a.sum + b.sum} }

func tallyColumn() column[tally] {
	return newColumn(&policy.Totals[tally]{}, format[tally]{
		hash: "tally", pooled: true,
		append: func(dst []byte, t tally) []byte { return words.Append(dst, ' ', t.n, t.sum) },
		read:   func(r *words.Reader) tally { return tally{r.Int(0, math.MaxInt64), r.Int(0, math.MaxInt64)} },
		equal:  same[tally],
	})
}

// tallying is a partition of a world in which each partition numbers items in its own way.
type tallying struct {
	*Direct
	tally   column[tally]
	store   *store
	source  int32
	numbers []policy.Item // of the world's items, by our number
	own     map[policy.Item]tally
	read    map[string]string // by our number: the fields that others have read
	gone    map[policy.Item]bool
}

const (
	tallied       = 4 // items
	tallyingParts = 3
)

func newTallying() *tallying {
	p := &tallying{Direct: NewDirect(policy.NewGreedy(), Silence{Law: SilenceAtOnce}), tally: tallyColumn(), own: map[policy.Item]tally{},
		read: map[string]string{}, gone: map[policy.Item]bool{}}
	p.keepColumn(&p.tally)
	return p
}

// tallyWorld has three partitions, which read each other, or a global learner that reads all three.
type tallyWorld struct {
	parts  [tallyingParts]*tallying
	global *tallying // nil where they read each other
}

func newTallyWorld(t *rapid.T) *tallyWorld {
	w := &tallyWorld{}
	if rapid.Bool().Draw(t, "shared") {
		w.global = newTallying()
		w.global.numbers = allItems(tallied)
		w.global.BeGlobal(func(i policy.Item) uint64 { return uint64(i) })
		w.global.Grow(tallied)
	}
	for k := range w.parts {
		p := newTallying()
		p.source, p.numbers = int32(k), rapid.Permutation(allItems(tallied)).Draw(t, "numbers")
		w.begin(t, p, nil)
		w.parts[k] = p
	}
	return w
}

// begin makes an empty partition ready, with its stored state.
func (w *tallyWorld) begin(t *rapid.T, p *tallying, stored *store) {
	if w.global != nil {
		p.Share(w.global.Direct, p.source, func(i policy.Item) policy.Item { return p.numbers[i] })
	}
	p.store = newStore(p.Direct)
	if stored == nil {
		p.Grow(tallied)
		require.NoError(t, p.Loaded())
		return
	}
	stored.load(t, tallied, p.Direct)
	p.store.hashes = stored.hashes
}

// readers returns the learners that read a partition.
func (w *tallyWorld) readers(of *tallying) (all []*tallying) {
	if w.global != nil {
		return []*tallying{w.global}
	}
	for _, p := range w.parts {
		if p != of {
			all = append(all, p)
		}
	}
	return all
}

// send gives a reader a field of a partition.
func (p *tallying) send(reader *tallying, field string, value []byte) {
	reader.SetSourceField(p.source, "tally", []byte(field), value, func(theirs policy.Item) (policy.Item, bool) {
		ours := policy.Item(slices.Index(reader.numbers, p.numbers[theirs]))
		return ours, !reader.gone[ours]
	})
}

// publish lets others read a partition's changes, or the whole of it.
func (w *tallyWorld) publish(p *tallying, complete bool) {
	p.store.harvest()
	now := p.store.hashes["tally"]
	for _, reader := range w.readers(p) {
		if complete {
			reader.BeginResync(p.source)
		}
		for field := range p.read {
			if _, there := now[field]; !there && !complete {
				p.send(reader, field, nil)
			}
		}
		for field, value := range now {
			if complete || p.read[field] != value {
				p.send(reader, field, []byte(value))
			}
		}
		if complete {
			reader.EndResync(p.source, func(hash string, i policy.Item) bool {
				_, there := now[fmt.Sprint(slices.Index(p.numbers, reader.numbers[i]))]
				return hash == "tally" && there
			})
		}
	}
	p.read = map[string]string{}
	for field, value := range now {
		p.read[field] = value
	}
}

// reload replaces a partition by one that was loaded from its store.
func (w *tallyWorld) reload(t *rapid.T, p *tallying) {
	p.store.harvest()
	again := newTallying()
	again.source, again.numbers, again.own, again.read, again.gone = p.source, p.numbers, p.own, p.read, p.gone
	w.begin(t, again, p.store)
	require.Empty(t, again.store.harvest(), "what was loaded needs no writing")
	w.parts[p.source] = again
	if w.global != nil {
		return
	}
	for _, other := range w.readers(again) {
		for field, value := range other.read {
			other.send(again, field, []byte(value))
		}
	}
}

// readOf returns a partition's value of one of the world's items, as others have read it.
func (p *tallying) readOf(item policy.Item) (s tally) {
	if value, there := p.read[fmt.Sprint(slices.Index(p.numbers, item))]; there {
		s, _ = p.tally.parse([]byte(value))
	}
	return s
}

func (w *tallyWorld) check(t *rapid.T) {
	for _, p := range w.parts {
		for i := range policy.Item(tallied) {
			if p.gone[i] {
				continue
			}
			want := p.own[i]
			require.Equal(t, want, p.tally.Own(i))
			if w.global != nil {
				require.Equal(t, want != p.readOf(p.numbers[i]), p.differs(i))
			}
			for _, other := range w.parts {
				if other != p {
					want = want.Add(other.readOf(p.numbers[i]))
				}
			}
			require.Equal(t, want, p.tally.Pooled(i), "the own value, and those of others as they were read")
		}
	}
}

// A column's pooled values are the sums of the partitions' own, in any order of changes, readings and losses. A loaded one is as the
// stored one, and a merged one has the sums of own values. Of a removed item, and of one that is zero again, nothing is stored.
func TestColumn_PooledIsTheSumOfOwn(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newTallyWorld(t)
		part := func(t *rapid.T) *tallying { return w.parts[rapid.IntRange(0, tallyingParts-1).Draw(t, "partition")] }
		item := func(t *rapid.T, p *tallying) policy.Item {
			i := rapid.Int32Range(0, tallied-1).Draw(t, "item")
			if p.gone[i] {
				t.Skip("it is gone")
			}
			return i
		}
		count := func(t *rapid.T) {
			p := part(t)
			i := item(t, p)
			s := tally{1, rapid.Int64Range(0, 9).Draw(t, "sum")}
			if own := p.own[i]; rapid.Bool().Draw(t, "back to zero") {
				s = tally{-own.n, -own.sum}
			}
			p.tally.AddOwn(i, s, 1)
			p.own[i] = p.own[i].Add(s)
		}
		t.Repeat(map[string]func(*rapid.T){
			"count": count, "count again": count,
			"publish": func(t *rapid.T) { w.publish(part(t), false) },
			"resync":  func(t *rapid.T) { w.publish(part(t), true) },
			"reload":  func(t *rapid.T) { w.reload(t, part(t)) },
			"remove": func(t *rapid.T) {
				p := part(t)
				i := item(t, p)
				p.Forget(i)
				delete(p.own, i)
				p.gone[i] = true
				p.store.harvest()
				require.NotContains(t, p.store.hashes["tally"], fmt.Sprint(i))
			},
			"": w.check,
		})
		merged, sums := newTallying(), map[policy.Item]tally{}
		merged.Grow(tallied)
		for _, p := range w.parts {
			p.store.harvest()
			stored := 0
			for i, own := range p.own {
				if sums[p.numbers[i]] = sums[p.numbers[i]].Add(own); own != (tally{}) {
					stored++
				}
			}
			require.Len(t, p.store.hashes["tally"], stored)
			require.NoError(t, Merge(merged, p.Direct, p.numbers, Portion{Additive: true}, func(policy.Item) {}))
		}
		for i := range policy.Item(tallied) {
			require.Equal(t, sums[i], merged.tally.Own(i))
		}
	})
}
