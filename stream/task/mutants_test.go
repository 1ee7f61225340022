//go:build mutants

package task

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ranker-worker/ranker-worker/stream/event"
	"github.com/ranker-worker/ranker-worker/stream/partition"
)

// sabotage says which rules are taken out. mutation_test.go adds a field of it to Config, and its uses.
type sabotage struct {
	noFence      bool // the producer's epoch is raised, but no marker carries it into rankings[p]
	noAdoption   bool // logged decisions are decided again
	noSequences  bool // batches carry no sequence: a retry appends a copy
	unacked      bool // checkpoints do not wait for rankings and dead letters to be acked
	pastDecision bool // checkpoints of a replay carry a position past decisions not yet adopted
	listedEnd    bool // the replay ends at the end that the broker lists, which can be stale
	knownEarly   bool // ids that the walk over them has not come by yet are taken for new
	unverified   bool // the store's values are used without a look at token and sequence
	forgetEarly  bool // the overlay forgets at the ack, without waiting for earlier look-ups
	freshFence   bool // the fence is repeated as if for the first time, without a look at the partition's owner
	foreigners   bool // decisions of every producer count
	unretired    bool // a new producer id does not fence owners with the old one
	unseenQueue  bool // queued records are not compared with the log when its leader has changed
	ownClock     bool // event time goes by the worker's clock
	crowdsOut    bool // records without room are dropped although their impression may be in the log
	unordered    bool // a replay takes records in in an order of its own
	strangers    bool // records for learners of other workers are refused
	behindUnseen bool // decisions before the checkpoint are not compared with the state
	// rulesFirst is asked before the cursor whether the rules of the day refuse an impression.
	rulesFirst func(*partition.Record) bool
}

// sequence is a batch's.
func (s *sabotage) sequence(n int32) int32 {
	if s.noSequences {
		return -1
	}
	return n
}

// position is where a checkpoint of a replay says that it stands.
func (s *sabotage) position(c *cursor) int64 {
	if s.pastDecision {
		return c.next
	}
	return c.position()
}

// forgettable is a segment that the overlay may forget.
func (s *sabotage) forgettable(l *lookups) (segment uint64, ok bool) {
	if batches := l.batches; s.forgetEarly {
		l.batches = nil
		defer func() { l.batches = batches }()
	}
	return l.forgettable()
}

// decided is the decision that a record of the log has.
func (s *sabotage) decided(r *partition.Record, d *event.Ranking) *event.Ranking {
	if s.rulesFirst != nil && s.rulesFirst(r) {
		return nil
	}
	return d
}

// input takes rules out of a step.
func (s *sabotage) input(in *partition.Input, now Now) {
	if s.ownClock {
		in.Now, in.Latest = now.Wall, now.Wall
	}
	if s.crowdsOut {
		in.Read = [event.Inputs]bool{true, true, true}
	}
}

// mutation is the protocol with one rule taken out.
type mutation struct {
	name     string
	sabotage sabotage
	rule     storeRule
	faults   faults
	habits   habits
	world    func(w *world)
	config   func(c *Config, m *partition.Config, rng *rand.Rand)
	machine  func(m *partition.Config) // takes a rule of the machine's out
	soon     bool                      // deadlines pass, and outcomes are held against the steps in the log
	tight    bool                      // there is room for two records to wait
	// scenario is played instead of schedules: those in which a sequence comes round again are too rare.
	scenario func(t *testing.T, s sabotage, r storeRule) error
}

// mutantSchedules is in how many schedules a violation must show itself. The rarest shows itself in more than 1 of 100, so that none does
// in less than 1 run in 10^6. A long run counts how many of the first mutantCounted have one.
const mutantSchedules, mutantCounted = 1500, 150

