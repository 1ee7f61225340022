package task

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ranker-worker/ranker-worker/state"
	"github.com/ranker-worker/ranker-worker/stream/event"
	"github.com/ranker-worker/ranker-worker/stream/partition"
)

// forgotten are the segments that may be forgotten now.
func forgotten(l *lookups) (all []uint64) {
	for {
		segment, ok := l.forgettable()
		if !ok {
			return all
		}
		all = append(all, segment)
	}
}

func TestLookups_OneIdIsAskedForOnce(t *testing.T) {
	l := newLookups()
	m := placed{"a": {3}, "b": {5, 9}, "c": {1}}
	queued := func(offset int64, key string) *queued {
		return &queued{Record: partition.Record{Offset: offset}, id: idOf(key)}
	}
	for offset, key := range []string{"a", "b", "a"} {
		l.add(m, event.Payoffs, queued(int64(offset), key))
	}
	want := []state.Place{{Page: 3, ID: idOf("a")}, {Page: 5, ID: idOf("b")}, {Page: 9, ID: idOf("b")}}
	require.Equal(t, want, l.asked.places)
	require.Equal(t, []lookupRef{{event.Payoffs, 0, 0}, {event.Payoffs, 1, 1}, {event.Payoffs, 2, 0}}, l.refs)
	asked := l.asked
	l.clear()
	l.add(m, event.Payoffs, queued(7, "c"))
	require.Equal(t, want, asked.places, "a request has these")
}

// placed are pages by the texts of the ids that lie in them.
type placed map[string][]uint32

func (p placed) Places(dst []state.Place, id state.ID) []state.Place {
	for text, pages := range p {
		for _, page := range pages {
			if idOf(text) == id {
				dst = append(dst, state.Place{Page: page, ID: id})
			}
		}
	}
	return dst
}

// TestAskedFor_TwoPlacesOfOneHash: a value in either place is found, once both have answered.
func TestAskedFor_TwoPlacesOfOneHash(t *testing.T) {
	m := placed{"a": {3}, "b": {5, 9}, "c": {1}}
	var a askedFor
	for _, text := range []string{"a", "b", "c", "d"} {
		a.add(m, idOf(text))
	}
	x, y := []byte("x"), []byte("y")
	values := [][]byte{x, nil, y, nil}
	for id, want := range []partition.Found{{Page: 3, Value: x}, {Page: 9, Value: y}, {}, {}} {
		found, ok := a.found(int32(id), values)
		require.True(t, ok)
		require.Equal(t, want, found)
	}
	_, ok := a.found(1, values[:2])
	require.False(t, ok)
	_, ok = a.found(0, values[:1])
	require.True(t, ok)
}

// TestLookups_TheOverlayWaits: a store that was asked before a segment was saved may show the state before it.
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

// TestLookUp_OfWhatAReplayWaitsFor: a worker dies behind a ranking whose steps begin with a payoff. The next owner's look-ups of selections,
// with large entries, take all the room for found values, and the payoff is stepped nevertheless.
func TestLookUp_OfWhatAReplayWaitsFor(t *testing.T) {
	const many = 2_100
	roomy := kinds[0]
	roomy.config = func(_ *Config, m *partition.Config, _ *rand.Rand) { m.MaxParked, m.MaxParkedBytes = 10_000, 64<<20 }
	d := newDriverOf(&roomy, nil)
	d.w.fetchMost = 5000
	idle := func() { t.Helper(); require.NoError(t, d.run(10*time.Minute, d.idle)) }
	d.impress(0, many+1, d.w.wall)
	for i := range many {
		id := fmt.Sprintf("i-%d", i)
		d.w.append(event.Payoffs, []byte(id), fmt.Appendf(nil, `{"impression_id":"%s","payoff":1,"more":"%s"}`, id, strings.Repeat("x", 10_000)))
	}
	last := fmt.Sprintf("i-%d", many)
	d.w.append(event.Selections, []byte(last), fmt.Appendf(nil, `{"impression_id":"%s","item":"a"}`, last))
	idle()

	d.hold = func(e Effect) bool { _, is := e.(Checkpoint); return is }
	ranked := len(d.w.broker.rankings)
	d.w.append(event.Payoffs, []byte(last), fmt.Appendf(nil, `{"impression_id":"%s","payoff":1}`, last))
	require.NoError(t, d.run(time.Minute, func() bool { return d.p.task.Status().Next[event.Payoffs] == many+1 }))
	d.impress(many+1, 1, d.w.wall)
	require.NoError(t, d.run(time.Minute, func() bool { return len(d.w.broker.rankings) > ranked }))

	for i := range many {
		id := fmt.Sprintf("i-%d", i)
		d.w.append(event.Selections, []byte(id), fmt.Appendf(nil, `{"impression_id":"%s","item":"a"}`, id))
	}
	d.hold = nil
	d.start()
	idle()
	require.EqualValues(t, 1, d.p.task.Status().Account.Adopted)
}
