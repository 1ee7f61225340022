package task

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ranker-worker/ranker-worker/internal/test/memstore"
	"github.com/ranker-worker/ranker-worker/stream/event"
	"github.com/ranker-worker/ranker-worker/stream/partition"
)

// served is a driver whose task has ranked some impressions, of which the first was paid, and saved everything.
func served(t *testing.T, change func(*Config)) *driver {
	t.Helper()
	d := newDriver(change)
	d.impress(1, 5, d.w.wall)
	d.w.append(event.Selections, []byte("i-1"), []byte(`{"impression_id":"i-1","item":"a"}`))
	d.w.append(event.Payoffs, []byte("i-1"), []byte(`{"impression_id":"i-1","payoff":0.5}`))
	require.NoError(t, d.run(time.Minute, d.idle))
	require.NoError(t, d.run(time.Minute, func() bool { return d.w.committed[0] == 5 }))
	return d
}

// refill replaces a log by one of the same length with other content.
func refill(log []logged) []logged {
	other := make([]logged, len(log))
	for i := range other {
		other[i] = logged{key: []byte("k"), value: fmt.Appendf(nil, `{"other":%d}`, i), timestamp: log[i].timestamp}
	}
	return other
}

// ranking appends a ranking to the log that no owner of ours can have written so.
func (d *driver) ranking(format string, args ...any) {
	d.w.rankings = append(d.w.rankings, logged{key: []byte("i-6"), value: fmt.Appendf(nil, format, args...), timestamp: d.w.wall,
		producer: Producer{d.w.txn.ID, 0}})
}

const someRanking = `{"impression_id":"i-6","learner":"feed","time":"2026-11-21T10:00:00.000Z","items":["b","a"],"decision":{` +
	`"group":"%s","policy":"elimination","delay":"qpmd","partition":%d,"offset":5,"layout":%d,"seed":"%s","began":"2026-11-21T10:00:00.000Z",` +
	`"payoff_deadline":"2030-12-21T10:30:00Z","selection_deadline":"2030-12-21T10:30:00Z"}}`

const someSeed = "00000000000000ff"

