package task

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ranker-worker/ranker-worker/stream/event"
	"github.com/ranker-worker/ranker-worker/stream/partition"
)

// forgotten are the segments that may be forgotten now.
func forgotten(l *lookups) (all []uint64) {
	for {
		segment, ok := l.forgettable(false)
		if !ok {
			return all
		}
		all = append(all, segment)
	}
}

func TestLookups_OneIdIsAskedForOnce(t *testing.T) {
	l := newLookups()
	for offset, key := range []string{"a", "b", "a"} {
		l.add(event.Payoffs, &partition.Record{Offset: int64(offset), Key: []byte(key)})
	}
	require.Equal(t, [][]byte{[]byte("a"), []byte("b")}, l.ids)
	require.Equal(t, []lookupRef{{event.Payoffs, 0, 0}, {event.Payoffs, 1, 1}, {event.Payoffs, 2, 0}}, l.refs)
	asked := l.ids
	l.clear()
	l.add(event.Payoffs, &partition.Record{Key: []byte("c")})
	require.Equal(t, [][]byte{[]byte("a"), []byte("b")}, asked, "a request has these")
}

// TestLookups_TheOverlayWaits: a store that was asked before a segment was saved may show what was before it.
func TestLookups_TheOverlayWaits(t *testing.T) {
	l := newLookups()
	first := l.begin(2)
	l.saved(11)
	second := l.begin(1)
	l.saved(12)
	third := l.begin(1)
	require.Empty(t, forgotten(&l))

	require.False(t, l.stepped(second, 1), "an older one is not")
	require.Empty(t, forgotten(&l))
	require.False(t, l.stepped(first, 1))
	require.True(t, l.stepped(first, 1))
	require.Equal(t, []uint64{11, 12}, forgotten(&l))
	require.Equal(t, uint64(3), l.forgets)

	l.saved(13)
	require.Empty(t, forgotten(&l))
	require.True(t, l.stepped(third, 1))
	require.Equal(t, []uint64{13}, forgotten(&l))
	l.saved(14)
	require.Equal(t, []uint64{14}, forgotten(&l), "no look-up is under way")
}

func TestLookups_StaleOnesAreLetGo(t *testing.T) {
	l := newLookups()
	number := l.begin(3)
	require.Nil(t, l.stale(time.Hour), "nothing waits to be forgotten")
	l.saved(1)
	require.Nil(t, l.stale(time.Hour), "the values have not come")
	l.answered(number, [][]byte{[]byte("12345"), nil, []byte("678")}, time.Second)
	require.Equal(t, int64(8), l.held())
	require.Nil(t, l.stale(time.Second+staleAfter-1))
	b := l.stale(time.Second + staleAfter)
	require.Equal(t, number, b.number)
	require.True(t, l.stepped(number, b.left))
	require.Zero(t, l.held())
	l.answered(number, [][]byte{[]byte("late")}, time.Second)
	require.Zero(t, l.held(), "nobody waits for it any more")
}
