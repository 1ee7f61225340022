package task

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

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
}

var mutations = []mutation{
	{name: "no fence", sabotage: sabotage{noFence: true}, within: 30,
		faults: faults{pause: 0.01, resume: 0.01, reassign: 0.01, lose: 0.02, stuck: 0.05}},
	{name: "no adoption", sabotage: sabotage{noAdoption: true}, within: 20,
		faults: faults{crash: 0.006, reassign: 0.003, lose: 0.02}},
	{name: "no sequences", sabotage: sabotage{noSequences: true}, within: 20, faults: faults{lose: 0.05}},
	{name: "checkpoint before the ack", sabotage: sabotage{unacked: true}, within: 30,
		faults: faults{crash: 0.006, fail: 0.05}},
	{name: "position past unadopted decisions", sabotage: sabotage{pastDecision: true}, within: 60,
		faults: faults{crash: 0.01, reassign: 0.01}, config: seldom},
	{name: "the day's rules before the cursor", within: 60, faults: faults{crash: 0.006, reassign: 0.003},
		config: seldom},
	{name: "a stale end for the cursor", sabotage: sabotage{listedEnd: true}, within: 30,
		faults: faults{crash: 0.006, reassign: 0.003}, world: func(w *world) { w.stale = true }},
	{name: "unchecked look-ups", sabotage: sabotage{unverified: true}, within: 300,
		faults: faults{rollback: 0.02, reassign: 0.002}, habits: habits{repeats: 2}},
	{name: "overlay forgotten too early", sabotage: sabotage{forgetEarly: true}, within: 100,
		faults: faults{slow: 0.3}},
	{name: "token alone", rule: tokenAlone, within: 100,
		faults: faults{rollback: 0.01, reassign: 0.002, lose: 0.02}},
	{name: "sequence alone", rule: seqAlone, within: 300,
		faults: faults{rollback: 0.01, pause: 0.01, resume: 0.01, reassign: 0.006, lose: 0.02, slow: 0.2}},
	{name: "an epoch counter", rule: epochCounter, within: 100,
		faults: faults{rollback: 0.01, pause: 0.01, resume: 0.01, reassign: 0.006, lose: 0.02}},
}

// seldom makes checkpoints rare, but those at the beginning of a replay.
func seldom(c *Config, _ *partition.Config, _ *rand.Rand) {
	c.CheckpointInterval = 700 * time.Millisecond
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
			mutant := m.kind(false)
			for seed := uint64(1); seed <= uint64(m.within); seed++ {
				_, err := mutant.run(seed, farAway, habits{})
				if err == nil {
					continue
				}
				t.Logf("%s: violation in schedule %d: %v", m.name, seed, err)
				whole := m.kind(true)
				_, err = whole.run(seed, farAway, habits{})
				require.NoError(t, err, "the whole protocol, -seed %d", seed)
				return
			}
			t.Fatalf("no violation in %d schedules", m.within)
		})
	}
}