// TestStop_WhatDoesNotFitStopsThePartition: gaps, truncation, recreation, a changed partition count and any
// other mismatch with the stored cut stop the partition with its reason (invariant 7). Unrelated changes do not.
func TestStop_WhatDoesNotFitStopsThePartition(t *testing.T) {
	for name, c := range map[string]struct {
		reason StopReason // "": goes on
		world  func(d *driver)
		config func(*Config)
	}{
		"nothing changed": {"", func(*driver) {}, nil},
		"retention has overtaken us": {StopTopic, func(d *driver) {
			d.impress(6, 3, d.w.wall)
			d.w.logStart[event.Impressions] = 7
		}, nil},
		"retention up to where we are": {"", func(d *driver) { d.w.logStart[event.Impressions] = 5 }, nil},
		"retention of rankings has overtaken us": {StopTopic, func(d *driver) {
			d.ranking(someRanking, "h", 0, 1, someSeed)
			d.w.logStart[event.Rankings] = int64(len(d.w.rankings))
		}, nil},
		"topic recreated, empty":         {StopTopic, func(d *driver) { d.w.inputs[event.Payoffs] = nil }, nil},
		"topic recreated, other content": {StopWitness, func(d *driver) { d.w.inputs[event.Payoffs] = refill(d.w.inputs[event.Payoffs]) }, nil},
		"rankings recreated":             {StopTopic, func(d *driver) { d.w.rankings = nil }, nil},
		"rankings of other content":      {StopWitness, func(d *driver) { d.w.rankings = refill(d.w.rankings) }, nil},
		"state lost":                     {StopNoState, func(d *driver) { d.w.store.Restore(0, memstore.Copy{}) }, nil},
		"state lost, no offset committed": {StopNoState, func(d *driver) {
			d.w.store.Restore(0, memstore.Copy{})
			d.w.committed[0] = -1
			d.w.committed[1] = -1
			d.w.committed[2] = -1
		}, nil},
		"more partitions":                      {StopPartitions, func(d *driver) { d.w.partitions = 2 }, nil},
		"more partitions, not of dead letters": {StopPartitions, func(d *driver) { d.w.partitions, d.w.letterless = 2, true }, nil},
		"no dead letters":                      {StopTopic, func(d *driver) { d.w.letterless = true }, nil},
		"another cluster":                      {StopCluster, func(d *driver) { d.w.cluster = "other" }, nil},
		"another topic":                        {StopCluster, func(*driver) {}, func(c *Config) { c.TopicNames[event.Payoffs] = "money" }},
		"store unfit":                          {StopStore, func(d *driver) { d.w.storeFault = errEvicts }, nil},
		"learner changed": {StopLearner, func(*driver) {}, func(c *Config) {
			c.NewMachine = func(max int) (*partition.Machine, error) {
				return partition.New(partition.Config{Group: "g", HasSelections: true, MaxCandidates: 9, MaxRecordBytes: 999,
					MaxRankingBytes: max, Learners: []partition.LearnerConfig{{Name: "feed", Fingerprint: "changed", PayoffMax: 1,
						New: newTestLearner}}})
			}
		}},
		"stored item broken": {StopState, func(d *driver) {
			c := d.w.store.Copy(0)
			c.Hash("feed:items")["a"] = []byte("{")
			d.w.store.Restore(0, c)
		}, nil},
		"a ranking of ours that cannot be read": {StopState, func(d *driver) {
			d.ranking(someRanking, "g", 0, 1, "no seed")
		}, nil},
		"a ranking of ours of a later layout":       {StopState, func(d *driver) { d.ranking(someRanking, "g", 0, partition.DecisionLayout+1, someSeed) }, nil},
		"a ranking of ours for another partition":   {StopState, func(d *driver) { d.ranking(someRanking, "g", 3, 1, someSeed) }, nil},
		"a ranking of ours for an impression to be": {"", func(d *driver) { d.ranking(someRanking, "g", 0, 1, someSeed); d.impress(6, 1, d.w.wall) }, nil},
		"a ranking of ours for another impression":  {StopState, func(d *driver) { d.ranking(someRanking, "g", 0, 1, someSeed); d.impress(7, 1, d.w.wall) }, nil},
		"rankings of others, which nobody can read": {"", func(d *driver) {
			d.ranking(someRanking, "h", 0, 2, "no seed")
			d.ranking("no JSON at all")
		}, nil},
		"a generation that counts from the start again": {"", func(d *driver) { d.w.generation = -1 }, nil},
	} {
		t.Run(name, func(t *testing.T) {
			var change func(*Config)
			d := served(t, func(cfg *Config) {
				if change != nil {
					change(cfg)
				}
			})
			change = c.config
			c.world(d)
			d.start()
			require.NoError(t, d.run(time.Minute, func() bool { return d.p.task.Phase() == Stopped || d.idle() }))
			s := d.p.task.Status()
			require.Equal(t, c.reason, s.Reason, "%v", s.Err)
			require.Equal(t, c.reason != "", s.Err != nil)
		})
	}
}

