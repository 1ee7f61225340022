package replay

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ranker-worker/ranker-worker/stream/partition"
)

// TestBehind_AGap: the owner of a base adopts so much, as behind a rebuild, that a gap stands in its header. The rankings that it adopts are
// known for an earlier owner's. Its own are followed behind a gap that is in the base, and not behind a later one.
func TestBehind_AGap(t *testing.T) {
	begun := partition.Sight{Kind: partition.SeenBegun, Begin: partition.SeenBegin{Writer: 7}}
	gap := func(sealed int64) partition.Sight { return partition.Sight{Kind: partition.SeenLost, N: sealed} }
	sealed, sent := partition.Sight{Kind: partition.SeenSealed}, partition.Sight{Kind: partition.SeenSent, N: 1}
	base := behind{seals: 2, sealed: 10, began: true, writer: 7}

	before := base
	told := []partition.Sight{begun, gap(8), sealed, sent, sealed, sent}
	require.True(t, before.earlier([]partition.Sight{sealed, sent}))
	require.False(t, before.earlier(told))
	require.Equal(t, []partition.Sight{sent}, before.fresh(told))
	require.Equal(t, []partition.Sight{sealed}, before.fresh([]partition.Sight{sealed}), "all later headers are followed")

	later := base
	require.Equal(t, []partition.Sight{gap(10), sealed, sent}, later.fresh([]partition.Sight{begun, gap(10), sealed, sent}))

	of := &published{}
	p := &replayed{run: &run{published: []*published{of}}, since: 3, sights: []partition.Sight{gap(10)}}
	_, err := p.look(false)
	require.ErrorContains(t, err, leftOut)
	require.True(t, of.gap, "rankings behind it are counted as not exact since")
}
