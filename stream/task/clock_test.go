package task

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ranker-worker/ranker-worker/stream/event"
)

func TestClock_WhatIsTakenForNow(t *testing.T) {
	const bound = 5 * time.Minute
	at := func(mono time.Duration, wall event.Millis) Now { return Now{mono, wall} }
	var c clock
	now, latest, apart := c.times(at(0, 1000), bound, false)
	require.Equal(t, []event.Millis{1000, 301_000}, []event.Millis{now, latest})
	require.ErrorIs(t, apart, errNoTime)
	_, _, apart = c.times(at(0, 1000), bound, true)
	require.NoError(t, apart, "there is one clock")

	c.learn(-1, 0, 0)
	require.False(t, c.known)
	c.learn(5000, 0, 2*maxStampDelay)
	require.Equal(t, event.Millis(5000), c.kafka(at(0, 0), false), "better than none")
	c.learn(6000, 0, 3*maxStampDelay)
	require.Equal(t, event.Millis(5000), c.at, "it was on its way for too long")
	c.learn(6000, 0, maxStampDelay)
	require.Equal(t, event.Millis(7000), c.kafka(at(maxStampDelay+time.Second, 0), false), "a second has passed since")

	now, _, apart = c.times(at(maxStampDelay, 6000+bound.Milliseconds()), bound, false)
	require.NoError(t, apart)
	require.Equal(t, event.Millis(6000), now)
	for _, by := range []int64{-1_000_000, 1_000_000} {
		now, latest, apart = c.times(at(maxStampDelay, 6000+by), bound, false)
		require.Error(t, apart)
		require.Equal(t, max(6000, 6000+by), now)
		require.Equal(t, now+bound.Milliseconds(), latest)
	}
}

// unreached is a shell that reaches no broker until a time, but for the first request to produce: only its answer is lost.
type unreached struct {
	Shell
	d      *driver
	until  time.Duration
	copies *int
}

func (s unreached) Produce(e Produce) (Produced, error) {
	if s.d.w.mono >= s.until {
		return s.Shell.Produce(e)
	}
	if *s.copies++; *s.copies == 1 {
		_, _ = s.Shell.Produce(e)
	}
	return Produced{}, errors.New("cut off")
}

// TestClock_OfACopy: a batch was appended, and its answer is lost for two minutes. The answer to its copy has the first one's time.
func TestClock_OfACopy(t *testing.T) {
	d := served(t, nil)
	copies, until := 0, d.w.mono+2*time.Minute
	d.shell = func(s shell) Shell { return unreached{s, d, until, &copies} }
	acked := d.p.task.run.lanes.rankings.acked
	d.impress(100, 1, d.w.wall)
	require.NoError(t, d.run(3*time.Minute, func() bool { return d.p.task.run.lanes.rankings.acked > acked }))
	require.Greater(t, copies, 1)
	s := d.p.task.Status()
	require.True(t, s.ClockKnown)
	require.InDelta(t, 0, s.ClockOffset.Seconds(), 1)
}

// TestClock_OfAMarkerReadLate: the rankings cannot be read for minutes after a fence. Its marker's time is that of the fence.
func TestClock_OfAMarkerReadLate(t *testing.T) {
	d := served(t, nil)
	d.start()
	until := d.w.mono + 4*time.Minute
	d.answer = func(e Effect) error {
		if f, ok := e.(Fetch); ok && f.Topic == event.Rankings && d.w.mono < until {
			return errors.New("cut off")
		}
		return nil
	}
	require.NoError(t, d.run(10*time.Minute, func() bool { return d.p.task.Phase() == Running }))
	require.GreaterOrEqual(t, d.w.mono, until)
	s := d.p.task.Status()
	require.True(t, s.ClockKnown)
	require.InDelta(t, 0, s.ClockOffset.Seconds(), 1)
}
