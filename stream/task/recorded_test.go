package task

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ranker-worker/ranker-worker/stream/event"
	"github.com/ranker-worker/ranker-worker/stream/partition"
)

// TestRecordedSteps_LeadsFromRecordToRecord: the steps name a topic and how many of its records; in between event time moves on.
func TestRecordedSteps_LeadsFromRecordToRecord(t *testing.T) {
	f := recordedSteps{on: true, watermark: 100, steps: []partition.InputStep{
		{Kind: partition.StepTake, Topic: event.Payoffs, N: 2},
		{Kind: partition.StepWatermark, By: 50},
		{Kind: partition.StepTake, Topic: event.Selections, N: 3},
	}}
	f.done[event.Selections] = 2 // the loaded state has them
	var qs queues
	for i := range qs {
		qs[i].topic = event.Topic(i)
	}
	var raised []event.Millis
	var topics []event.Topic
	raise := func(w event.Millis) { raised = append(raised, w) }
	for range 3 {
		q, _ := f.next(&qs, raise)
		topics = append(topics, q.topic)
		f.take()
	}
	q, _ := f.next(&qs, raise)
	require.Nil(t, q)
	require.Equal(t, []event.Topic{event.Payoffs, event.Payoffs, event.Selections}, topics)
	require.Equal(t, []event.Millis{150}, raised)
}

// TestRecordedSteps_ReadsUpToWhereStepsBegin: steps that say where they begin wait until the topics have come there.
func TestRecordedSteps_ReadsUpToWhereStepsBegin(t *testing.T) {
	f := recordedSteps{on: true, steps: []partition.InputStep{{Kind: partition.StepRead, Offsets: [event.Inputs]int64{0, 1, 0}, Watermark: 70}}}
	var qs queues
	for i := range qs {
		qs[i] = queue{topic: event.Topic(i)}
	}
	qs[event.Selections].take(&Fetched{Records: records(0, 2), Next: 2}, 0, 0)
	var raised []event.Millis
	raise := func(w event.Millis) { raised = append(raised, w) }
	q, _ := f.next(&qs, raise)
	require.Equal(t, event.Selections, q.topic)
	require.Empty(t, raised)
	q.pop()
	q, _ = f.next(&qs, raise)
	require.Nil(t, q)
	require.Equal(t, []event.Millis{70}, raised)
}

func TestRecordedSteps_ALogMayLackRecordsForAWhile(t *testing.T) {
	var f recordedSteps
	q := &queue{}
	require.False(t, f.missingLong(q, time.Hour), "the log may have more")
	q.atEnd = true
	require.False(t, f.missingLong(q, time.Hour))
	require.False(t, f.missingLong(q, time.Hour+missingAfter))
	require.True(t, f.missingLong(q, time.Hour+missingAfter+1))
	q.take(&Fetched{Records: records(0, 1), Next: 1}, 0, 0)
	require.False(t, f.missingLong(q, 2*time.Hour))
	q.pop()
	q.atEnd = true
	require.False(t, f.missingLong(q, 3*time.Hour), "it has come, and now the next is lacking")
}
