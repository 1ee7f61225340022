package stream

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ranker-worker/ranker-worker/state"
	"github.com/ranker-worker/ranker-worker/stream/partition"
)

// configuredAs is a worker's announcement, with one learner unless others are given.
func configuredAs(id, fingerprint string) state.WorkerInfo {
	return state.WorkerInfo{ID: id, Learners: map[string]string{"feed": fingerprint}}
}

func refusedFor(stored map[string]string) share {
	return share{unfit: &partition.UnfitError{Learner: "feed", Stored: stored}}
}

// TestStandby_Rules: whom a worker with the learner feed as "new" leaves its partitions to.
func TestStandby_Rules(t *testing.T) {
	old := map[string]string{"feed": "old"}
	at := func(shares ...share) map[int32]share {
		all := map[int32]share{}
		for p, one := range shares {
			all[int32(p)] = one
		}
		return all
	}
	refused, used, idle := refusedFor(old), share{served: true, used: true}, share{served: true}
	fits := configuredAs("a", "old")
	also := configuredAs("a", "old")
	also.Learners["front"] = "f"
	refuses := fits
	refuses.Refuses = true
	for name, c := range map[string]struct {
		shares map[int32]share
		other  state.WorkerInfo
		leaves bool
	}{
		"another fits":                               {at(refused, refused), fits, true},
		"another has the same":                       {at(refused, refused), configuredAs("a", "new"), false},
		"another has yet another":                    {at(refused), configuredAs("a", "other"), false},
		"another lacks the learner":                  {at(refused), state.WorkerInfo{ID: "a"}, false},
		"itself, as an earlier process":              {at(refused), configuredAs("self", "old"), false},
		"another was refused something, too":         {at(refused), refuses, false},
		"nothing was refused":                        {at(used, idle), fits, false},
		"no partitions":                              {nil, fits, false},
		"one is served":                              {at(refused, used), fits, false},
		"one is served that has read nothing":        {at(refused, idle), fits, true},
		"one begins":                                 {at(refused, share{begins: true}), fits, false},
		"one waits for Kafka":                        {at(refused, share{}), fits, true},
		"two are stored as different":                {at(refused, refusedFor(map[string]string{"feed": "other"})), fits, false},
		"one more is stored, which nobody has":       {at(refusedFor(map[string]string{"feed": "old", "gone": "g"})), fits, true},
		"one more is stored, which it has otherwise": {at(refusedFor(map[string]string{"feed": "old", "front": "g"})), also, false},
		"one more is stored, as it has it":           {at(refusedFor(map[string]string{"feed": "old", "front": "f"})), also, true},
	} {
		t.Run(name, func(t *testing.T) {
			self := configuredAs("self", "new")
			s := newStandby(&self)
			s.look(c.shares)
			s.decide(time.Hour, []state.WorkerInfo{c.other, configuredAs("b", "new")})
			require.Equal(t, c.leaves, s.away)
		})
	}
}

// TestStandby_JoinsAgain: when no worker that fits is announced any more, after a while; and it leaves again less and less soon.
func TestStandby_JoinsAgain(t *testing.T) {
	self := configuredAs("self", "new")
	s := newStandby(&self)
	refused, fits := map[int32]share{0: refusedFor(map[string]string{"feed": "old"})}, []state.WorkerInfo{configuredAs("a", "old")}
	now := time.Hour
	var pauses []time.Duration
	for range 8 {
		joined := now
		for !s.away {
			now += time.Second
			s.look(refused)
			s.decide(now, fits)
		}
		pauses = append(pauses, now-joined)
		for range 3 {
			now += standbyLinger - time.Second // restarted meanwhile
			s.look(nil)
			s.decide(now, nil)
			require.True(t, s.away)
			s.decide(now, fits)
		}
		now += standbyLinger
		s.decide(now, nil)
		require.False(t, s.away)
		require.True(t, s.refuses())
	}
	require.Equal(t, []time.Duration{1, 10, 20, 40, 80, 160, 300, 300}, div(pauses, time.Second))

	s.look(map[int32]share{0: {served: true}, 1: {}})
	require.True(t, s.refuses(), "not all are served yet")
	s.look(map[int32]share{0: {served: true}, 1: {served: true, used: true}})
	require.False(t, s.refuses())
}

