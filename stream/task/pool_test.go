package task

import (
	"encoding/binary"
	"flag"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/cespare/xxhash/v2"
	"github.com/stretchr/testify/require"

	"github.com/ranker-worker/ranker-worker/delay"
	"github.com/ranker-worker/ranker-worker/policy"
	"github.com/ranker-worker/ranker-worker/policy/features"
	"github.com/ranker-worker/ranker-worker/policy/preference"
	"github.com/ranker-worker/ranker-worker/state"
	"github.com/ranker-worker/ranker-worker/stream/event"
	"github.com/ranker-worker/ranker-worker/stream/partition"
	retrace "github.com/ranker-worker/ranker-worker/stream/replay"
)

// pools is how many schedules of several partitions are played and replayed for each kind of learner.
var pools = flag.Int("pools", 4, "simulated schedules of partitions that pool, for each kind of learner")

// pool is several partitions, each a world of its own, whose owners live in a few processes that exchange published state.
type pool struct {
	rng       *rand.Rand
	worlds    []*world
	users     []*users
	published [][]state.Delta                 // by partition, up to the stored state
	upTo      []map[state.Fence][]state.Delta // by partition, up to each state that was stored
	saved     []*state.Checkpoint
	unlike    int // checkpoints that were other when they were made again
	alike     int
	processes []*process
	of        map[*partition.Machine]*process
	learners  []partition.LearnerConfig
	most      int
	alone     bool              // the next owner has no pooled state
	fresh     bool              // owners begin in new processes, which know little
	atOnce    int               // published fields read at a time
	restored  bool              // stores are restored, before bases are taken
	rebuilt   bool              // they are lost and rebuilt, likewise
	based     bool              // a base is taken
	bases     [][]*retrace.Base // by partition, as they were taken
	from      [][]*retrace.Base // likewise: those that replays have
	wentBack  [][2]int64        // by partition, how many rankings there were when its store went back first, and last; -1: never
}

// process holds the pooled state of its owners.
type process struct {
	names     partition.Names
	knowledge *partition.PooledState
	reader    *partition.PublishedReader
	at        map[int32]state.Fence   // by source: position read
	resync    map[int32]*sourceResync // of sources under resync
}

// sourceResync is the unread rest of a source's state.
type sourceResync struct {
	at    state.Fence
	parts [][]partition.Published
}

func newPool(seed uint64, partitions, impressions int, k *kind, h habits, learner func() delay.Learner) *pool {
	h.contexts = learner().Needs().Context
	pl := &pool{rng: rand.New(rand.NewPCG(seed, 2)), published: make([][]state.Delta, partitions), upTo: make([]map[state.Fence][]state.Delta, partitions), of: map[*partition.Machine]*process{}, atOnce: 1 + int(seed%7),
		wentBack: slices.Repeat([][2]int64{{-1, -1}}, partitions), bases: make([][]*retrace.Base, partitions)}
	for p := range partitions {
		w := newWorld(seed*100+uint64(p), func(rng *rand.Rand) Config {
			c := k.simConfig(soon, rng)
			c.Partition = int32(p)
			var in *process
			if !pl.alone {
				in = pl.process()
			}
			make := c.NewMachine
			c.NewMachine = func(most int) (*partition.Machine, error) {
				pl.most = most
				_, _ = make(most)
				m, err := partition.New(pl.machine(p, in, most))
				pl.of[m] = in
				return m, err
			}
			return c
		})
		w.faults, w.noise = k.faults, true
		w.partitions = partitions
		w.checkpointed = func(c *state.Checkpoint) { pl.publish(p, c) }
		w.restored = func() {
			pl.goesBack(p)
			f, err := w.store.Probe(inMemory, 0)
			pl.published[p] = pl.upTo[p][must(f, err)]
		}
		pl.upTo[p] = map[state.Fence][]state.Delta{}
		pl.worlds, pl.users = append(pl.worlds, w), append(pl.users, newUsers(w, impressions, h))
	}
	pl.learners = []partition.LearnerConfig{{Name: "feed", Default: true, PolicyName: "some", DelayName: "some", Fingerprint: "f",
		PayoffMax: 1, PayoffHorizon: soon.horizon.Milliseconds(), SelectionTimeout: soon.selection.Milliseconds(), Seed: 1, New: learner,
		FindsUtilities: learner().Status().FindsUtilities}}
	if learner().Needs().Context {
		space := seenSpace
		if h.groups {
			space = groupSpace
			pl.learners[0].Caps = []partition.Cap{{Category: "k1", Most: 0, First: 1}}
		}
		pl.learners[0].Context = partition.NewContext(space, true)
	}
	if zero := 0.0; pl.rng.IntN(3) > 0 {
		pl.learners[0].ExpiryDefault = &zero
	}
	return pl
}

