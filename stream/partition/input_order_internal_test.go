package partition

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/ranker-worker/ranker-worker/stream/event"
)

// TestSteps_RoundTrip: noted steps are read again, run by run, also after they were stored and loaded.
func TestSteps_RoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := inputOrder{run: -1}
		var want []InputStep
		offsets := [event.Inputs]int64{}
		for range rapid.IntRange(0, 200).Draw(t, "steps") {
			if rapid.IntRange(0, 20).Draw(t, "stored") == 0 {
				next := s.next
				var again inputOrder
				require.NoError(t, again.load(s.appendStored(nil)))
				again.next = next // offsets are the cut's
				s = again
			}
			switch rapid.IntRange(0, 6).Draw(t, "kind") {
			case 0:
				by := rapid.Int64Range(0, 1<<40).Draw(t, "by")
				s.at(s.watermark + by)
				if by > 0 {
					want = append(want, InputStep{Kind: StepWatermark, By: by})
				}
			case 1:
				s.next = offsets
				s.read()
				want = append(want, InputStep{Kind: StepRead, Offsets: offsets, Watermark: s.watermark})
			default:
				topic := event.Topic(rapid.IntRange(0, event.Inputs-1).Draw(t, "topic"))
				step := InputStep{Topic: topic, N: 1}
				if rapid.IntRange(0, 9).Draw(t, "timed") == 0 {
					step.Timed, step.By = true, rapid.Int64().Draw(t, "time")
					s.timed(s.watermark + step.By)
				}
				if rapid.IntRange(0, 9).Draw(t, "crowded") == 0 {
					step.Crowded = true
					s.crowded()
				}
				s.took(&Record{Topic: topic, Offset: offsets[topic]})
				offsets[topic]++
				want = append(want, step)
			}
		}
		from, got, err := ParseSteps(nil, s.appendHeader(nil))
		require.NoError(t, err)
		require.Zero(t, from)
		require.Equal(t, want, single(got))
	})
}

// single takes runs apart.
func single(steps []InputStep) (all []InputStep) {
	for _, s := range steps {
		if s.Kind != StepTake {
			all = append(all, s)
			continue
		}
		for n := s.N; n > 0; n-- {
			s.N = 1
			all = append(all, s)
		}
	}
	return all
}

// TestOrder_KeepsStepsSmall: however many records no ranking follows, order records carry their order, each from where the one before
// ended, and little is left to be stored.
func TestOrder_KeepsStepsSmall(t *testing.T) {
	clock := newEventTime()
	m := Log{cfg: &Config{Group: "g", Partition: 3, MaxRankingBytes: 1 << 20}, time: &clock, steps: inputOrder{run: -1}}
	var out Output
	for i := range int64(100_000) {
		clock.watermark = i
		m.steps.at(i)
		m.steps.took(&Record{Topic: event.Payoffs, Offset: i})
		if m.OwesOrder() {
			m.RecordOrder(&out)
		}
		require.LessOrEqual(t, len(m.steps.tokens), defaultOrderBytes+64)
	}
	m.RecordOrder(&out)
	records, w := int64(0), int64(0)
	for i, r := range out.Rankings {
		number, ok := OrderNumber(&Record{Key: r.Key, Value: r.Value}, "g", 3)
		require.True(t, ok)
		require.Equal(t, int64(i+1), number)
		from, steps, err := ParseSteps(nil, r.Steps)
		require.NoError(t, err)
		require.Equal(t, w, from)
		for _, s := range steps {
			require.NotEqual(t, StepRead, s.Kind)
			records, w = records+s.N, s.reached(w)
		}
	}
	require.Equal(t, int64(100_000), records)
	require.Greater(t, len(out.Rankings), 50)
}

// TestOrder_IsOfOneGroupAndPartition: nothing else in the topic is taken for an order record.
func TestOrder_IsOfOneGroupAndPartition(t *testing.T) {
	key := appendOrderKey(nil, "g-1", 2, 7)
	require.Equal(t, "g-1-2/7", string(key))
	for name, rec := range map[string]Record{
		"a ranking": {Key: key, Value: []byte("{}")}, "empty": {Key: key, Value: []byte{}}, "no key": {}, "another group": {Key: []byte("g-2/7")},
		"another partition": {Key: []byte("g-1-3/7")}, "no number": {Key: []byte("g-1-2/")}, "below 1": {Key: []byte("g-1-2/0")},
		"written otherwise": {Key: []byte("g-1-2/07")}, "signed": {Key: []byte("g-1-2/+7")},
	} {
		_, ok := OrderNumber(&rec, "g-1", 2)
		require.False(t, ok, name)
	}
}

// TestSteps_CostLittle holds the documented size: a byte for up to 31 records of a topic, and some three for each time that
// event time moves on.
func TestSteps_CostLittle(t *testing.T) {
	s := inputOrder{run: -1, watermark: day}
	for i := range int64(31) {
		s.took(&Record{Topic: event.Payoffs, Offset: i})
	}
	require.Len(t, s.tokens, 1)
	s.at(day + 100)
	require.Len(t, s.tokens, 3)
}

// FuzzParseSteps: tokens are read or refused, and take no more memory than they bear out.
func FuzzParseSteps(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte{7, 0x1f, 0x21, 0x61, 0x80, 0x01, 0xe1, 0x03, 0x22})
	f.Add([]byte{7, 0xe3, 1, 2, 3, 4})
	f.Fuzz(func(t *testing.T, b []byte) {
		_, got, err := ParseSteps(nil, b)
		require.LessOrEqual(t, len(got), 2*len(b))
		if err != nil {
			require.ErrorIs(t, err, ErrSteps)
		}
	})
}