func div(all []time.Duration, unit time.Duration) (out []time.Duration) {
	for _, d := range all {
		out = append(out, d.Round(unit)/unit)
	}
	return out
}

// standbyMember is a worker of a standbyWorld.
type standbyMember struct {
	info   state.WorkerInfo
	s      *standby
	owns   []int32
	said   time.Duration // when it announced itself last
	phase  time.Duration // when it looks
	dead   bool
	leaves int
}

// standbyWorld is a group in which members come, go and die, by the second, with the balancer's own division.
type standbyWorld struct {
	t          *testing.T
	rng        *rand.Rand
	now        time.Duration
	stored     []string // by partition: the fingerprint that its state was begun with; "": nothing is stored
	members    []*standbyMember
	generation int64
	born       int
	moved      time.Duration // when somebody last left to stand by, or joined again
}

func (w *standbyWorld) arrive(fingerprint string) {
	w.born++
	m := &standbyMember{info: configuredAs(fmt.Sprintf("w%03d", w.born), fingerprint), said: w.now, phase: time.Duration(w.rng.IntN(5)) * time.Second}
	m.s = newStandby(&m.info)
	w.members = append(w.members, m)
	w.rebalance()
}

// rebalance divides the partitions among those that live and do not stand by. The dead count for a while in the registry only.
func (w *standbyWorld) rebalance() {
	w.generation++
	var claimants []claimant
	for _, m := range w.members {
		if !m.dead && !m.s.away {
			claimants = append(claimants, claimant{m.info.ID, claim{w.generation, m.owns}})
		}
	}
	numbers := make([]int32, len(w.stored))
	for p := range numbers {
		numbers[p] = int32(p)
	}
	owners := divide(claimants, numbers)
	for _, m := range w.members {
		m.owns = owners[m.info.ID]
	}
}

func (w *standbyWorld) step() {
	w.now += time.Second
	for _, i := range w.rng.Perm(len(w.members)) {
		m := w.members[i]
		if m.dead {
			continue
		}
		shares := map[int32]share{}
		for _, p := range m.owns {
			switch mine := m.info.Learners["feed"]; w.stored[p] {
			case "":
				if w.rng.IntN(3) == 0 { // a record comes
					w.stored[p] = mine
				}
				shares[p] = share{served: true, used: w.stored[p] != ""}
			case mine:
				shares[p] = share{served: true, used: true}
			default:
				shares[p] = refusedFor(map[string]string{"feed": w.stored[p]})
			}
		}
		said := m.info
		m.s.look(shares)
		m.info.Refuses, m.info.StandsBy = m.s.refuses(), m.s.away
		if w.now%(5*time.Second) != m.phase && said.Refuses == m.info.Refuses && said.StandsBy == m.info.StandsBy {
			continue
		}
		m.said = w.now
		was := m.s.away
		m.s.decide(w.now, w.announced())
		if m.s.away != was {
			w.moved = w.now
			if m.s.away {
				m.leaves++
				require.False(w.t, slices.ContainsFunc(m.owns, func(p int32) bool { return w.stored[p] == m.info.Learners["feed"] }), "what it serves it keeps")
			}
			w.rebalance()
		}
	}
}

func (w *standbyWorld) announced() (all []state.WorkerInfo) {
	for _, m := range w.members {
		if w.now-m.said <= state.WorkerCounts {
			all = append(all, m.info)
		}
	}
	return all
}

// remove ends one: killed, it stays announced for a while.
func (w *standbyWorld) remove(i int, killed bool) {
	if killed {
		w.members[i].dead = true
	} else {
		w.members = slices.Delete(w.members, i, i+1)
	}
	w.rebalance()
}