func (pl *pool) machine(p int, in *process, most int) partition.Config {
	c := partition.Config{
		Group: "g", Partition: int32(p), TopicNames: simTopics, HasSelections: true,
		ParkingTime: soon.parking.Milliseconds(), Remember: soon.remember.Milliseconds(), MaxParked: 1000, MaxParkedBytes: 1 << 20,
		MaxCandidates: 100, MaxRecordBytes: 1 << 16, MaxRankingBytes: most, Salt: 7 + uint64(p), Learners: pl.learners, Settings: "these",
	}
	if p == 1 { // its order records are ordinary
		c.OrderBytes = 60
	}
	if in != nil {
		c.Names, c.Pooled = in.names, in.knowledge
	}
	return c
}

// process is one that an owner begins in: one that there is, or a new one.
func (pl *pool) process() *process {
	if len(pl.processes) == 0 || pl.fresh && pl.rng.IntN(4) > 0 || len(pl.processes) < 8 && pl.rng.IntN(4) == 0 {
		names := partition.NewNameTable()
		pl.processes = append(pl.processes, &process{names: names, knowledge: partition.NewPooledState(pl.learners, names),
			reader: partition.NewPublishedReader(pl.learners, names), at: map[int32]state.Fence{}, resync: map[int32]*sourceResync{}})
	}
	return pl.processes[pl.rng.IntN(len(pl.processes))]
}

// publish records a checkpoint's published fields.
func (pl *pool) publish(p int, c *state.Checkpoint) {
	one := *c
	one.Meta.Partitions = p // which one it is of
	pl.saved = append(pl.saved, &one)
	d := state.Delta{Fence: state.Fence{Token: c.Fence.Token, Seq: c.Fence.Seq + 1}}
	if n := len(pl.published[p]); n > 0 && pl.published[p][n-1].Fence == d.Fence {
		return // it came twice
	}
	for _, w := range c.Changes.Writes {
		if w.Publish {
			d.Fields = append(d.Fields, state.Field{Hash: w.Hash, Field: slices.Clone(w.Field), Value: slices.Clone(w.Value)})
		}
	}
	pl.published[p] = append(slices.Clip(pl.published[p]), d)
	pl.upTo[p][d.Fence] = pl.published[p]
}

// whole is all that a partition has published by its first n checkpoints, in any order.
func (pl *pool) whole(p int32, n int) (all []state.Field) {
	fields := map[string]state.Field{}
	for _, d := range pl.published[p][:n] {
		for _, f := range d.Fields {
			if fields[f.Hash+"/"+string(f.Field)] = f; f.Value == nil {
				delete(fields, f.Hash+"/"+string(f.Field))
			}
		}
	}
	for _, k := range slices.Sorted(maps.Keys(fields)) {
		all = append(all, fields[k])
	}
	pl.rng.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	return all
}

func unread(err error) { panic(err) }