// TestTopicFaults: a worker stops for each fault that the command "topics" lists, but for short dead letters.
func TestTopicFaults(t *testing.T) {
	const gigabyte = 1 << 30
	for words, c := range map[string]struct {
		reason StopReason
		change func(*Description)
	}{
		"does not exist":                        {StopTopic, func(d *Description) { d.Topics[event.Payoffs] = TopicFacts{Missing: true} }},
		"has partition count 3, but":            {StopPartitions, func(d *Description) { d.Topics[event.Rankings].Partitions = 3 }},
		"is compacted":                          {StopTopic, func(d *Description) { d.Topics[event.Selections].Compacted = true }},
		"message.timestamp.type":                {StopTopic, func(d *Description) { d.Topics[event.Rankings].LogAppendTime = false }},
		"retention.ms=3600000":                  {StopTopic, func(d *Description) { d.Topics[event.Rankings].RetentionMillis = 3_600_000 }},
		"retention.bytes=1073741824":            {StopTopic, func(d *Description) { d.Topics[event.Rankings].RetentionBytes = gigabyte }},
		"dead letters of \"payoffs\", does not": {StopTopic, func(d *Description) { d.DeadLetters[event.Payoffs] = TopicFacts{Missing: true} }},
		"below that topic's 1":                  {StopTopic, func(d *Description) { d.DeadLetters[event.Payoffs].Partitions = 0 }},
		"without a key are refused":             {StopTopic, func(d *Description) { d.DeadLetters[event.Payoffs].Compacted = true }},
		"will be cut off":                       {"", func(d *Description) { d.DeadLetters[event.Payoffs].MaxMessageBytes = 1000 }},
	} {
		d := newDriver(nil).w.describe()
		d.Topics[event.Impressions].RetentionMillis, d.Topics[event.Impressions].RetentionBytes = 7_200_000, 2*gigabyte
		d.Topics[event.Rankings].RetentionMillis, d.Topics[event.Rankings].RetentionBytes = -1, 2*gigabyte
		require.Empty(t, d.TopicFaults())
		c.change(&d)
		faults := d.TopicFaults()
		require.Len(t, faults, 1, words)
		require.Contains(t, faults[0].Text, words)
		require.Equal(t, c.reason, faults[0].Reason, words)
	}
}

// TestStop_WhileRunning: the same is noticed by an owner at work, not only by the next.
func TestStop_WhileRunning(t *testing.T) {
	t.Run("topic recreated", func(t *testing.T) {
		d := served(t, nil)
		d.w.inputs[event.Payoffs] = nil
		require.NoError(t, d.run(time.Minute, func() bool { return d.p.task.Phase() == Stopped }))
		require.Equal(t, StopTopic, d.p.task.Status().Reason)
	})
	t.Run("rankings recreated", func(t *testing.T) {
		d := served(t, nil)
		d.w.rankings, d.w.producers = nil, map[producerKey]*producerState{}
		d.p.task.run.lanes.rankings.sequence = 0 // the new topic's leader knows no producer
		d.impress(6, 1, d.w.wall)
		require.NoError(t, d.run(time.Minute, func() bool { return d.p.task.Phase() == Stopped }))
		require.Equal(t, StopOffsets, d.p.task.Status().Reason)
	})
	t.Run("topic recreated while idle, at the next fence", func(t *testing.T) {
		d := served(t, func(c *Config) { c.FenceInterval = 10 * time.Second })
		d.w.inputs[event.Payoffs] = refill(d.w.inputs[event.Payoffs])
		require.NoError(t, d.run(time.Minute, func() bool { return d.p.task.Phase() == Stopped }))
		require.Equal(t, StopWitness, d.p.task.Status().Reason)
	})
}

// TestStop_NotForAnOwnerWhoBeganJustNow: signs that the group has run before, where nothing was stored a moment ago, may
// be those of an owner who began in between.
func TestStop_NotForAnOwnerWhoBeganJustNow(t *testing.T) {
	d := newDriver(nil)
	d.impress(0, 3, d.w.wall)
	began := false
	d.answer = func(e Effect) error {
		if _, ok := e.(Committed); ok && !began {
			began = true
			facts := d.w.describe()
			_, err := d.w.store.Acquire(context.Background(), 0, 1, false, facts.Beginning(false))
			d.w.committed[0] = 0
			return err
		}
		return nil
	}
	require.NoError(t, d.run(time.Minute, d.idle))
	require.True(t, began)
}

