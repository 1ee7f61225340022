package partition

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/ranker-worker/ranker-worker/delay"
	"github.com/ranker-worker/ranker-worker/policy"
	"github.com/ranker-worker/ranker-worker/state"
	"github.com/ranker-worker/ranker-worker/stream/event"
)

// thompsonAtOnce makes learners whose decisions hang on all that is known of an item and of all items, and on no pass.
func thompsonAtOnce(t require.TestingT) func() delay.Learner {
	p, err := policy.NewThompson(policy.Belief{Sigma: 0.5, EstimateSigma: true, Prior: policy.EmpiricalPrior})
	require.NoError(t, err)
	return func() delay.Learner { return delay.NewDirect(p, delay.Silence{Law: delay.SilenceAtOnce}) }
}

// peers are the partitions of a process, each as two machines. One shares the process's PooledState. The other has a PooledState of its
// own, which reads all published fields one by one as they arrive.
type peers struct {
	t           *rapid.T
	cfg         Config
	knowledge   *PooledState
	reader      *PublishedReader
	with, alone []*world
	aloneState  []*PooledState
	aloneReader []*PublishedReader
	published   [2][][]state.Field   // by machines that share and those that do not, and by partition: published fields that have arrived, the newest of each
	onTheWay    [][][2][]state.Field // by partition and checkpoint: published fields that have not arrived, of both
	seq         []int64
	broken      rule // not kept
}

// rule is a rule that PooledState depends on.
type rule string

const (
	gapsAreNoticed    rule = "a source with a gap is read again"
	goneIsGone        rule = "fields missing from a resync are dropped"
	sourcesAreApart   rule = "a field counts as its source's"
	epochsAreFollowed rule = "machines go over to the present epoch"
)

func newPeers(t *rapid.T, n int, broken rule) *peers {
	cfg := testConfig()
	cfg.ParkingTime = day
	cfg.Learners[0].New = thompsonAtOnce(t)
	names := NewNameTable()
	ps := &peers{t: t, cfg: cfg, knowledge: NewPooledState(cfg.Learners, names), reader: NewPublishedReader(cfg.Learners, names),
		published: [2][][]state.Field{make([][]state.Field, n), make([][]state.Field, n)}, onTheWay: make([][][2][]state.Field, n), seq: make([]int64, n), broken: broken}
	for p := range int32(n) {
		c := cfg
		c.Partition = p
		names := NewNameTable()
		c.Pooled = NewPooledState(cfg.Learners, names)
		ps.aloneState, ps.aloneReader = append(ps.aloneState, c.Pooled), append(ps.aloneReader, NewPublishedReader(cfg.Learners, names))
		ps.alone = append(ps.alone, newWorld(t, c))
		c.Pooled = ps.knowledge
		ps.with = append(ps.with, newWorld(t, c))
	}
	return ps
}

// publish seals a partition's changes and publishes them.
func (ps *peers) publish(p int) {
	var fields [2][]state.Field
	ps.seq[p]++
	for k, w := range []*world{ps.with[p], ps.alone[p]} {
		var c state.Changes
		segment, _ := w.m.Seal(&c)
		w.m.Forget(segment)
		w.m.Saved(segment, state.Fence{Token: "t", Seq: ps.seq[p]})
		w.store.apply(&c)
		w.unsaved = nil
		fields[k] = published(&c)
	}
	ps.onTheWay[p] = append(ps.onTheWay[p], fields)
}

// arrive lets the oldest checkpoint of a partition arrive, at the machines that do not share too.
func (ps *peers) arrive(p int) (shared []state.Field) {
	fields := ps.onTheWay[p][0]
	ps.onTheWay[p] = ps.onTheWay[p][1:]
	for k := range fields {
		all := &ps.published[k][p]
		for _, f := range fields[k] {
			*all = slices.DeleteFunc(*all, func(o state.Field) bool { return o.Hash == f.Hash && string(o.Field) == string(f.Field) })
			if f.Value != nil {
				*all = append(*all, f)
			}
		}
	}
	for to, r := range ps.aloneReader {
		for _, pub := range r.Read(int32(p), fields[1], ps.failed) {
			ps.aloneState[to].Update(int32(p), []Published{pub})
			ps.aloneState[to].Commit()
		}
	}
	return fields[0]
}

func (ps *peers) failed(err error) { require.NoError(ps.t, err) }

