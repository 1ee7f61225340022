package checker

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ranker-worker/ranker-worker/delay"
	"github.com/ranker-worker/ranker-worker/policy"
	stored "github.com/ranker-worker/ranker-worker/state"
	"github.com/ranker-worker/ranker-worker/stream/event"
	"github.com/ranker-worker/ranker-worker/stream/partition"
)

// expecting is a learner that expects of an item the more the lower it is shown.
type expecting struct{ delay.Learner }

func (expecting) Expects() bool { return true }

func (l expecting) Decide(candidates []policy.Item, about *policy.Context, key policy.Key, d *delay.Decision) {
	l.Learner.Decide(candidates, nil, key, d)
	for k := range d.Order {
		d.Expected = append(d.Expected, float64(k)*0.4-0.5)
	}
}

// TestEntry_SaysWhatWasExpected: a stored impression has its ranking's
// expected payoffs, before and after its selection; other values are found.
func TestEntry_SaysWhatWasExpected(t *testing.T) {
	m, err := partition.New(partition.Config{Group: "g", HasSelections: true, MaxCandidates: 9, MaxRecordBytes: 1000, MaxRankingBytes: 2000,
		Learners: []partition.LearnerConfig{{Name: "feed", PolicyName: "greedy", DelayName: "direct", PayoffMax: 1, PayoffHorizon: 1000,
			SelectionTimeout: 1000, New: func() delay.Learner {
				return expecting{delay.NewDirect(policy.NewGreedy(), delay.Silence{})}
			}}}})
	require.NoError(t, err)
	require.NoError(t, m.Loaded())
	m.KnownComplete()
	var out partition.Output
	step := func(topic event.Topic, value string) *entry {
		r := partition.Record{Topic: topic, Timestamp: 1, Key: []byte("i"), Value: []byte(value)}
		require.NoError(t, m.Step(&partition.Input{Record: &r, Now: 1}, &out))
		var c stored.Changes
		m.Seal(&c)
		require.Len(t, c.Entries, 1)
		kept := c.Entries[0].Value
		if kept[0] == 0xff { // the partitioner's hash of the id's text
			kept = kept[5:]
		}
		e, err := decodeEntry(kept, 0)
		require.NoError(t, err)
		return e
	}
	undecided := step(event.Impressions, `{"impression_id":"i","candidates":[{"item":"a","utility":1},{"item":"b","utility":2},{"item":"c","utility":3}]}`)
	var r event.Ranking
	require.Len(t, out.Rankings, 1)
	require.NoError(t, event.NewDecoder(event.Limits{}).Ranking(&r, out.Rankings[0].Value))
	require.Equal(t, []float64{-0.5, -0.1, 0.3}, r.Decision.Expected)
	require.Equal(t, []int64{-500_000, -100_000, 300_000}, undecided.expected)
	again, err := decodeEntry(encodeEntry(undecided), undecided.bucket)
	require.NoError(t, err)
	require.Equal(t, undecided, again)
	require.True(t, sameExpected(undecided, -1, r.Decision.Expected))
	require.False(t, sameExpected(undecided, -1, nil))

	selected := step(event.Selections, `{"impression_id":"i","item":"`+string(r.Items[1])+`"}`)
	require.Equal(t, []int64{-100_000}, selected.expected)
	require.True(t, sameExpected(selected, 1, r.Decision.Expected))
	require.False(t, sameExpected(selected, 1, r.Decision.Expected[1:]))
	require.False(t, sameExpected(selected, 1, nil))
	require.False(t, sameExpected(selected, 2, r.Decision.Expected))
	again, err = decodeEntry(encodeEntry(selected), selected.bucket)
	require.NoError(t, err)
	require.Equal(t, selected, again)
	undecided.expected = undecided.expected[:2]
	require.False(t, sameExpected(undecided, -1, r.Decision.Expected))
	require.False(t, sameExpected(&entry{selected: -1}, -1, r.Decision.Expected), "it is lost")
}
