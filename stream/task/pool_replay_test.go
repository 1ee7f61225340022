package task

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	retrace "github.com/ranker-worker/ranker-worker/stream/replay"
)

// Parts of the reasons for rankings that are not exact.
const (
	logEnds    = "before a ranking recorded it" // headers lack how far others had read an owner's last checkpoints where it died, or the log ends
	estimates  = "before the next snapshot"
	continues  = "its learner continues from other partitions' state"
	wentBack   = "the state went back, was rebuilt"
	omits      = "an owner omitted observations from its headers"
	notInBase  = "its reader's next snapshot is not there yet"
	beforeBase = "it was made by an earlier owner than the base's"
	// The base is of the beginning of a rebuild.
	nothingSealed = "the base lacks its owner's observations"
)

// replayed replays it all, from some bases. No ranking is different, and the stored state is the same. Rankings are not exact for these
// reasons alone, and for omitted observations where an owner omitted some.
func (pl *pool) replayed(t *testing.T, seed uint64, from [][]*retrace.Base, reasons ...string) retrace.Result {
	t.Helper()
	pl.from, pl.alike = from, 0
	sum := pl.replay(t, func(c *retrace.Config) {
		c.Made = func(m retrace.Made) bool {
			if at := pl.wentBack[m.Partition]; strings.HasPrefix(m.NotExact, wentBack) && (at[0] < 0 || m.Ranking.Offset < at[0]) {
				t.Errorf("seed %d: the ranking at %d of partition %d is not exact, whose store went back at %d", seed, m.Ranking.Offset, m.Partition, at)
			}
			return false
		}
	})
	t.Logf("seed %d: %d rankings, %d the same, %d checkpoints alike, not exact %v", seed, sum.Rankings, sum.Same, pl.alike, sum.NotExact)
	if sum.First != nil {
		t.Errorf("seed %d: %d different, the first in partition %d at %d:\n%s\n%s", seed, sum.Different, sum.First.Partition, sum.First.Ranking.Offset, sum.First.Ranking.Value, sum.First.Again)
	}
	require.Zero(t, pl.unlike, "seed %d: the stored state is another", seed)
	if pl.omitted(t) {
		reasons = append(reasons, omits)
	}
	for why := range sum.NotExact {
		known := false
		for _, reason := range reasons {
			known = known || strings.Contains(why, reason)
		}
		require.True(t, known, "seed %d: %s", seed, why)
	}
	return sum
}

// TestReplay_OfAStoreThatGoesBack: owners go on from restored states. A partition alone is made again exactly until then.
func TestReplay_OfAStoreThatGoesBack(t *testing.T) {
	t.Logf("-seed %d", *firstSeed)
	restored := dying
	restored.faults.rollback = 0.0005
	for i := range uint64(3 * *pools) {
		seed := *firstSeed + i
		alone := newPool(seed, 1, 1_000_000, &restored, habits{pauses: seed%2 == 0}, pooledLearners["qpmd"])
		alone.play(t)
		sum := alone.replayed(t, seed, nil, wentBack, logEnds, estimates, continues)
		require.Positive(t, alone.alike, "seed %d", seed)
		require.True(t, alone.wentBack[0][0] >= 0 || sum.Rankings == sum.Same, "seed %d: not exact %v", seed, sum.NotExact)
	}
}

// eachPool has pools of three partitions played, with each of these learners and several seeds.
func eachPool(t *testing.T, learners []string, faults *kind, play func(t *testing.T, seed uint64, pl *pool)) {
	for _, name := range learners {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			t.Logf("-seed %d", *firstSeed)
			for i := range *pools {
				seed := *firstSeed + uint64(i)
				play(t, seed, newPool(seed, 3, 1_000_000, faults, habits{groups: name == "groups", pauses: seed%2 == 0}, pooledLearners[name]))
			}
		})
	}
}

// TestReplay_OfAPoolThatGoesBack: the stores of partitions that pool are restored now and then.
func TestReplay_OfAPoolThatGoesBack(t *testing.T) {
	restored := dying
	restored.faults.rollback = 0.0005
	eachPool(t, pooledUnalike, &restored, func(t *testing.T, seed uint64, pl *pool) {
		pl.play(t)
		pl.replayed(t, seed, nil, wentBack, logEnds, estimates)
	})
}

// TestReplay_OfFreshProcesses: owners begin in processes that have read few publications of others.
func TestReplay_OfFreshProcesses(t *testing.T) {
	restored := dying
	restored.faults.rollback = 0.0003
	eachPool(t, []string{"exacting", "drift", "robust", "impressions", "features", "egreedy"}, &restored, func(t *testing.T, seed uint64, pl *pool) {
		pl.fresh = true
		pl.play(t)
		pl.replayed(t, seed, nil, wentBack, logEnds, estimates)
	})
}

// TestReplay_OfAPool: whatever dies, the rankings of several partitions that pool are made again from the topics, bit for bit. A replay
// from bases, taken one partition after the other while owners worked, makes the same rankings. Excepted are those so close behind the
// bases that headers do not record their owners' positions yet.
func TestReplay_OfAPool(t *testing.T) {
	eachPool(t, slices.Sorted(maps.Keys(pooledLearners)), &dying, func(t *testing.T, seed uint64, pl *pool) {
		pl.based = true
		pl.play(t)
		pl.replayed(t, seed, nil, logEnds, estimates, continues)
		pl.replayed(t, seed, pl.bases, logEnds, estimates, continues, notInBase, beforeBase)
	})
}

// TestReplay_FromABaseBehindARestore: the stores of partitions that pool go back, or are lost and rebuilt. A replay begins with the
// topics, or with a base that was taken before or during a rebuild. Behind that it goes on from a base taken while owners worked.
func TestReplay_FromABaseBehindARestore(t *testing.T) {
	eachPool(t, pooledUnalike, &dying, func(t *testing.T, seed uint64, pl *pool) {
		pl.restored, pl.rebuilt, pl.based = seed%3 != 0, seed%3 != 1, true
		pl.play(t)
		var behind [][]*retrace.Base
		for _, all := range pl.bases {
			behind = append(behind, all[1:])
		}
		pl.replayed(t, seed, nil, wentBack, logEnds, estimates)
		pl.replayed(t, seed, behind, wentBack, logEnds, estimates, notInBase, beforeBase) // the first may be of an owner that has not adopted all
		pl.replayed(t, seed, pl.bases, wentBack, logEnds, estimates, notInBase, beforeBase, nothingSealed)
	})
}

// TestReplay_OfCollidingIDs: a replay distinguishes impressions whose ids have the same hash.
func TestReplay_OfCollidingIDs(t *testing.T) {
	t.Logf("-seed %d", *firstSeed)
	for i := range uint64(4) {
		seed := *firstSeed + i
		pl := newPool(seed, 2, 1_000_000, &dying, habits{uuids: true}, pooledLearners["robust"])
		pl.play(t)
		pl.replayed(t, seed, nil, logEnds, estimates)
	}
}