// advance begins the next epoch with the published fields that arrive, all
// but the newest checkpoints: delta by delta, or by a resync after a loss.
func (ps *peers) advance(lost func() bool, late func(most int) int) {
	reached := make([]int64, len(ps.with))
	for p := range ps.with {
		left := late(len(ps.onTheWay[p]))
		reached[p] = ps.seq[p] - int64(left)
		source, at := int32(p), state.Fence{Token: "t", Seq: reached[p]}
		var arrived [][]state.Field
		for len(ps.onTheWay[p]) > left {
			arrived = append(arrived, ps.arrive(p))
		}
		if ps.broken == sourcesAreApart {
			source = (source + 1) % int32(len(ps.with))
		}
		switch missed := lost(); {
		case missed && ps.broken == gapsAreNoticed:
			ps.knowledge.Reached(int32(p), at)
		case missed:
			ps.knowledge.BeginResync(source, at)
			for part := range slices.Chunk(ps.published[0][p], 2) {
				ps.knowledge.Update(source, ps.reader.Read(source, sorted(part, ps.published[0][p]), ps.failed))
				ps.knowledge.Commit() // decisions may come in between
			}
			if ps.broken == goneIsGone {
				ps.knowledge.Reached(source, at)
			} else {
				ps.knowledge.Whole(source, at)
			}
		default:
			for _, fields := range arrived {
				ps.knowledge.Update(source, ps.reader.Read(source, fields, ps.failed))
			}
			ps.knowledge.Reached(source, at)
		}
	}
	before := ps.knowledge.Epoch().Number
	ps.knowledge.Commit()
	require.Equal(ps.t, before+1, ps.knowledge.Epoch().Number)
	for p := range ps.with {
		if ps.broken == "" {
			require.Equal(ps.t, reached[p], ps.knowledge.Epoch().At[int32(p)].Seq)
		}
		if ps.broken == epochsAreFollowed {
			ps.with[p].m.epoch = ps.knowledge.Epoch().Number
		}
	}
}

// sorted puts items of all before the fields of part, as a reader of all would.
func sorted(part, all []state.Field) (fields []state.Field) {
	for _, f := range all {
		if f.Hash == "feed:"+ItemsHash {
			fields = append(fields, f)
		}
	}
	for _, f := range part {
		if f.Hash != "feed:"+ItemsHash {
			fields = append(fields, f)
		}
	}
	return fields
}

// TestKnowledge_EqualsThatOfMachinesAlone: machines that share a PooledState decide and store the same as machines
// that read published fields themselves, at equal progress: over late or lost streams, and over new owners.
func TestKnowledge_EqualsThatOfMachinesAlone(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) { require.NoError(t, liveAsPeers(t, "")) })
}

// TestKnowledge_NeedsItsRules: that comes to light where any of the rules is broken.
func TestKnowledge_NeedsItsRules(t *testing.T) {
	for _, broken := range []rule{gapsAreNoticed, goneIsGone, sourcesAreApart, epochsAreFollowed} {
		t.Run(string(broken), func(t *testing.T) {
			found := false
			rapid.Check(t, func(t *rapid.T) { found = found || liveAsPeers(t, broken) != nil })
			require.True(t, found)
		})
	}
}