// step lets one thing happen.
func (pl *pool) step() {
	p := pl.rng.IntN(len(pl.worlds))
	w := pl.worlds[p]
	pl.users[p].act()
	w.step()
	if pl.rng.IntN(10) == 0 { // who looks leaves no trace
		w.procs[pl.rng.IntN(len(w.procs))].task.Status()
	}
	if in := pl.processes[pl.rng.IntN(len(pl.processes))]; pl.rng.IntN(6) == 0 {
		pl.follow(in, int32(pl.rng.IntN(len(pl.worlds))))
	}
}

// follow lets a process read a partition's published fields, like a worker's follower.
func (pl *pool) follow(in *process, source int32) {
	all := pl.published[source]
	if len(all) == 0 {
		return
	}
	k := in.knowledge
	if a := in.resync[source]; a != nil { // a part of the whole
		k.Update(source, a.parts[0])
		if a.parts = a.parts[1:]; len(a.parts) == 0 {
			k.Whole(source, a.at)
			delete(in.resync, source)
		}
		k.Commit()
		return
	}
	at, known := pl.reached(in, source)
	switch {
	case !known || pl.rng.IntN(30) == 0:
		at = max(1+pl.rng.IntN(len(all)), at)
		fence := all[at-1].Fence
		k.BeginResync(source, fence)
		parts := slices.Collect(slices.Chunk(in.reader.Read(source, pl.whole(source, at), unread), pl.atOnce))
		if len(parts) == 0 {
			parts = [][]partition.Published{nil}
		}
		if in.resync[source] = (&sourceResync{fence, parts}); pl.rng.IntN(2) == 0 {
			for in.resync[source] != nil {
				pl.follow(in, source)
			}
		}
	default:
		for at < len(all) && pl.rng.IntN(8) > 0 {
			d := &all[at]
			k.Update(source, in.reader.Read(source, slices.Clone(d.Fields), unread))
			k.Reached(source, d.Fence)
			at++
		}
	}
	in.at[source] = all[at-1].Fence
	k.Commit()
}

// reached is the number of a source's deltas that a process has read; known is false if its store has gone back further.
func (pl *pool) reached(in *process, source int32) (n int, known bool) {
	at, known := in.at[source]
	n = 1 + slices.IndexFunc(pl.published[source], func(d state.Delta) bool { return d.Fence == at })
	return n, known && n > 0
}

// play plays until all that users do is done, or a bound.
func (pl *pool) play(t *testing.T) {
	run := func(steps int) {
		for range steps * len(pl.worlds) {
			pl.step()
			for p, w := range pl.worlds {
				if w.violation != nil { // at each of many steps
					t.Fatalf("partition %d: %v", p, w.violation)
				}
			}
		}
	}
	run(3000)
	if pl.restored {
		for p := range pl.worlds {
			pl.bases[p] = append(pl.bases[p], pl.base(t, p))
		}
		run(500)
		for p := range pl.worlds {
			pl.restore(t, p)
		}
		run(3000)
	}
	if pl.rebuilt {
		for p := range pl.worlds {
			pl.rebuild(t, p)
		}
		run(3000)
	}
	if pl.based {
		for p := range pl.worlds {
			for behind := int64(-1); behind <= pl.wentBack[p][1]; { // until its owner has adopted all
				run(100)
				if b := pl.base(t, p); b.Seq > 0 { // an owner has stored something
					pl.bases[p], behind = append(pl.bases[p], b), b.Rankings
				}
			}
		}
	}
	run(6000)
	for _, w := range pl.worlds { // the last owners rank, so that headers record all but the last moments
		w.noise = false
		for _, p := range w.procs {
			p.paused = p.gen < 0
		}
		w.start()
	}
	run(3000)
}

// restore has a partition's store go back.
func (pl *pool) restore(t *testing.T, p int) {
	w := pl.worlds[p]
	for len(w.copies) == 0 {
		w.step()
		require.NoError(t, w.violation)
	}
	w.rollback(w.rng.IntN(len(w.copies)))
}

func (pl *pool) goesBack(p int) {
	at := &pl.wentBack[p]
	if at[1] = int64(len(pl.worlds[p].broker.rankings)); at[0] < 0 {
		at[0] = at[1]
	}
}