var mutations = []mutation{
	{name: "no fence", sabotage: sabotage{noFence: true},
		faults: faults{pause: 0.01, resume: 0.01, reassign: 0.006, stuck: 0.3}},
	{name: "no adoption", sabotage: sabotage{noAdoption: true},
		faults: faults{crash: 0.006, reassign: 0.003, lose: 0.02}},
	{name: "no sequences", sabotage: sabotage{noSequences: true}, faults: faults{lose: 0.05}},
	{name: "checkpoint before the ack", sabotage: sabotage{unacked: true},
		faults: faults{crash: 0.006, fail: 0.1, stuck: 0.3}, config: often},
	{name: "position past unadopted decisions", sabotage: sabotage{pastDecision: true},
		faults: faults{crash: 0.01, stuck: 0.1, slow: 0.1, relapse: 0.02}, config: often},
	{name: "the day's rules before the cursor", faults: faults{crash: 0.006, stuck: 0.2},
		config: often},
	{name: "a stale end for the cursor", sabotage: sabotage{listedEnd: true},
		faults: faults{crash: 0.006, stuck: 0.3}, world: func(w *world) { w.stale = true }},
	{name: "unchecked look-ups", sabotage: sabotage{unverified: true},
		faults: faults{rollback: 0.02, reassign: 0.002}, habits: habits{repeats: 2}},
	{name: "ids taken for new before all are known", sabotage: sabotage{knownEarly: true},
		faults: faults{crash: 0.006, reassign: 0.003, slow: 0.3}, habits: habits{repeats: 2}},
	{name: "overlay forgotten too early", sabotage: sabotage{forgetEarly: true},
		faults: faults{slow: 0.3}, config: often},
	{name: "token alone", rule: tokenAlone,
		faults: faults{rollback: 0.01, reassign: 0.002, lose: 0.02}},
	{name: "sequence alone", rule: seqAlone, scenario: rolledBackUnderAZombie},
	{name: "an epoch counter", rule: epochCounter,
		faults: faults{rollback: 0.01, pause: 0.01, resume: 0.01, reassign: 0.006, lose: 0.02}},
	{name: "fence again without ownership", sabotage: sabotage{freshFence: true}, scenario: frozenAroundItsFence},
	{name: "a queue that is not held against the log", sabotage: sabotage{unseenQueue: true}, scenario: truncatedUnderTheQueue},
	{name: "decisions before the checkpoint unseen", sabotage: sabotage{behindUnseen: true}, scenario: savedByAZombie},
	{name: "decisions of whoever has written them", sabotage: sabotage{foreigners: true},
		faults: faults{foreign: 0.01, crash: 0.006, reassign: 0.003}},
	{name: "a forgotten producer id is not retired", sabotage: sabotage{unretired: true},
		faults: faults{amnesia: 0.006, pause: 0.01, resume: 0.01, reassign: 0.006, stuck: 0.3}},
	{name: "event time by the worker's clock", sabotage: sabotage{ownClock: true}, soon: true,
		faults: faults{clock: 0.01, crash: 0.003}},
	{name: "no room although all may yet come", sabotage: sabotage{crowdsOut: true}, tight: true,
		faults: faults{crash: 0.003, reassign: 0.003, rollback: 0.006}, habits: habits{tidy: true}, world: apart},
	{name: "a replay in an order of its own", sabotage: sabotage{unordered: true}, soon: true,
		faults: faults{crash: 0.01, reassign: 0.006, rollback: 0.006, stuck: 0.1}, world: apart},
	{name: "an id forgotten too early", machine: func(m *partition.Config) { m.Remember = m.ParkingTime }, soon: true,
		faults: faults{crash: 0.003, reassign: 0.003}},
	{name: "what only others know is refused", sabotage: sabotage{strangers: true}, habits: habits{learners: 2},
		faults: faults{crash: 0.003, reassign: 0.006}, config: mixed,
		world: func(w *world) { w.elsewhere = map[string]bool{"feed": true, "front": true} }},
}

// often makes checkpoints of some owners follow each other at once, and those of others rare.
func often(c *Config, _ *partition.Config, rng *rand.Rand) {
	c.CheckpointInterval = []time.Duration{time.Millisecond, 3 * time.Second}[rng.IntN(2)]
}

