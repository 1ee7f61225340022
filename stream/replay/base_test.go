package replay

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ranker-worker/ranker-worker/stream/partition"
)

// TestBehind_AGap: the owner of a base adopts so much, as behind a rebuild, that a gap stands in its header. The rankings that it adopts are
// known for an earlier owner's. Its own are followed behind a gap that is in the base, and not behind a later one.
func TestBehind_AGap(t *testing.T) {
	begun := partition.Observation{Kind: partition.SeenBegun, Begin: partition.ObservationBegin{Writer: 7}}
	gap := func(sealed int64) partition.Observation {
		return partition.Observation{Kind: partition.SeenLost, N: sealed}
	}
	sealed, sent := partition.Observation{Kind: partition.SeenSealed}, partition.Observation{Kind: partition.SeenSent, N: 1}
	base := behind{seals: 2, sealed: 10, began: true, writers: []uint32{7}}

	before := base
	seen := []partition.Observation{begun, gap(8), sealed, sent, sealed, sent}
	require.True(t, before.earlier([]partition.Observation{sealed, sent}))
	require.False(t, before.earlier(seen))
	require.Equal(t, []partition.Observation{sent}, before.fresh(seen))
	require.Equal(t, []partition.Observation{sealed}, before.fresh([]partition.Observation{sealed}), "all later headers are followed")

	later := base
	require.Equal(t, []partition.Observation{gap(10), sealed, sent}, later.fresh([]partition.Observation{begun, gap(10), sealed, sent}))

	back := base
	other := partition.Observation{Kind: partition.SeenBegun, Begin: partition.ObservationBegin{Writer: 8}}
	require.Equal(t, []partition.Observation{other, sealed}, back.fresh([]partition.Observation{sealed, other, sealed}), "the store went back")

	p := &replayed{since: 3, pending: []partition.Observation{gap(10)}}
	_, err := p.look(false)
	require.ErrorContains(t, err, leftOut)
}
