package partition

import (
	"fmt"
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

// An item ends and is met again in one checkpoint. Readers take in the deletions of its old number before the values of its new one, though
// "9" is behind "10".
func TestPublished_DeletionsComeFirst(t *testing.T) {
	cfg := testConfig()
	cfg.Learners[0].New = thompsonAtOnce(t)
	names := NewNameTable()
	k, r := NewPooledState(cfg.Learners, names), NewPublishedReader(cfg.Learners, names)
	update := func(fields ...state.Field) {
		k.Update(1, r.Read(1, fields, func(err error) { require.NoError(t, err) }))
		k.Commit()
	}
	row := func(no int) state.Field {
		return state.Field{Hash: "feed:" + ItemsHash, Field: []byte("a"), Value: fmt.Appendf(nil, `{"no":%d,"n":0,"sum":0,"sumsq":0}`, no)}
	}
	flights := func(no, value string) state.Field {
		f := state.Field{Hash: "feed:flights", Field: []byte(no)}
		if value != "" {
			f.Value = []byte(value)
		}
		return f
	}
	a := names.Numbers(nil, [][]byte{[]byte("a")})[0]
	update(row(9), flights("9", "2"))
	require.EqualValues(t, 2, k.globals["feed"].Evidence(a).W)
	update(row(10), flights("9", ""), flights("10", "1"))
	require.EqualValues(t, 1, k.globals["feed"].Evidence(a).W)
}