// kind makes a kind of schedule of a mutation; sound leaves the protocol whole.
func (m *mutation) kind(sound bool) kind {
	k := kind{name: m.name, faults: m.faults, habits: m.habits, tight: m.tight}
	k.config = func(c *Config, machine *partition.Config, rng *rand.Rand) {
		if m.config != nil {
			m.config(c, machine, rng)
		}
		refuses := false
		if m.name == "the day's rules before the cursor" {
			if refuses = rng.IntN(2) == 0; refuses {
				machine.MaxCandidates = 2
			}
		}
		if !sound && m.machine != nil {
			m.machine(machine)
		}
		if !sound {
			c.sabotage = m.sabotage
			if refuses {
				c.sabotage.rulesFirst = func(*partition.Record) bool { return true }
			}
		}
	}
	k.changes = m.name == "the day's rules before the cursor"
	k.world = func(w *world) {
		if m.world != nil {
			m.world(w)
		}
		if !sound {
			w.rule = m.rule
		}
	}
	return k
}

// TestMutants finds, for each mutation, a violation in a bounded number of schedules, and none in the same schedules of the whole
// protocol.
func TestMutants(t *testing.T) {
	for _, m := range mutations {
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			if m.scenario != nil {
				violation := m.scenario(t, m.sabotage, m.rule)
				require.Error(t, violation)
				t.Logf("%-36s violation in a scenario of its own: %v", m.name, violation)
				require.NoError(t, m.scenario(t, sabotage{}, tokenAndSeq))
				return
			}
			mutant, whole, at := m.kind(false), m.kind(true), farAway
			if m.soon {
				at = soon
			}
			// One violation is enough; a long run counts how many schedules have one.
			caught, played, first := 0, 0, error(nil)
			for caught == 0 && played < mutantSchedules || *schedules > usual && played < mutantCounted {
				seed := *firstSeed + uint64(played)
				played++
				_, err := mutant.run(seed, at, m.habits)
				if err == nil {
					continue
				}
				if caught++; first == nil {
					first = fmt.Errorf("-seed %d: %w", seed, err)
					_, err = whole.run(seed, at, m.habits)
					require.NoError(t, err, "the whole protocol, -seed %d", seed)
				}
			}
			if caught > 0 {
				t.Logf("%-36s violation in %3d of %3d schedules, the first with %v", m.name, caught, played, first)
				return
			}
			t.Fatalf("no violation in %d schedules, -seed %d", played, *firstSeed)
		})
	}
}

// rolledBackUnderAZombie: an owner's checkpoint is on its way for long. Meanwhile the store goes back to an older copy,
// and the next owner's checkpoints reach the very sequence that the late one follows.
func rolledBackUnderAZombie(t *testing.T, _ sabotage, r storeRule) error {
	t.Helper()
	d := served(t, nil)
	d.w.rule = r
	older := d.w.store.Copy(0)
	for k := range 5 {
		d.impress(6+3*k, 3, d.w.wall)
		require.NoError(t, d.run(time.Minute, d.idle))
	}

	var late Checkpoint
	d.hold = func(e Effect) bool {
		c, ok := e.(Checkpoint)
		if ok {
			late = c
		}
		return ok
	}
	d.impress(21, 3, d.w.wall)
	require.NoError(t, d.run(time.Minute, func() bool { return late.Checkpoint != nil }))
	zombie := d.p

	d.w.store.Restore(0, older)
	follows := late.Checkpoint.Fence.Seq
	d.hold = func(e Effect) bool { // the next owner gets as far as that sequence, with selections that the late one knows nothing of
		c, checkpoint := e.(Checkpoint)
		return checkpoint && c.Checkpoint.Fence.Seq == follows
	}
	d.start()
	require.NoError(t, d.run(time.Minute, d.idle))
	stored := func() int64 { return d.w.store.Copy(0).Meta().Seq }
	for i := 2; stored() < follows; i++ {
		id := fmt.Sprintf("i-%d", i)
		d.w.append(event.Selections, []byte(id), fmt.Appendf(nil, `{"impression_id":"%s","item":"a"}`, id))
		before := stored()
		require.NoError(t, d.run(time.Minute, func() bool { return stored() > before }))
	}
	_ = shell{d.w, zombie}.Checkpoint(late)

	d.hold = nil
	d.start()
	require.NoError(t, d.run(time.Minute, d.idle))
	return checkAccount(d.w, d.p)
}

