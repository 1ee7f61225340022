//go:build mutants

package task

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ranker-worker/ranker-worker/stream/partition"
	retrace "github.com/ranker-worker/ranker-worker/stream/replay"
)

// dropping has a replay miss the observations that drop selects. drop may change those that stay.
func dropping(drop func(*partition.Observation) bool) func(*retrace.Config) {
	return func(c *retrace.Config) { c.Sabotage = drop }
}

// TestMutants_ReplaysCountWhatNoneCanCheck: if owners omit observations, and nothing else is missing, that is the reason of all rankings that
// are not exact. These are an owner's own since then, and those of partitions that had read it.
func TestMutants_ReplaysCountWhatNoneCanCheck(t *testing.T) {
	t.Logf("-seed %d", *firstSeed)
	// In 1 schedule in 3 no partition knew of a gap before its own: 20 schedules lack such rankings in less than 1 run in 10^6.
	for seed, others := uint64(0), int64(0); others == 0; seed++ {
		require.Less(t, seed, uint64(20), "nothing is counted of partitions that knew of a gap")
		pl := newPool(*firstSeed+seed, 2, 1_000_000, &kind{name: "calm"}, habits{}, pooledLearners["moss"])
		pl.play(t)
		seals := 0
		sum := pl.replay(t, dropping(func(s *partition.Observation) bool {
			if s.Kind == partition.SeenSealed {
				if seals++; seals >= 20 {
					s.Kind = partition.SeenLost
				}
			}
			return false
		}))
		require.Zero(t, sum.Different, "%+v", sum.First)
		others = sum.Rankings - sum.Same
		for why := range sum.NotExact {
			require.Contains(t, why, omits)
		}
		own := sum.NotExact[omits].Rankings
		require.Positive(t, own)
		others -= own
	}
}

// observed is one kind of observation, and the counts of replays without it.
type observed struct {
	name          string
	kind          partition.ObservationKind
	dropped, lost int64 // observations, and rankings that are different or not exact
}

// enough reports whether replays were played often enough. In 1 schedule in 3 the kind that matters least makes no difference: 60 schedules
// lack enough in less than 1 run in 10^6.
func (o *observed) enough(schedules uint64) bool {
	return schedules >= 6 && o.lost > 50 || schedules >= 60
}

// TestMutants_ReplaysNeedAllThatWasSeen: without any one kind of observation, rankings differ or are known not to be exact; if the remaining
// observations do not contradict each other, they differ.
func TestMutants_ReplaysNeedAllThatWasSeen(t *testing.T) {
	for learner, kinds := range map[string][]observed{
		"robust": {{name: "event time acted upon", kind: partition.SeenWatermark}},
		"bold":   {{name: "impressions that end", kind: partition.SeenVisit}},
		"moss": {
			{name: "impressions that end with a selection", kind: partition.SeenEnd},
			{name: "segments sealed", kind: partition.SeenSealed},
			{name: "checkpoints sent", kind: partition.SeenSent},
			{name: "epochs", kind: partition.SeenEpoch},
			{name: "owners that begin", kind: partition.SeenBegun},
		},
	} {
		t.Run(learner, func(t *testing.T) {
			t.Parallel()
			t.Logf("-seed %d", *firstSeed)
			for seed, left := uint64(0), len(kinds); left > 0; seed++ {
				pl := newPool(*firstSeed+seed, 3, 1_000_000, &dying, habits{}, pooledLearners[learner])
				pl.play(t)
				require.Zero(t, pl.replay(t).Different)
				left = 0
				for i := range kinds {
					if kinds[i].enough(seed) {
						continue
					}
					kinds[i].replay(t, pl)
					if !kinds[i].enough(seed + 1) {
						left++
					}
				}
			}
			for _, o := range kinds {
				require.Positive(t, o.dropped, o.name)
				require.Greater(t, o.lost, int64(50), o.name)
			}
		})
	}
}

// replay replays a pool without the observations.
func (o *observed) replay(t *testing.T, pl *pool) {
	sum := pl.replay(t, dropping(func(s *partition.Observation) bool {
		if s.Kind == o.kind {
			o.dropped++
		}
		return s.Kind == o.kind
	}))
	o.lost += sum.Rankings - sum.Same
	t.Logf("without %s: %d different, not exact %v", o.name, sum.Different, sum.NotExact)
}