// TestProduce_RefusedForSize: where a topic takes less than it said, batches are cut in half until they fit, and a
// ranking that does not fit alone stops the partition.
func TestProduce_RefusedForSize(t *testing.T) {
	d := served(t, nil)
	d.w.fetchMost = 100
	largest, most := 0, 7
	d.answer = func(e Effect) error {
		if p, ok := e.(Produce); ok && len(p.Messages) > most {
			return ErrTooLarge
		} else if ok {
			largest = max(largest, len(p.Messages))
		}
		return nil
	}
	d.impress(6, 100, d.w.wall)
	require.NoError(t, d.run(time.Minute, d.idle))
	require.NoError(t, checkLog(d.w, false))
	require.LessOrEqual(t, largest, 7)
	require.Greater(t, largest, 3)
	most = 0
	d.impress(200, 1, d.w.wall)
	require.NoError(t, d.run(time.Minute, func() bool { return d.p.task.Phase() == Stopped }))
	require.Equal(t, StopTopic, d.p.task.Status().Reason)
}

var errPassing = errors.New("leader not available")

// TestStop_PassingErrorsNeverStop: errors that say nothing about the log or the state are waited out, whatever they meet. For a minute each
// request fails half of the time, reads of witnesses and of earlier decisions all of the time.
func TestStop_PassingErrorsNeverStop(t *testing.T) {
	d := served(t, nil)
	d.impress(6, 5, d.w.wall)
	d.start()
	until := d.w.mono + time.Minute
	d.answer = func(e Effect) error {
		_, fetch := e.(Fetch)
		if d.w.mono < until && (fetch || d.w.rng.IntN(2) == 0) {
			return errPassing
		}
		return nil
	}
	require.NoError(t, d.run(2*time.Minute, func() bool { return d.w.mono > until && d.idle() }))
	require.NoError(t, checkLog(d.w, false))
	require.NoError(t, d.p.task.Status().Err)
}

// TestFence_LostMarker: an abort marker that does not appear was lost; the task fences again instead of waiting for ever.
func TestFence_LostMarker(t *testing.T) {
	d := served(t, nil)
	d.start()
	d.w.loseMarkers = 1
	require.NoError(t, d.run(2*markerTimeout, d.idle))
	require.Equal(t, int64(1), d.p.task.obs.Fenced)
}

// TestRestarts_BackOff: a task that is fenced again and again tries at longer and longer intervals, although each
// attempt has requests that succeed.
func TestRestarts_BackOff(t *testing.T) {
	d := newDriver(nil)
	tries := 0
	d.answer = func(e Effect) error {
		if _, ok := e.(AbortTxn); ok {
			tries++
			return ErrFenced
		}
		return nil
	}
	_ = d.run(time.Minute, func() bool { return false })
	require.Less(t, tries, 25)
	require.Greater(t, tries, 10)
}

// TestDrain_IsObserved: the last counts of a drained memory are observed, those of the records since the last status among them.
func TestDrain_IsObserved(t *testing.T) {
	d := served(t, nil)
	d.impress(6, 40, d.w.wall)
	d.start()
	require.NoError(t, d.run(time.Minute, d.idle))
	last := d.p.task.Status().Learners
	require.Positive(t, last[0].Value.Decisions)
	d.p.task.Drain()
	require.NoError(t, d.run(time.Second, func() bool { return d.p.task.Phase() == Done }))
	var o Observations
	d.p.task.Observe(&o)
	require.Len(t, o.Dropped, 1)
	require.Equal(t, last, o.Dropped[0].Learners)
}

// TestDrain_InEveryPhase: a drained task is done soon, in any phase, and loses nothing.
func TestDrain_InEveryPhase(t *testing.T) {
	for after := time.Duration(0); after < 80*time.Millisecond; after += time.Millisecond {
		d := served(t, nil)
		d.impress(6, 40, d.w.wall)
		d.start()
		at := d.w.mono + after
		require.NoError(t, d.run(time.Minute, func() bool { return d.w.mono >= at }))
		phase := d.p.task.Phase()
		d.p.task.Drain()
		require.NoError(t, d.run(time.Second, func() bool { return d.p.task.Phase() == Done }), "%v, %v", after, phase)
		d.start()
		require.NoError(t, d.run(time.Minute, d.idle))
		require.NoError(t, checkLog(d.w, false))
		require.NoError(t, checkAccount(d.w, d.p))
	}
}
