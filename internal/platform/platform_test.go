package platform

import (
	"context"
	"net"
	"testing"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/ranker-worker/ranker-worker/internal/simulate"
	"github.com/ranker-worker/ranker-worker/stream/event"
)

// hanging is a way to brokers that take records, and do not answer.
type hanging struct{ kafka.RoundTripper }

func (h hanging) RoundTrip(ctx context.Context, addr net.Addr, r kafka.Request) (kafka.Response, error) {
	if r.ApiKey() != protocol.Produce {
		return h.RoundTripper.RoundTrip(ctx, addr, r)
	}
	<-ctx.Done()
	return nil, ctx.Err()
}

// TestRun_EndsWhileABrokerHangs: kafka-go would repeat the batch for 100 s.
func TestRun_EndsWhileABrokerHangs(t *testing.T) {
	fake, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, "i", "s", "p", "r"))
	require.NoError(t, err)
	defer fake.Close()
	population, err := simulate.NewPopulation(simulate.Defaults(1))
	require.NoError(t, err)
	transport := &kafka.Transport{}
	defer transport.CloseIdleConnections()
	p := New(Options{Brokers: fake.ListenAddrs(), Transport: hanging{transport}, Rate: 100, Topics: [event.Topics]string{"i", "s", "p", "r"}},
		Simulated{{Population: population}})
	p.lastWrite = 100 * time.Millisecond
	ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer cancel()
	start := time.Now()
	_, err = p.Run(ctx)
	require.ErrorIs(t, err, context.Canceled, "records were under way")
	require.Less(t, time.Since(start), 5*time.Second)
}

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
