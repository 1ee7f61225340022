package event_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ranker-worker/ranker-worker/stream/event"
)

// A field that is ours but for case or a letter is ignored, as all unknown ones are, and counted, if ours is absent.
func TestMisspelt(t *testing.T) {
	for record, want := range map[string]event.Misspelling{
		`{"impression_id":"i","Learner":"x","candidates":[{"item":"a"}]}`:                  {1, "Learner", "learner"},
		`{"impression_id":"i","LEARNER":"x","candidates":[{"item":"a"}]}`:                  {1, "LEARNER", "learner"},
		`{"impression_id":"i","learnr":"x","candidates":[{"item":"a"}]}`:                   {1, "learnr", "learner"},
		`{"impression_id":"i","learnerr":"x","candidates":[{"item":"a"}]}`:                 {1, "learnerr", "learner"},
		`{"impression_id":"i","laerner":"x","candidates":[{"item":"a"}]}`:                  {1, "laerner", "learner"},
		`{"impression_id":"i","lebrner":"x","candidates":[{"item":"a"}]}`:                  {1, "lebrner", "learner"},
		`{"impressionId":"i","candidates":[{"item":"a"}]}`:                                 {1, "impressionId", "impression_id"},
		`{"impression-id":"i","candidates":[{"item":"a"}]}`:                                {1, "impression-id", "impression_id"},
		`{"impression_id":"i","candidates":[{"item":"a","Utility":1},{"item":"b","x":1}]}`: {1, "Utility", "utility"},
		`{"impression_id":"i","Learner":"x","learner":"y","candidates":[{"item":"a"}]}`:    {},
		`{"impression_id":"i","learned":"x","Learner":"y","candidates":[{"item":"a"}]}`:    {1, "learned", "learner"},
		`{"impression_id":"i","user":"x","tim":"y","candidates":[{"item":"a"}]}`:           {1, "tim", "time"},
		`{"impression_id":"i","earn":"x","candidates":[{"item":"a"}]}`:                     {},
		`{"impression_id":"i","":"x","candidates":[{"item":"a","_":1}]}`:                   {},
	} {
		d := event.NewDecoder(event.Limits{})
		var i event.Impression
		_ = d.Impression(&i, []byte("i"), []byte(record)) // a fault, or not: it is counted
		require.Equal(t, want, d.Misspelt(event.Impressions), record)
	}
	d := event.NewDecoder(event.Limits{})
	var p event.Payoff
	for range 3 {
		require.NoError(t, d.Payoff(&p, []byte("i"), []byte(`{"impression_id":"i","payoff":1,"eventId":"e","Item":"a"}`)))
	}
	require.Equal(t, event.Misspelling{Records: 3, Field: "eventId", Meant: "event_id"}, d.Misspelt(event.Payoffs))
	require.Zero(t, d.Misspelt(event.Impressions))
}