// calm lets time pass in which nobody comes or goes, and gives how many partitions are served.
func (w *standbyWorld) calm(d time.Duration) (served int) {
	for end := w.now + d; w.now < end; {
		w.step()
	}
	for _, m := range w.members {
		for _, p := range m.owns {
			if w.stored[p] == m.info.Learners["feed"] {
				served++
			}
		}
	}
	return served
}

func (w *standbyWorld) dead() (n int) {
	for _, m := range w.members {
		if m.dead {
			n++
		}
	}
	return n
}

// lives tells whether somebody lives that has a configuration, or any.
func (w *standbyWorld) lives(fingerprint string) bool {
	return slices.ContainsFunc(w.members, func(m *standbyMember) bool {
		return !m.dead && (fingerprint == "" || m.info.Learners["feed"] == fingerprint)
	})
}

// TestStandby_Simulation: members come, go and die with three configurations. Where one has begun all partitions, a worker that has it
// serves all of them in the end, if one lives; where none does, nobody stands by. Whatever was begun by whom, there is an end to leaving.
func TestStandby_Simulation(t *testing.T) {
	for seed := range uint64(120) {
		rng := rand.New(rand.NewPCG(seed, 16))
		w := &standbyWorld{t: t, rng: rng, stored: make([]string, 1+rng.IntN(9))}
		mixed := seed%4 == 3
		for p := range w.stored {
			w.stored[p] = "x"
			if mixed {
				w.stored[p] = []string{"x", "y", ""}[rng.IntN(3)]
			}
		}
		for range 3 {
			for range 4 + rng.IntN(12) {
				switch n := rng.IntN(5); {
				case n < 3:
					w.arrive([]string{"x", "y", "z"}[rng.IntN(3)])
				case len(w.members) > 0:
					w.remove(rng.IntN(len(w.members)), n == 3)
				}
				w.calm(time.Duration(rng.IntN(40)) * time.Second)
			}
			served := w.calm(15 * time.Minute)
			before := w.moved
			w.calm(30 * time.Minute)
			require.Equal(t, before, w.moved, "seed %d: nobody flaps for ever", seed)
			away := 0
			for _, m := range w.members {
				if m.s.away && !m.dead {
					away++
				}
			}
			if !w.lives("") {
				continue
			}
			require.Less(t, away, len(w.members)-w.dead(), "seed %d: not all stand by", seed)
			if mixed {
				continue
			}
			if w.lives("x") {
				require.Equal(t, len(w.stored), served, "seed %d: all partitions are at workers that fit", seed)
			} else {
				require.Zero(t, away, "seed %d: the fault is seen", seed)
			}
		}
	}
}

// TestStandby_AlternatingPeerIsNotFollowedForEver: a worker that fits and comes and goes costs fewer and fewer rebalances.
func TestStandby_AlternatingPeerIsNotFollowedForEver(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	w := &standbyWorld{t: t, rng: rng, stored: []string{"x", "x", "x"}}
	w.arrive("y")
	for range 60 {
		w.arrive("x")
		w.calm(30 * time.Second)
		w.remove(1, false)
		w.calm(30 * time.Second)
	}
	require.Less(t, w.members[0].leaves, 20)
	require.Greater(t, w.members[0].leaves, 3)
}

// TestStandby_EachIsRefusedWhatTheOtherHas: two workers, each of which is given what the other one's configuration began, do not
// stand by for each other again and again.
func TestStandby_EachIsRefusedWhatTheOtherHas(t *testing.T) {
	for seed := range uint64(50) {
		w := &standbyWorld{t: t, rng: rand.New(rand.NewPCG(seed, 3)), stored: []string{"y", "x"}}
		w.arrive("x")
		w.arrive("y")
		require.Equal(t, []int32{0}, w.members[0].owns)
		w.calm(5 * time.Minute)
		before := w.moved
		w.calm(2 * time.Hour)
		require.Equal(t, before, w.moved, "seed %d", seed)
		require.LessOrEqual(t, w.members[0].leaves+w.members[1].leaves, 1, "seed %d", seed)
		require.False(t, w.members[0].s.away && w.members[1].s.away, "seed %d", seed)
	}
}