// liveAsPeers simulates users, payoffs, late and lost streams, and new
// owners. It returns the first difference between the two kinds of machines.
func liveAsPeers(t *rapid.T, broken rule) error {
	const partitions = 3
	ps := newPeers(t, partitions, broken)
	items := rapid.SliceOfNDistinct(rapid.StringMatching("[a-f]"), 2, 5, rapid.ID[string])
	lost := func() bool { return rapid.IntRange(0, 4).Draw(t, "lost") == 0 }
	late := func(most int) int { return rapid.IntRange(0, most).Draw(t, "late") }
	now := int64(day)
	var open []selectedAt
	for n := range rapid.IntRange(1, 25).Draw(t, "rounds") {
		now += 1000
		p := rapid.IntRange(0, partitions-1).Draw(t, "partition")
		switch what := rapid.IntRange(0, 4).Draw(t, "what"); {
		case what <= 1:
			names := items.Draw(t, "items")
			s := selectedAt{p, "i-" + strconv.Itoa(n)}
			selected := event.Selection{ID: []byte(s.id), Item: []byte(rapid.SampledFrom(names).Draw(t, "selected"))}
			ps.read(p, event.Impressions, s.id, impression(s.id, names...), now)
			ps.read(p, event.Selections, s.id, event.AppendSelection(nil, &selected), now)
			open = append(open, s)
		case what == 2 && len(open) > 0:
			s := open[0]
			open = open[1:]
			payoff := float64(rapid.IntRange(0, 4).Draw(t, "payoff")) / 4
			ps.read(s.p, event.Payoffs, s.id, event.AppendPayoff(nil, &event.Payoff{ID: []byte(s.id), Payoff: payoff}), now)
		case what == 3:
			ps.newOwner(p)
		case len(open) > 0: // its payoff is too late
			s := open[0]
			open = open[1:]
			now += ps.cfg.Learners[0].PayoffHorizon
			ps.tick(s.p, now)
			ps.read(s.p, event.Payoffs, s.id, event.AppendPayoff(nil, &event.Payoff{ID: []byte(s.id), Payoff: 1}), now)
		}
		for p := range partitions {
			ps.publish(p)
		}
		ps.advance(lost, late)
		for p := range partitions {
			if err := ps.compare(p); err != nil {
				return fmt.Errorf("after %d rounds, partition %d: %w", n+1, p, err)
			}
		}
	}
	return nil
}

// selectedAt is a selection that has not been paid.
type selectedAt struct {
	p  int
	id string
}

// read lets both machines of a partition read a record.
func (ps *peers) read(p int, topic event.Topic, id string, value []byte, now event.Millis) {
	for _, w := range []*world{ps.with[p], ps.alone[p]} {
		w.now = now
		require.NoError(ps.t, w.read(topic, id, value, now))
	}
}

// tick lets event time come to now in a partition.
func (ps *peers) tick(p int, now event.Millis) {
	for _, w := range []*world{ps.with[p], ps.alone[p]} {
		w.tick(now, [event.Inputs]bool{true, true, true})
	}
}

// newOwner makes both machines of a partition from their stored state.
func (ps *peers) newOwner(p int) {
	ps.publish(p)
	for _, w := range []*world{ps.with[p], ps.alone[p]} {
		w.start()
		w.walkKnown()
	}
}

// compare returns an error where the two machines of a partition differ.
func (ps *peers) compare(p int) error {
	with, alone := ps.with[p], ps.alone[p]
	with.m.follow() // as all does that looks at learners
	alone.m.follow()
	if !reflect.DeepEqual(alone.out.Rankings, with.out.Rankings) {
		return errors.New("rankings differ")
	}
	a, b := alone.m.learners[0], with.m.learners[0]
	for i := range policy.Item(b.items.len()) {
		ours, known := a.items.lookUp([]byte(b.items.name(i)))
		if !known || a.delay.Evidence(ours) != b.delay.Evidence(i) || a.delay.Sums(ours) != b.delay.Sums(i) {
			return fmt.Errorf("item %q: %+v where there should be %+v", b.items.name(i), b.delay.Evidence(i), a.delay.Evidence(ours))
		}
	}
	if x, y := a.delay.Status(), b.delay.Status(); x.Fed != y.Fed || x.Flights != y.Flights {
		return fmt.Errorf("%d fed and %d in flight where there should be %d and %d", y.Fed, y.Flights, x.Fed, x.Flights)
	}
	return nil
}

