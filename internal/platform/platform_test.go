package platform

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/ranker-worker/ranker-worker/internal/simulate"
	"github.com/ranker-worker/ranker-worker/stream/event"
)

// TestRate: the due impressions add up to the rate; after a pause all but a second's worth are dropped.
func TestRate(t *testing.T) {
	start := time.UnixMilli(0)
	r := rate{perSecond: 2.5}
	sent := 0
	for i := range 401 {
		n, lost := r.take(start.Add(time.Duration(i)*20*time.Millisecond), 10)
		sent += n
		assert.Zero(t, lost)
	}
	assert.Equal(t, 20, sent, "in 8 s")
	r = rate{perSecond: 100}
	r.take(start, 10)
	n, lost := r.take(start.Add(10*time.Second), 10)
	assert.Equal(t, []int{10, 890}, []int{n, lost})
	n, lost = r.take(start.Add(10*time.Second), 1000)
	assert.Equal(t, []int{100, 0}, []int{n, lost})
}

// TestPlayAtARateIsBounded: who waits longest for a ranking is forgotten, and impressions are held back while too much is scheduled.
func TestPlayAtARateIsBounded(t *testing.T) {
	population, err := simulate.NewPopulation(simulate.Defaults(1))
	if err != nil {
		t.Fatal(err)
	}
	l := New(Options{Rate: 1e6, Topics: [event.Topics]string{"i", "s", "p", "r"}}, Simulated{{Population: population}})
	l.remembered = 1000
	now := time.UnixMilli(0)
	for l.progress.Impressions < 3000 {
		l.next(now)
		now = now.Add(time.Millisecond)
	}
	assert.Equal(t, l.progress.Impressions-l.remembered, l.progress.Forgotten)

	before := l.progress
	for range mostScheduled + 1 {
		l.agenda.Add(now.UnixMilli()+1000, Record{Topic: event.Payoffs})
	}
	l.next(now)
	assert.Equal(t, before.Impressions, l.progress.Impressions)
	assert.Greater(t, l.progress.HeldBack, before.HeldBack)
	l.rate = rate{}
	for l.agenda.Len() > 0 {
		assert.LessOrEqual(t, len(l.next(now.Add(time.Hour))), 2*atOnce)
	}
	assert.Greater(t, l.progress.Payoffs, mostScheduled)
}
