package partition

import (
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ranker-worker/ranker-worker/delay"
	"github.com/ranker-worker/ranker-worker/policy"
	"github.com/ranker-worker/ranker-worker/state"
	"github.com/ranker-worker/ranker-worker/stream/event"
)

// TestSeen_APauseIsShort: while payoffs come and no impressions, an owner records little about other partitions' checkpoints,
// however many epochs they make. After the next decision a snapshot of sources follows, for a replay that begins with a base.
func TestSeen_APauseIsShort(t *testing.T) {
	const seconds, sources = 600, 256
	for _, epochs := range []int{1, 8} {
		p := newPause(t, sources)
		bytes := 0
		for range seconds { // a young machine says more
			p.second(epochs)
		}
		for range seconds {
			bytes += p.second(epochs)
		}
		t.Logf("%d epochs a second: %.1f bytes a second", epochs, float64(bytes)/seconds)
		require.Less(t, bytes, 120*seconds, "%d epochs a second; the ticks of data this young are seconds apart", epochs)
		seen := p.decide()
		last := seen[len(seen)-1]
		require.Equal(t, SeenEpoch, last.Kind, "the ranking that ends the pause says what it goes by")
		require.Less(t, len(last.Sources), sources+1)
		require.Equal(t, p.knowledge.stand, stand(p.w.m.seen.epoch))
		before := p.stands
		p.second(1)
		require.Equal(t, before+1, p.stands)
	}
}

// TestSeen_TheLastEpochCounts: of the epochs without decisions the last is recorded, and those with estimates that still hold.
func TestSeen_TheLastEpochCounts(t *testing.T) {
	p := newPause(t, 2)
	p.decide()
	p.now += 256 << 10
	p.advance(0, 1) // one source has come to another pass
	p.advance(1, 2) // all have
	p.advance(0, 1)
	estimated := p.knowledge.estimates[0].last.Number
	require.Equal(t, p.knowledge.epoch.Number-1, estimated)
	p.w.m.Learners() // who looks leaves no trace
	seen := p.decide()
	require.Len(t, seen, 2)
	require.Equal(t, []int{0}, seen[0].Made)
	require.Equal(t, []SourceChange{{Source: 0, By: 1}, {Source: 1, By: 1}}, seen[0].Sources)
	require.Empty(t, seen[1].Made)
	require.Equal(t, []SourceChange{{Source: 0, By: 1}}, seen[1].Sources)
	p.w.m.Learners()
	require.Empty(t, p.decide())
}

// pause is an owner in a process that reads the published fields of many partitions.
type pause struct {
	t         *testing.T
	w         *world
	knowledge *PooledState
	reader    *PublishedReader
	seq       []int64
	now       event.Millis
	n         int
	stands    int
}

// newPause makes an owner that has ranked some impressions of which selections are awaited.
func newPause(t *testing.T, sources int) *pause {
	moss, err := policy.NewMOSS(policy.Belief{Sigma: 0.5, EstimateSigma: true, Prior: policy.EmpiricalPrior})
	require.NoError(t, err)
	horizon := 24 * time.Hour.Milliseconds()
	cfg := testConfig()
	cfg.Learners[0].PayoffHorizon = horizon
	cfg.Learners[0].New = func() delay.Learner {
		return delay.NewDirect(moss, delay.Silence{Law: delay.SilenceAges, Horizon: horizon})
	}
	names := NewNameTable()
	cfg.Pooled = NewPooledState(cfg.Learners, names)
	p := &pause{t: t, w: newWorld(t, cfg), knowledge: cfg.Pooled, reader: NewPublishedReader(cfg.Learners, names), seq: make([]int64, sources), now: day}
	p.w.m.Seen(ObservationBegin{Writer: 1})
	p.advance(0, sources)
	for range 100 {
		id := p.impress()
		require.NoError(t, p.w.read(event.Selections, id, []byte(`{"impression_id":"`+id+`","item":"b"}`), p.now))
	}
	p.n = 0
	return p
}

// impress has an impression ranked.
func (p *pause) impress() (id string) {
	p.n++
	p.w.now = p.now
	id = "i-" + strconv.Itoa(p.n)
	require.NoError(p.t, p.w.read(event.Impressions, id, impression(id, "a", "b", "c"), p.now))
	return id
}

// decide has an impression ranked after the pause, and returns the observations in its header.
func (p *pause) decide() []Observation {
	p.n += 1000
	p.w.out.Reset()
	p.impress()
	return sightsOf(p.t, p.w.out.Rankings[len(p.w.out.Rankings)-1].Seen)
}

// advance begins an epoch in which these sources have stored another checkpoint.
func (p *pause) advance(from, to int) {
	pass := []byte(strconv.FormatInt(p.now-p.now%(128<<10), 10))
	for source := from; source < to; source++ {
		p.seq[source]++
		p.knowledge.Update(int32(source), p.reader.Read(int32(source), []state.Field{{Hash: "feed:ages", Field: []byte("pass"), Value: pass}},
			func(err error) { require.NoError(p.t, err) }))
		p.knowledge.Reached(int32(source), state.Fence{Token: "t", Seq: p.seq[source]})
	}
	p.knowledge.Commit()
}

// second lets a second pass in which each source stores a checkpoint, and returns the bytes of observations in it.
func (p *pause) second(epochs int) int {
	for k := range epochs {
		p.now += 1000 / int64(epochs)
		p.advance(k*len(p.seq)/epochs, (k+1)*len(p.seq)/epochs)
		p.w.m.Raise(p.now)
		var c state.Changes
		p.w.m.Seal(&c)
		p.w.m.Sent(1)
	}
	if p.n++; p.n%10 == 0 && p.n <= 1000 {
		id := "i-" + strconv.Itoa(p.n/10)
		require.NoError(p.t, p.w.read(event.Payoffs, id, event.AppendPayoff(nil, &event.Payoff{ID: []byte(id), Payoff: 0.5}), p.now))
	}
	said := p.w.m.seen.take(nil)
	for _, s := range sightsOf(p.t, said) {
		if s.Kind == SeenStand {
			p.stands++
		}
	}
	return len(said)
}
