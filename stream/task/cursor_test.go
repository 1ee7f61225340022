package task

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ranker-worker/ranker-worker/stream/event"
	"github.com/ranker-worker/ranker-worker/stream/partition"
)

// decision is a ranking of group g, as it stands in the log.
func decision(group string, p int32, offset int64) []byte {
	return fmt.Appendf(nil, `{"impression_id":"i-%d","learner":"feed","time":"2026-11-21T10:00:00.000Z","items":["b","a"],"decision":{`+
		`"group":"%s","policy":"elimination","delay":"qpmd","partition":%d,"offset":%d,"layout":1,"seed":"00000000000000ff","began":"2026-11-21T10:00:00.000Z",`+
		`"payoff_deadline":"2030-12-21T10:30:00Z"}}`, offset, group, p, offset)
}

// logOf is an answer with these decisions of a producer, from offset 10 on, and our marker behind them.
func logOf(producer int64, values ...[]byte) *Fetched {
	f := &Fetched{}
	for i, v := range values {
		f.Records = append(f.Records, partition.Record{Offset: int64(10 + i), Value: v})
		f.Origins = append(f.Origins, Origin{Producer: Producer{ID: producer}})
	}
	f.Next = int64(10+len(values)) + 1
	f.Markers = []Marker{{Offset: f.Next - 1, Timestamp: 77, Producer: Producer{4, 2}, Abort: true}}
	return f
}

func testCursor() *cursor {
	return &cursor{group: "g", next: 10, from: 100, until: 200, decoder: newRankingDecoder(), producers: []int64{4}}
}

func TestCursor_SaysWhatTheLogDecided(t *testing.T) {
	c := testCursor()
	v, _, err := c.standing(100)
	require.NoError(t, err)
	require.Equal(t, undecided, v, "nothing was read yet")

	require.Equal(t, event.Millis(77), c.take(logOf(4, decision("g", 0, 101), decision("another", 0, 102), decision("g", 0, 103)), Producer{4, 2}))
	var standings []standing
	for offset := int64(100); offset < 105; offset++ {
		v, d, err := c.standing(offset)
		require.NoError(t, err)
		if standings = append(standings, v); v == decided {
			require.Equal(t, offset, d.Decision.Offset)
			c.pop()
		}
	}
	require.Equal(t, []standing{refused, decided, refused, decided, absent}, standings)
	over, err := c.exhausted()
	require.NoError(t, err)
	require.True(t, over)
	require.Equal(t, int64(14), c.position(), "behind our marker")
}

func TestCursor_WhatItLeavesOut(t *testing.T) {
	c := testCursor()
	c.take(logOf(9, decision("g", 0, 101)), Producer{4, 2})
	require.NoError(t, c.settle())
	require.Equal(t, int64(1), c.foreign, "no fence of ours has given that producer")

	c = testCursor()
	c.take(logOf(4, decision("g", 0, 99)), Producer{4, 2})
	require.NoError(t, c.settle())
	require.Len(t, c.earlier, 1, "the state should hold it")
}

func TestCursor_Contradictions(t *testing.T) {
	for name, value := range map[string][]byte{
		"another partition's":                     decision("g", 1, 101),
		"of an impression that is not in the log": decision("g", 0, 200),
		"unreadable":                              []byte(`{"decision":{"group":"g"}}`),
	} {
		c := testCursor()
		c.take(logOf(4, value), Producer{4, 2})
		require.Error(t, c.settle(), name)
	}
	c := testCursor()
	c.take(logOf(4, decision("g", 0, 101)), Producer{4, 2})
	_, _, err := c.standing(102)
	require.Error(t, err, "its impression should have come before")
}

func TestCursor_OtherOwnersMarkersNameTheirProducers(t *testing.T) {
	c := testCursor()
	f := logOf(4)
	f.Markers = append([]Marker{{Offset: 1, Producer: Producer{7, 3}, Abort: true}, {Offset: 2, Producer: Producer{8, 3}, Abort: true},
		{Offset: 3, Producer: Producer{8, 32767}, Abort: true}}, f.Markers...)
	c.take(f, Producer{4, 2})
	require.Equal(t, Owners{4, 7, 8}, c.producers)
	require.Equal(t, []Producer{{7, 3}}, c.unretired, "8 has been retired")
}
