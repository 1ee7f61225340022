package task

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ranker-worker/ranker-worker/stream/event"
	"github.com/ranker-worker/ranker-worker/stream/partition"
)

// mutation is the protocol with one rule taken out.
type mutation struct {
	name     string
	sabotage sabotage
	rule     storeRule
	faults   faults
	habits   habits
	world    func(w *world)
	config   func(c *Config, m *partition.Config, rng *rand.Rand)
	within   int // schedules in which the violation must show itself
	// scenario is played instead of schedules: those in which a sequence comes round again are too rare.
	scenario func(t *testing.T, r storeRule) error
}

var mutations = []mutation{
	{name: "no fence", sabotage: sabotage{noFence: true}, within: 60,
		faults: faults{pause: 0.01, resume: 0.01, reassign: 0.006, stuck: 0.3}},
	{name: "no adoption", sabotage: sabotage{noAdoption: true}, within: 30,
		faults: faults{crash: 0.006, reassign: 0.003, lose: 0.02}},
	{name: "no sequences", sabotage: sabotage{noSequences: true}, within: 30, faults: faults{lose: 0.05}},
	{name: "checkpoint before the ack", sabotage: sabotage{unacked: true}, within: 60,
		faults: faults{crash: 0.006, fail: 0.1, stuck: 0.3}, config: often},
	{name: "position past unadopted decisions", sabotage: sabotage{pastDecision: true}, within: 150,
		faults: faults{crash: 0.01, stuck: 0.1, slow: 0.1, relapse: 0.02}, config: often},
	{name: "the day's rules before the cursor", within: 60, faults: faults{crash: 0.006, stuck: 0.2},
		config: often},
	{name: "a stale end for the cursor", sabotage: sabotage{listedEnd: true}, within: 60,
		faults: faults{crash: 0.006, stuck: 0.3}, world: func(w *world) { w.stale = true }},
	{name: "unchecked look-ups", sabotage: sabotage{unverified: true}, within: 100,
		faults: faults{rollback: 0.02, reassign: 0.002}, habits: habits{repeats: 2}},
	{name: "overlay forgotten too early", sabotage: sabotage{forgetEarly: true}, within: 150,
		faults: faults{slow: 0.3}, config: often},
	{name: "token alone", rule: tokenAlone, within: 60,
		faults: faults{rollback: 0.01, reassign: 0.002, lose: 0.02}},
	{name: "sequence alone", rule: seqAlone, scenario: rolledBackUnderAZombie},
	{name: "an epoch counter", rule: epochCounter, within: 100,
		faults: faults{rollback: 0.01, pause: 0.01, resume: 0.01, reassign: 0.006, lose: 0.02}},
}

// often makes checkpoints of some owners follow each other at once, and those of others rare.
func often(c *Config, _ *partition.Config, rng *rand.Rand) {
	c.CheckpointInterval = []time.Duration{time.Millisecond, 3 * time.Second}[rng.IntN(2)]
}

// kind makes a kind of schedule of a mutation; sound leaves the protocol whole.
func (m *mutation) kind(sound bool) kind {
	k := kind{name: m.name, faults: m.faults, habits: m.habits}
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

// TestMutations_AreCaught takes one rule out of the protocol at a time and shows that the simulation finds a violation
// in a bounded number of schedules, and none in the same schedules of the whole protocol. Rules that nothing in the
// simulation misses would not be tested by it.
func TestMutations_AreCaught(t *testing.T) {
	for _, m := range mutations {
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			if m.scenario != nil {
				violation := m.scenario(t, m.rule)
				require.Error(t, violation)
				t.Logf("%-36s violation in a scenario of its own: %v", m.name, violation)
				require.NoError(t, m.scenario(t, tokenAndSeq))
				return
			}
			mutant, whole := m.kind(false), m.kind(true)
			// One violation is enough; a long run counts how many schedules have one.
			caught, played, first := 0, 0, error(nil)
			for seed := uint64(1); seed <= uint64(m.within) && (caught == 0 || *schedules > usual); seed++ {
				played++
				_, err := mutant.run(seed, farAway, habits{})
				if err == nil {
					continue
				}
				if caught++; first == nil {
					first = fmt.Errorf("-seed %d: %w", seed, err)
					_, err = whole.run(seed, farAway, habits{})
					require.NoError(t, err, "the whole protocol, -seed %d", seed)
				}
			}
			if caught > 0 {
				t.Logf("%-36s violation in %3d of %3d schedules, the first with %v", m.name, caught, played, first)
				return
			}
			t.Fatalf("no violation in %d schedules", m.within)
		})
	}
}

// rolledBackUnderAZombie: an owner's checkpoint is on its way for long. Meanwhile the store goes back to an older copy,
// and the next owner's checkpoints reach the very sequence that the late one follows.
func rolledBackUnderAZombie(t *testing.T, r storeRule) error {
	t.Helper()
	d := served(t, nil)
	d.w.rule = r
	older := d.w.store.Copy(0)
	d.impress(6, 3, d.w.wall)
	require.NoError(t, d.run(time.Minute, d.idle))

	var late Effect
	d.hold = func(e Effect) bool {
		_, ok := e.(Checkpoint)
		if ok {
			late = e
		}
		return ok
	}
	d.impress(9, 3, d.w.wall)
	require.NoError(t, d.run(time.Minute, func() bool { return late != nil }))
	zombie := d.p

	d.w.store.Restore(0, older)
	follows := late.(Checkpoint).Checkpoint.Fence.Seq
	d.hold = func(e Effect) bool { // the next owner reads selections first, and gets as far as that sequence
		c, checkpoint := e.(Checkpoint)
		f, fetch := e.(Fetch)
		return checkpoint && c.Checkpoint.Fence.Seq == follows || fetch && f.Parts[0].Topic == event.Impressions && d.p.task.run != nil
	}
	d.start()
	stored := func() int64 { return d.w.store.Copy(0).Meta().Seq }
	for i := 2; stored() < follows; i++ {
		id := fmt.Sprintf("i-%d", i)
		d.w.append(event.Selections, []byte(id), fmt.Appendf(nil, `{"impression_id":"%s","item":"a"}`, id))
		before := stored()
		require.NoError(t, d.run(time.Minute, func() bool { return stored() > before }))
	}
	_, _ = d.w.stored(zombie, late)

	d.hold = nil
	d.start()
	require.NoError(t, d.run(time.Minute, d.idle))
	return checkAccount(d.w, d.p)
}