// rebuild loses a partition's store, while it has no owner, and replays the topics into it as `state rebuild` does. An owner without a
// pooled state ranks its impressions until it is drained.
func (pl *pool) rebuild(t *testing.T, p int) {
	w := pl.worlds[p]
	pl.goesBack(p)
	w.procs, w.ghosts, w.copies, pl.published[p] = nil, nil, nil, nil
	require.NoError(t, w.store.Drop(inMemory, 0, ""))
	d := w.describe()
	fresh := d.Beginning(false)
	fresh.Rankings = 0
	_, err := w.store.Acquire(inMemory, 0, 0, true, fresh)
	require.NoError(t, err)
	w.noise, pl.alone = false, true
	owner := w.start().task
	pl.alone = false
	for owner.Phase() != Running {
		w.step()
		require.NoError(t, w.violation)
	}
	if !pl.restored {
		pl.bases[p] = append(pl.bases[p], pl.base(t, p))
	}
	for range 50 {
		pl.users[p].act()
		w.step()
	}
	for owner.Drain(); len(w.procs) > 0; {
		w.step()
		require.NoError(t, w.violation)
	}
	w.noise = true
}

// base takes a base of a partition.
func (pl *pool) base(t *testing.T, p int) *retrace.Base {
	m, err := partition.New(pl.machine(p, nil, pl.most))
	require.NoError(t, err)
	meta, fields, pages, err := pl.worlds[p].store.ViewAll(inMemory, 0, m.Hashes())
	require.NoError(t, err)
	b := &retrace.Base{Seq: meta.Seq, Rankings: meta.Rankings, Fields: fields, Pages: pages}
	for i := range b.Inputs {
		b.Inputs[i] = meta.Inputs[i].Offset
	}
	return b
}

// simLog is the log of a world.
type simLog struct {
	b     *broker
	p     int32
	at    int
	bases []*retrace.Base
}

// Base implements retrace.Log.
func (l *simLog) Base(behind int64) (*retrace.Base, error) {
	for ; len(l.bases) > 0; l.bases = l.bases[1:] {
		if b := l.bases[0]; b.Rankings > behind {
			l.bases = l.bases[1:]
			return b, nil
		}
	}
	return nil, nil
}

func (l *simLog) Record(t event.Topic, offset int64) (*partition.Record, error) {
	for ; offset < int64(len(l.b.inputs[t])); offset++ {
		if r := &l.b.inputs[t][offset]; !r.marker && !r.aborted {
			return &partition.Record{Topic: t, Offset: offset, Timestamp: r.timestamp, Key: r.key, Value: r.value}, nil
		}
	}
	return nil, nil
}

func (l *simLog) Ranking() (*retrace.Ranking, error) {
	for ; l.at < len(l.b.rankings); l.at++ {
		if r := &l.b.rankings[l.at]; !r.marker && r.producer.ID != foreignID {
			l.at++
			order, _ := partition.OrderNumber(&partition.Record{Key: r.key, Value: r.value}, "g", l.p)
			return &retrace.Ranking{Offset: int64(l.at - 1), Order: order, Key: r.key, Value: r.value, Steps: stepsOf(r.headers), Seen: headerOf(r.headers, SeenHeader)}, nil
		}
	}
	return nil, nil
}

// omitted reports whether an owner omitted observations from its headers.
func (pl *pool) omitted(t *testing.T) bool {
	for p, w := range pl.worlds {
		log := simLog{b: &w.broker, p: int32(p)}
		for r, _ := log.Ranking(); r != nil; r, _ = log.Ranking() {
			seen, err := partition.ReadSeen(r.Seen)
			require.NoError(t, err)
			if slices.ContainsFunc(seen, func(s partition.Observation) bool { return s.Kind == partition.SeenLost }) {
				return true
			}
		}
	}
	return false
}

