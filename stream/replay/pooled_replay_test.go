package replay

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ranker-worker/ranker-worker/delay"
	"github.com/ranker-worker/ranker-worker/policy"
	"github.com/ranker-worker/ranker-worker/stream/partition"
)

// TestGoTo_OverWhatIsNotKnown: a source is read whole, in parts, by a process that knew it as of a checkpoint older than the source's base. It
// stays not known until the whole is read.
func TestGoTo_OverWhatIsNotKnown(t *testing.T) {
	names := partition.NewNameTable()
	of := newPublished(1, nil, names)
	of.begin(stamp{7, 54}, nil)
	p := &replayed{run: &run{cfg: &Config{AtOnce: 10}, published: []*published{nil, of}}}
	p.pooled = newPooledReplay(&partition.Config{Pooled: partition.NewPooledState(nil, names)}, 2)
	at := partition.SourceAt{Known: true, Writer: 7, Seq: 54, Over: true, OverWriter: 5, OverSeq: 9}
	for at.Parts = 1; at.Parts < 4; at.Parts++ {
		require.NoError(t, p.goTo(1, at))
		require.NotEmpty(t, p.pooled.sources[1].bad, "part %d", at.Parts)
	}
	require.NoError(t, p.goTo(1, partition.SourceAt{Known: true, Whole: true, Writer: 7, Seq: 54}))
	require.Empty(t, p.pooled.sources[1].bad)
}

// TestStands_WithoutEstimates: a learner whose stored estimate is unknown uses it until its process has one of its own.
func TestStands_WithoutEstimates(t *testing.T) {
	learners := []partition.LearnerConfig{{Name: "feed", New: func() delay.Learner {
		return delay.NewDirect(policy.NewGreedy(), delay.Silence{Law: delay.SilenceAges, Horizon: 20_000})
	}}}
	p := &replayed{run: &run{cfg: &Config{AtOnce: 10}}}
	p.pooled = newPooledReplay(&partition.Config{Pooled: partition.NewPooledState(learners, partition.NewNameTable())}, 0)
	nothing := &partition.Observation{Kind: partition.SeenStand, Estimates: [][]byte{nil}}
	for _, loaded := range []bool{true, false} {
		p.pooled.unsure, p.pooled.loaded = estimatesUnknown, loaded
		require.NoError(t, p.stands(nothing))
		require.Equal(t, loaded, p.pooled.unsure != "")
	}
}
