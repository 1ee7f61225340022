package serve

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ranker-worker/ranker-worker/stream/event"
	"github.com/ranker-worker/ranker-worker/stream/partition"
)

// TestSubstitutesAreUnderTheRules: they are by utility, but for excluded candidates, pins and caps.
func TestSubstitutesAreUnderTheRules(t *testing.T) {
	var i event.Impression
	require.NoError(t, event.NewKeylessDecoder(event.Limits{}).WithContext().Impression(&i, nil, []byte(`{"impression_id":"i","exclude":["out"],"candidates":[
		{"item":"low","utility":1,"pin":2},{"item":"out","utility":9},{"item":"best","utility":5,"category":"ads"},{"item":"good","utility":4,"category":"ads"},{"item":"fair","utility":3}]}`)))
	require.Equal(t, []string{"best", "low", "fair", "good"}, byUtility(&i, []partition.Cap{{Category: "ads", Most: 1, First: 3}}))
	require.Equal(t, []string{"best", "low", "good", "fair"}, byUtility(&i, nil))
	for k := range i.Candidates {
		i.Candidates[k].Pin = 0
	}
	i.HasUtilities = false
	require.Equal(t, []string{"low", "best", "good", "fair"}, byUtility(&i, nil), "as given")
}
