package serve

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

var noon = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

func of(id string, at int64) *ranking { return &ranking{id: id, value: []byte(`{}`), at: at} }

// TestBook: whoever asks for an id has the same ranking, and an impression is written once.
func TestBook(t *testing.T) {
	b := newBook(1 << 20)
	known, one, first := b.join("i", nil, noon)
	require.Nil(t, known)
	require.True(t, first)
	_, two, first := b.join("i", nil, noon)
	require.Same(t, one, two)
	require.False(t, first)
	b.leave(one) // the first has waited long enough
	b.ranked(of("i", 1))
	<-two.done
	require.Equal(t, of("i", 1), two.ranking)
	b.leave(two)
	known, _, _ = b.join("i", nil, noon)
	require.Equal(t, of("i", 1), known)
	require.Empty(t, b.calls)
}

// TestBook_LeftIsNotWrittenAgain: an impression that nobody waits for any more was written all the same.
func TestBook_LeftIsNotWrittenAgain(t *testing.T) {
	b := newBook(1 << 20)
	_, c, _ := b.join("i", nil, noon)
	b.leave(c)
	_, c, first := b.join("i", nil, noon)
	require.False(t, first)
	b.leave(c)
	for i := range mostLeft + 10 {
		_, c, _ := b.join(fmt.Sprint(i), nil, noon)
		b.leave(c)
	}
	require.LessOrEqual(t, len(b.calls), mostLeft)
	_, _, first = b.join("i", nil, noon)
	require.True(t, first, "but not for ever")
}

// TestBook_LeftKeepsNoRanking: rankings that come when nobody waits any more take no memory beyond the book's bound.
func TestBook_LeftKeepsNoRanking(t *testing.T) {
	b := newBook(1 << 20)
	_, c, _ := b.join("i", nil, noon)
	b.leave(c)
	b.ranked(of("i", 1))
	require.Nil(t, c.ranking)
	known, _, _ := b.join("i", nil, noon)
	require.Equal(t, of("i", 1), known)

	_, c, _ = b.join("j", nil, noon)
	b.leave(c)
	_, c, _ = b.join("j", nil, noon)
	b.ranked(of("j", 2))
	require.Equal(t, of("j", 2), c.ranking)
	b.leave(c)
	require.Nil(t, c.ranking, "left still has the call")
}

func TestBook_FailedIsWrittenAgain(t *testing.T) {
	b := newBook(1 << 20)
	_, c, _ := b.join("i", nil, noon)
	away := errors.New("away")
	b.written(c, away)
	<-c.done
	require.Equal(t, away, c.err)
	_, next, first := b.join("i", nil, noon)
	require.True(t, first)
	b.leave(c) // which changes nothing for the next
	b.written(c, away)
	b.ranked(of("i", 1))
	<-next.done
	require.NoError(t, next.err)
}

// TestBook_AnotherImpressionIsWritten: an impression that differs from the one that was written is written too, since a worker may have
// refused the first; and so is the same after a while. An error of a second write ends nobody's wait for the first.
func TestBook_AnotherImpressionIsWritten(t *testing.T) {
	b := newBook(1 << 20)
	asks := func(impression string, after time.Duration) (*call, bool) {
		_, c, write := b.join("i", []byte(impression), noon.Add(after))
		return c, write
	}
	c, write := asks("faulty", 0)
	require.True(t, write)
	b.written(c, nil)
	_, write = asks("faulty", writeAgain-1)
	require.False(t, write, "it was written")
	again, write := asks("corrected", 1)
	require.True(t, write)
	require.Same(t, c, again)
	b.written(c, errors.New("away"))
	select {
	case <-c.done:
		t.Fatal("the first may still be ranked")
	default:
	}
	_, write = asks("corrected", 2)
	require.True(t, write, "it was not written")
	b.written(c, nil)
	_, write = asks("corrected", 3)
	require.False(t, write)
	_, write = asks("corrected", 2+writeAgain)
	require.True(t, write, "it may have been refused or lost")
	b.ranked(of("i", 1))
	<-c.done
	require.NotNil(t, c.ranking)
}

// TestBook_ForgetsTheOldest: memory is bounded, and the time from which it is complete is known.
func TestBook_ForgetsTheOldest(t *testing.T) {
	const room = 10
	b := newBook(room * of("00", 1).size())
	b.begins(5)
	require.False(t, b.knows(5))
	require.True(t, b.knows(6))
	for i := range 50 {
		b.ranked(of(fmt.Sprintf("%02d", i), int64(100+i)))
	}
	require.Len(t, b.recent, room)
	require.Equal(t, room, b.order.len())
	require.Nil(t, b.find("39"))
	require.NotNil(t, b.find("40"))
	require.False(t, b.knows(139))
	require.True(t, b.knows(140))
	b.ranked(of("40", 500)) // ranked again: the newer one stays when the older is forgotten
	for i := 50; i < 50+room-1; i++ {
		b.ranked(of(fmt.Sprintf("%02d", i), 501))
	}
	require.Equal(t, of("40", 500), b.find("40"))
}