// TestKnowledge_CountsItems: of items without statistics only the number is published.
func TestKnowledge_CountsItems(t *testing.T) {
	cfg := testConfig()
	cfg.Learners[0].New = thompsonAtOnce(t)
	cfg.Names = NewNameTable()
	cfg.Pooled = NewPooledState(cfg.Learners, cfg.Names)
	reader := NewPublishedReader(cfg.Learners, cfg.Names)
	one := newWorld(t, cfg)
	cfg.Partition = 1
	other := newWorld(t, cfg)
	require.NoError(t, one.read(event.Impressions, "i-1", impression("i-1", "a", "b", "c"), day))
	require.NoError(t, one.read(event.Selections, "i-1", []byte(`{"impression_id":"i-1","item":"b"}`), day))
	require.NoError(t, other.read(event.Impressions, "i-2", impression("i-2", "c"), day))
	update := func(source int32, fields []state.Field) {
		cfg.Pooled.Update(source, reader.Read(source, fields, func(err error) { require.NoError(t, err) }))
		cfg.Pooled.Commit()
	}
	items := func() int { return cfg.Pooled.globals["feed"].count() }
	var c state.Changes
	one.m.Seal(&c)
	fields := published(&c)
	require.Len(t, fields, 3, "one in flight, its row, and the number of items")
	update(0, fields)
	require.Equal(t, 3, items())
	update(1, []state.Field{{Hash: "feed:catalogue", Field: []byte("items"), Value: []byte("7")}})
	require.Equal(t, 7, items())
	update(1, []state.Field{{Hash: "feed:catalogue", Field: []byte("items"), Value: []byte("2")}})
	require.Equal(t, 3, items())
	update(1, []state.Field{{Hash: "feed:catalogue", Field: []byte("items"), Value: []byte("7")}})
	cfg.Pooled.BeginResync(1, state.Fence{})
	cfg.Pooled.Commit()
	require.Equal(t, 7, items(), "the earlier number stays meanwhile")
	update(1, []state.Field{{Hash: "feed:catalogue", Field: []byte("items"), Value: []byte("5")}})
	require.Equal(t, 7, items())
	cfg.Pooled.Whole(1, state.Fence{})
	require.Equal(t, 5, items())
	cfg.Pooled.BeginResync(1, state.Fence{})
	cfg.Pooled.Whole(1, state.Fence{})
	require.Equal(t, 3, items())
	failed := 0
	for _, f := range []state.Field{{Field: []byte("items"), Value: []byte("-1")}, {Field: []byte("x"), Value: []byte("1")}, {Field: []byte("items")}} {
		f.Hash = "feed:catalogue"
		require.Empty(t, reader.Read(0, []state.Field{f}, func(error) { failed++ }))
	}
	require.Equal(t, 3, failed)
}

// releasing notes the items whose memory is given back.
type releasing struct {
	delay.Learner
	released []policy.Item
}

func (r *releasing) Release(i policy.Item) {
	r.released = append(r.released, i)
	r.Learner.Release(i)
}

// An item that a source no longer has after a gap ends, and its memory is given back at the next epoch, once no other source has it.
func TestKnowledge_EndsItemsBehindAGap(t *testing.T) {
	cfg := testConfig()
	cfg.Learners[0].New = thompsonAtOnce(t)
	names := NewNameTable()
	k, reader := NewPooledState(cfg.Learners, names), NewPublishedReader(cfg.Learners, names)
	w := k.globals["feed"]
	given := &releasing{Learner: w.Learner}
	w.Learner = given
	update := func(source int32, items ...string) {
		var fields []state.Field
		for n, item := range items {
			fields = append(fields, state.Field{Hash: "feed:items", Field: []byte(item), Value: fmt.Appendf(nil, `{"no":%d,"n":1,"sum":1,"sumsq":1}`, n)})
		}
		k.Update(source, reader.Read(source, fields, func(err error) { require.NoError(t, err) }))
	}
	again := func(source int32, items ...string) {
		k.BeginResync(source, state.Fence{})
		update(source, items...)
		k.Whole(source, state.Fence{})
		k.Commit()
	}
	update(0, "a", "b")
	update(1, "b", "c")
	k.Commit()
	require.Equal(t, 3, w.items)
	again(0)
	require.Equal(t, 2, w.items, "the other source has b")
	require.Equal(t, []policy.Item{0}, given.released, "a")
	again(1, "c")
	require.Equal(t, 1, w.items)
	require.Equal(t, []policy.Item{0, 1}, given.released, "a, b")
	k.Commit()
	require.Len(t, given.released, 2, "once")
}

