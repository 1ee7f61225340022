package joinedlog

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ranker-worker/ranker-worker/stream/event"
)

// Of an impression its segment is kept, and its candidates' categories in the order that was found.
func TestAbout_Groups(t *testing.T) {
	j := newJoin(&Query{Context: true}, &Log{})
	j.order = []int32{1, 0}
	kept := j.about(&event.Impression{Candidates: []event.Candidate{{Item: []byte("a"), Utility: 2}, {Item: []byte("b"), Utility: 1}}, Context: event.Context{
		Segment: []byte("new"), Candidates: []event.CandidateContext{{Category: []byte("news")}, {Category: []byte("sports")}}}})
	var got event.Impression
	d := event.NewFormatsDecoder(event.Limits{}, event.Formats{event.Protobuf}).WithContext()
	require.NoError(t, d.ImpressionIn(&got, []byte("i"), event.Content{Form: event.Protobuf, Value: kept}))
	require.Nil(t, got.Context.Fault)
	require.Equal(t, "new", string(got.Context.Segment))
	require.Equal(t, "sports", string(got.Context.Candidates[0].Category))
	require.Equal(t, "news", string(got.Context.Candidates[1].Category))
}