// compareSaved compares a checkpoint's fields of learners with the stored ones, those of hashes that are reproduced.
func (pl *pool) compareSaved(t *testing.T, p int32, writer uint32, seq int64, changes []*state.Changes, reproduced func(hash string) bool) {
	at := slices.IndexFunc(pl.saved, func(c *state.Checkpoint) bool {
		return c.Meta.Partitions == int(p) && partition.WriterOf(c.Fence.Token) == writer && c.Fence.Seq+1 == seq
	})
	if at < 0 {
		return // it was sent, and never stored
	}
	fields := func(all ...*state.Changes) map[string]string {
		values := map[string]string{}
		for _, c := range all {
			for _, w := range c.Writes {
				if w.Hash != state.MetaHash && reproduced(w.Hash) {
					values[w.Hash+" "+string(w.Field)] = string(w.Value)
				}
			}
		}
		return values
	}
	if is, was := fields(changes...), fields(&pl.saved[at].Changes); maps.Equal(is, was) {
		pl.alike++
	} else {
		if pl.unlike++; pl.unlike == 1 {
			t.Logf("partition %d, checkpoint %d of %d is another: %q, was %q", p, seq, writer, is, was)
		}
	}
}

// replay replays it all, by a configuration that each of edits changes.
func (pl *pool) replay(t *testing.T, edits ...func(*retrace.Config)) (sum retrace.Result) {
	c := retrace.Config{Machine: func(p int32) partition.Config { return pl.machine(int(p), nil, pl.most) }, AtOnce: pl.atOnce}
	for _, edit := range edits {
		edit(&c)
	}
	c.Sent = func(p int32, writer uint32, seq int64, changes []*state.Changes, reproduced func(string) bool) {
		pl.compareSaved(t, p, writer, seq, changes, reproduced)
	}
	for p, w := range pl.worlds {
		log := &simLog{b: &w.broker, p: int32(p)}
		if pl.from != nil {
			log.bases = pl.from[p]
		}
		c.Logs = append(c.Logs, log)
	}
	results, err := retrace.Run(&c)
	require.NoError(t, err)
	for _, r := range results {
		sum = sum.Plus(r)
	}
	return sum
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// perImpression has a learner maximise payoff per impression.
func perImpression[L interface {
	delay.Learner
	LearnAttraction(float64)
}](l L) delay.Learner {
	l.LearnAttraction(0)
	return l
}

// exacting ranks by the bits of all evidence that it reads, so that any difference shows.
type exacting struct{}

func (exacting) Rank(in *policy.Input, _ *policy.Workspace, dst []int32) {
	bits := make([]byte, 0, 128)
	number := func(x float64) { bits = binary.LittleEndian.AppendUint64(bits, math.Float64bits(x)) }
	number(in.Table.Mean())
	for k, i := range in.Items {
		dst[k] = int32(k)
		e := in.Table.Evidence(i)
		number(e.W)
		number(e.R)
		number(e.Q)
	}
	seed := xxhash.Sum64(bits)
	rand.New(rand.NewPCG(seed, 1)).Shuffle(len(dst), func(i, j int) { dst[i], dst[j] = dst[j], dst[i] })
}

// pooledLearners are learners of every kind, which pool in every way there is.
var pooledLearners = map[string]func() delay.Learner{
	"moss":        func() delay.Learner { return delay.NewDirect(must(policy.NewMOSS(belief)), ages) },
	"klucb":       func() delay.Learner { return delay.NewDirect(policy.NewKLUCB(), ages) },
	"impressions": func() delay.Learner { return perImpression(delay.NewDirect(must(policy.NewMOSS(belief)), ages)) },
	"drift":       func() delay.Learner { return delay.NewDirect(must(policy.NewMOSS(belief)), drifting) },
	"exacting":    func() delay.Learner { return delay.NewDirect(exacting{}, drifting) },
	"thompson": func() delay.Learner {
		return delay.NewDirect(must(policy.NewThompson(belief)), delay.Silence{Law: delay.SilenceAtOnce})
	},
	"waits": func() delay.Learner { return delay.NewDirect(must(policy.NewMOSS(belief)), delay.Silence{}) },
	"qpmd":  newTestLearner,
	"egreedy": func() delay.Learner {
		return perImpression(must(delay.NewExploringDirect(policy.NewEpsilonGreedy(), delay.WindowsConfig{EstimateEvery: 1000}, ages)))
	},
	"robust": func() delay.Learner {
		return perImpression(must(delay.NewRobust(delay.RobustConfig{Policy: must(policy.NewRobust(1500)), Belief: belief, Silence: ages,
			HalfLives: []time.Duration{time.Second, 8 * time.Second}, Horizon: soon.horizon.Milliseconds(), Windows: delay.WindowsConfig{EstimateEvery: 1000}})))
	},
	"bold": func() delay.Learner {
		return must(delay.NewBOLD(delay.BOLDConfig{Base: must(policy.NewFTRL(1, true)), MaxInstances: 3, Windows: delay.WindowsConfig{EstimateEvery: 1000}}))
	},
	"osmd": func() delay.Learner {
		return must(delay.NewBOLD(delay.BOLDConfig{Base: must(policy.SpecOf("osmd").Oppose(&policy.Parameters{Eta: 0.05})), MaxInstances: 1, Windows: delay.WindowsConfig{EstimateEvery: 1000}}))
	},
	"features": func() delay.Learner {
		return must(delay.NewContextual(must(policy.NewMOSS(belief)), delay.ContextualConfig{Space: seenSpace, Silence: ages, Belief: belief}))
	},
	"groups": func() delay.Learner {
		return perImpression(must(delay.NewContextual(must(policy.NewMOSS(belief)), delay.ContextualConfig{Space: groupSpace, Silence: ages, Belief: belief})))
	},
	"sorted": func() delay.Learner {
		return delay.NewPreferring(perImpression(delay.NewDirect(must(policy.NewMOSS(belief)), ages)), preference.NewSorted())
	},
	"social": func() delay.Learner {
		return delay.NewPreferring(delay.NewDirect(must(policy.NewMOSS(belief)), ages),
			must(preference.NewSocial(preference.SocialConfig{Budget: preference.DefaultBudget})))
	},
}

// pooledUnalike are learners that share pooled state in special ways.
var pooledUnalike = []string{"moss", "klucb", "drift", "features", "social", "robust", "egreedy"}

var (
	// seenSpace has a feature in all impressions, and one that only some users have.
	seenSpace = must(features.New(features.Declaration{User: []features.Feature{{Name: "mood", Low: -1, High: 1}},
		Item:  []features.Feature{{Name: features.Utility, Low: 0, High: 1}, {Name: "size", Low: 0, High: 9}, {Name: features.Predicted, Low: 0, High: 1}},
		Cross: [][2]string{{"mood", "size"}, {"size", features.Utility}}}))

	// groupSpace has groups of users, items and times too, which some belong to none of, and little else.
	groupSpace = must(features.New(features.Declaration{User: []features.Feature{{Name: "mood", Low: -1, High: 1}},
		Item: []features.Feature{{Name: "size", Low: 0, High: 9}}, Segments: []string{"new", "loyal"}, Categories: true,
		Clock: features.Clock{Hour: true}, Age: true}))

	belief   = policy.Belief{Sigma: 0.5, EstimateSigma: true, Prior: policy.EmpiricalPrior}
	ages     = delay.Silence{Law: delay.SilenceAges, Horizon: soon.horizon.Milliseconds()}
	drifting = delay.Silence{Law: delay.SilenceAges, Horizon: soon.horizon.Milliseconds(), Drift: 50}

	// dying are faults of owners, without a store that goes back, which a replay does not record.
	dying = kind{name: "pool", faults: faults{crash: 0.0006, relapse: 0.004, pause: 0.0006, resume: 0.004, reassign: 0.0006, fail: 0.01, lose: 0.01,
		late: 0.004, stuck: 0.02, down: 0.0001}}
)
