package partition

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ranker-worker/ranker-worker/delay"
	"github.com/ranker-worker/ranker-worker/policy"
	"github.com/ranker-worker/ranker-worker/state"
	"github.com/ranker-worker/ranker-worker/stream/event"
)

// TestWindowsArePooled: the published windows of one partition's users reach
// another's learner as absolute values, so that reading them twice changes nothing.
func TestWindowsArePooled(t *testing.T) {
	cfg := testConfig()
	l := &cfg.Learners[0]
	l.PolicyName, l.DelayName = "ftrl", "bold"
	base, err := policy.NewFTRL(1, true)
	require.NoError(t, err)
	l.New = func() delay.Learner {
		b, err := delay.NewBOLD(delay.BOLDConfig{Base: base, MaxInstances: 1})
		require.NoError(t, err)
		return b
	}
	one := newWorld(t, cfg)
	cfg.Partition, cfg.Names = 1, NewNameTable()
	cfg.Pooled = NewPooledState(cfg.Learners, cfg.Names)
	other := newWorld(t, cfg)
	one.now = day
	for _, id := range []string{"i-1", "i-2", "i-3"} {
		require.NoError(t, one.read(event.Impressions, id, impression(id, "a", "b"), day))
		require.NoError(t, one.read(event.Selections, id, event.AppendSelection(nil, &event.Selection{ID: []byte(id), Item: []byte("a")}), day))
	}
	var changes state.Changes
	one.m.Seal(&changes)
	var published []state.Field
	for _, w := range changes.Writes {
		if w.Publish {
			published = append(published, state.Field{Hash: w.Hash, Field: w.Field, Value: w.Value})
		}
	}
	r := NewPublishedReader(cfg.Learners, other.m.Names())
	require.Equal(t, []string{"experiments", "feed:items", "feed:catalogue", "feed:windows"}, r.Hashes())
	for range 2 {
		cfg.Pooled.Update(5, r.Read(5, published, func(err error) { t.Error(err) }))
		cfg.Pooled.Commit()
		require.EqualValues(t, 3, other.m.Learners()[0].Selections)
	}
	require.EqualValues(t, 3, one.m.Learners()[0].Selections)
	var theirs state.Changes
	other.m.Seal(&theirs)
	for _, w := range theirs.Writes {
		require.NotEqual(t, "feed:windows", w.Hash, "what others count is not stored as one's own")
	}
}