// frozenAroundItsFence: an owner is frozen while a fetch answer is on its way. When it wakes, another owner has
// the partition and has ranked the impressions in the answer; its fence is due, and the store does not answer.
func frozenAroundItsFence(t *testing.T, s sabotage, _ storeRule) error {
	t.Helper()
	d := served(t, func(c *Config) { c.FenceInterval, c.sabotage = 10*time.Second, s })
	d.hold = func(e Effect) bool { _, probe := e.(Probe); return probe }
	require.NoError(t, d.run(time.Second, func() bool { return d.fetching(event.Impressions) }))
	zombie, flying := d.p, d.flying
	d.impress(6, 3, d.w.wall)
	for i := range flying { // requests under way are answered; the replies wait in the socket
		flying[i].at = d.w.mono
	}
	var answers []Reply
	for _, f := range flying {
		answers = append(answers, f.Carry(shell{d.w, zombie}))
	}
	d.hold = nil
	d.start()
	require.NoError(t, d.run(time.Minute, d.idle))

	d.w.pass(25 * time.Second)
	d.p, d.flying = zombie, nil
	d.hold = func(e Effect) bool { return ofStore(e) }
	d.advance()
	for _, reply := range answers {
		zombie.task.Handle(d.w.now(zombie), reply)
	}
	_ = d.run(10*time.Second, func() bool { return false })
	return checkLog(d.w, false)
}

// fetching reports whether a fetch of a topic is under way.
func (d *driver) fetching(topic event.Topic) bool {
	for _, f := range d.flying {
		if fetch, ok := f.Do.(Fetch); ok && fetch.Topic == topic {
			return true
		}
	}
	return false
}

// truncatedUnderTheQueue: payoffs that were fetched, and wait for their turn, are truncated by an unclean election, and others
// are written in their place.
func truncatedUnderTheQueue(t *testing.T, s sabotage, _ storeRule) error {
	t.Helper()
	d := served(t, func(c *Config) { c.sabotage = s })
	d.hold = func(e Effect) bool { _, lookup := e.(LookUp); return lookup } // they wait
	d.pay(2, 4, d.w.wall)
	log := d.w.inputs[event.Payoffs]
	require.NoError(t, d.run(time.Minute, func() bool { return d.p.task.run.queues[event.Payoffs].next == int64(len(log)) }))
	d.w.inputs[event.Payoffs] = log[:len(log)-4]
	d.w.epochs[event.Payoffs]++
	for i := range 4 {
		id := fmt.Sprintf("i-%d", 2+i)
		d.w.append(event.Payoffs, []byte(id), fmt.Appendf(nil, `{"impression_id":"%s","item":"a","payoff":0.25}`, id))
	}
	require.NoError(t, d.run(10*time.Second, func() bool { return d.p.task.Phase() == Stopped || d.w.mono > 8*time.Second }))
	if d.p.task.Phase() == Stopped {
		require.Equal(t, StopWitness, d.p.task.Status().Reason)
		return nil
	}
	return errors.New("records that are not in the log any more wait to be stepped, and nobody has noticed")
}

// savedByAZombie: the state lacks a logged decision that its checkpoint covers.
func savedByAZombie(t *testing.T, s sabotage, _ storeRule) error {
	t.Helper()
	d := served(t, func(c *Config) { c.sabotage = s })
	d.saveUnranked(t)
	d.start()
	require.NoError(t, d.run(time.Minute, func() bool { return d.p.task.Phase() == Stopped || d.idle() }))
	if d.p.task.Phase() == Stopped {
		require.ErrorIs(t, d.p.task.Status().Err, errContradiction)
		return nil
	}
	return checkAccount(d.w, d.p)
}
