package partition

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestConduct_CountsWhatTheModelDoesNotExplain: a selection behind an item with a higher utility is blocked, if
// the order is known and certain. Propensities below 1/1,000 are summed, and selections of such items counted.
func TestConduct_CountsWhatTheModelDoesNotExplain(t *testing.T) {
	var c UserModel
	e := &entry{ranks: []int32{1, 0, 2}, propensities: []float64{0.7, 0.0004, 0.2996}}
	for at := range int32(3) {
		e.selected = at
		c.selected(e)
	}
	require.EqualValues(t, 1, c.Blocked, "only the item of rank 0 stands behind one liked better")
	require.EqualValues(t, 1, c.Rare)
	require.InDelta(t, 3*0.0004, c.RareExpected, 1e-15)

	e = &entry{ranks: []int32{1, 0}, undecided: []int32{1}, selected: 1}
	c.selected(e)
	e = &entry{selected: 1}
	c.selected(e)
	require.EqualValues(t, 1, c.Blocked, "where the order is not known nothing can be said")
}

// TestConduct_RangeUsed: the span of payoffs over all partitions.
func TestConduct_RangeUsed(t *testing.T) {
	var a, b, none UserModel
	for k := range 999 {
		a.paid(0.5 + float64(k%2)/20)
	}
	_, ok := a.RangeUsed()
	require.False(t, ok)
	require.False(t, a.RangeTooWide())
	a.paid(0.5)
	require.True(t, a.RangeTooWide())
	b.paid(0.3)
	all := none
	all.Span(&a)
	all.Span(&b)
	all.Span(&none)
	used, ok := all.RangeUsed()
	require.True(t, ok)
	require.InDelta(t, 0.25, used, 1e-15)
	require.EqualValues(t, 1001, all.Payoffs)
	require.False(t, all.RangeTooWide())
}

// TestStatus_OfAFirstDaySpansTheDefault: payoffs of conversions alone have come, and selections without one expire to 0 later.
func TestStatus_OfAFirstDaySpansTheDefault(t *testing.T) {
	zero := 0.0
	for _, c := range []struct {
		expires *float64
		tooWide bool
	}{{nil, true}, {&zero, false}} {
		l := &learner{cfg: &LearnerConfig{PayoffMax: 1, ExpiryDefault: c.expires}, delay: &tally{}}
		for range manyPayoffs {
			l.observer.userModel.paid(1)
		}
		s := l.status(true)
		require.Equal(t, c.tooWide, s.UserModel.RangeTooWide())
	}
}
