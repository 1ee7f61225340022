package admin

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ranker-worker/ranker-worker/state"
)

// TestImportedIsWhatWasTakenIn: the recorded import equals that of a machine with imports only,
// without instances of BOLD that the learner had, and is read back as the learner's own fields.
func TestImportedIsWhatWasTakenIn(t *testing.T) {
	own := []state.Write{
		{Hash: "feed:items", Field: []byte("a b"), Value: []byte("{}")},
		{Hash: "feed:rounds", Field: []byte("0:10"), Value: []byte("3")},
		{Hash: "feed:rounds", Field: []byte("1:10"), Value: []byte("4")},
		{Hash: "feed:vectors", Field: []byte("0:10:0"), Value: []byte("x")},
		{Hash: "feed:vectors", Field: []byte("1:10:0"), Value: []byte("y")},
		{Hash: "feeder:items", Field: []byte("c"), Value: []byte("{}")},
		{Hash: "meta", Field: []byte("salt"), Value: []byte("1")},
	}
	taken := []state.Write{{Hash: "feed:rounds", Field: []byte("1:10"), Value: []byte("4")}, {Hash: "feed:rounds", Field: []byte("0:10")}}
	kept := imported("feed", own, taken)
	require.Len(t, kept, 3)
	stored := []state.Field{{Hash: "meta", Field: []byte("token"), Value: []byte("t")}}
	for _, w := range kept {
		require.Equal(t, importedHash("feed"), w.Hash)
		stored = append(stored, state.Field{Hash: w.Hash, Field: w.Field, Value: w.Value})
	}
	exported, others := cutImported("feed", stored)
	require.Equal(t, stored[:1], others)
	require.Equal(t, []state.Field{
		{Hash: "feed:items", Field: []byte("a b"), Value: []byte("{}")},
		{Hash: "feed:rounds", Field: []byte("1:10"), Value: []byte("4")},
		{Hash: "feed:vectors", Field: []byte("1:10:0"), Value: []byte("y")},
	}, exported)
}

// TestTakenUntilReset: a learner's imports count until its reset, also across a reshard, and independently of others' resets.
func TestTakenUntilReset(t *testing.T) {
	one, two, other := Taken{"feed", "one"}, Taken{"feed", "two"}, Taken{"shop", "one"}
	past := []History{{Done: "reshard", Taken: []Taken{one, other}}, {Done: "import", Learner: "feed", Detail: "two"}}
	require.Equal(t, []Taken{one, other, two}, allTaken(past))
	past = append(past, History{Done: "reset", Learner: "feed"})
	require.Equal(t, []Taken{other}, allTaken(past))
	past = append(past, History{Done: "import", Learner: "feed", Detail: "one"}, History{Done: "reset", Learner: "none"})
	require.Equal(t, []Taken{other, one}, allTaken(past))
}