// A selection ends, and the checkpoint that has it in flight arrives behind an epoch at which nothing of it was known. The partition goes by its own sums
// however far behind it is.
func TestKnowledge_CheckpointsArriveLate(t *testing.T) {
	for name, between := range map[string]func(k *PooledState, of int32, all []Published){
		"one by one": func(k *PooledState, of int32, all []Published) { k.Update(of, all) },
		"whole": func(k *PooledState, of int32, all []Published) {
			k.BeginResync(of, state.Fence{})
			k.Commit()
			k.Update(of, all)
			k.Whole(of, state.Fence{})
		},
		"many": func(k *PooledState, of int32, all []Published) {
			for k.Update(of, all); k.globals["feed"].arrivals[of].lost == 0; {
				k.Update(of, all[len(all)-1:])
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := testConfig()
			cfg.Learners[0].New = thompsonAtOnce(t)
			cfg.Names = NewNameTable()
			k := NewPooledState(cfg.Learners, cfg.Names)
			cfg.Pooled = k
			reader := NewPublishedReader(cfg.Learners, cfg.Names)
			w := newWorld(t, cfg)
			publish := func() []Published {
				var c state.Changes
				segment, _ := w.m.Seal(&c)
				w.store.apply(&c)
				w.m.Forget(segment)
				return reader.Read(cfg.Partition, published(&c), func(err error) { require.NoError(t, err) })
			}
			known := func() policy.Evidence {
				k.Commit()
				w.m.follow()
				return w.m.learners[0].delay.Evidence(0)
			}
			require.NoError(t, w.read(event.Impressions, "i-1", impression("i-1", "a", "b"), day))
			require.NoError(t, w.read(event.Selections, "i-1", []byte(`{"impression_id":"i-1","item":"a"}`), day))
			require.EqualValues(t, 1, known().W)
			selected := publish()
			now := int64(day) + cfg.Learners[0].PayoffHorizon + 1
			w.tick(now, [event.Inputs]bool{true, true, true})
			require.NoError(t, w.read(event.Payoffs, "i-1", []byte(`{"impression_id":"i-1","payoff":1}`), now))
			ended := publish()
			require.Zero(t, known(), "nothing has arrived")
			between(k, cfg.Partition, selected)
			require.Zero(t, known(), "it has ended")
			k.Update(cfg.Partition, ended)
			require.Zero(t, known())
		})
	}
}

// An impression that ends by the walk, before the machine moves to the next epoch, ends so in a replay too.
// Its item's statistics are the same to the last bit, which depends on the differences read at the epoch.
func TestVisit_LeavesTheEpoch(t *testing.T) {
	cfg := testConfig()
	cfg.Partition, cfg.Names = 1, NewNameTable()
	cfg.Learners[0].New = thompsonAtOnce(t)
	k := NewPooledState(cfg.Learners, cfg.Names)
	cfg.Pooled = k
	reader := NewPublishedReader(cfg.Learners, cfg.Names)
	update := func(source int32, fields []state.Field) {
		k.Update(source, reader.Read(source, fields, func(err error) { require.NoError(t, err) }))
	}
	owner, replayed := newWorld(t, cfg), newWorld(t, cfg)
	var c state.Changes
	for _, w := range []*world{owner, replayed} {
		for _, id := range []string{"i-1", "i-2"} {
			require.NoError(t, w.read(event.Impressions, id, impression(id, "a", "b"), day))
			require.NoError(t, w.read(event.Selections, id, fmt.Appendf(nil, `{"impression_id":%q,"item":"a"}`, id), day))
			if id == "i-1" {
				require.NoError(t, w.read(event.Payoffs, id, []byte(`{"impression_id":"i-1","payoff":0.1}`), day))
				c = state.Changes{}
				segment, _ := w.m.Seal(&c)
				w.store.apply(&c)
				w.m.Forget(segment)
			}
		}
		w.save()
	}
	update(1, published(&c))
	for source, sum := range map[int32]string{0: "0.2", 2: "0.3"} { // in another order the sum of all is another one
		update(source, []state.Field{{Hash: "feed:items", Field: []byte("a"), Value: []byte(`{"no":0,"n":1,"sum":` + sum + `,"sumsq":0.1}`)}})
	}
	k.Commit()
	now := int64(day) + cfg.Learners[0].PayoffHorizon + 60_000
	for _, w := range []*world{owner, replayed} {
		w.tick(now, [event.Inputs]bool{true, true, true})
		w.m.Act()
		w.m.follow()
		require.EqualValues(t, 4, w.m.learners[0].delay.Evidence(0).W)
	}
	k.Commit()
	bucket, due := owner.m.DueUpTo()
	require.True(t, due)
	for _, e := range owner.store.dueUpTo(bucket, 10) {
		require.NoError(t, owner.m.Expire(e))
	}
	require.NoError(t, replayed.m.Visit(replayed.text("i-2"), replayed.store.find(replayed.text("i-2"))))
	var known [2]policy.Evidence
	for n, w := range []*world{owner, replayed} {
		w.m.follow()
		known[n] = w.m.learners[0].delay.Evidence(0)
		require.EqualValues(t, 3, known[n].W)
	}
	require.Equal(t, known[0], known[1])
}
