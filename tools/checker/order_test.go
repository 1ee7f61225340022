package checker

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ranker-worker/ranker-worker/internal/app"
	"github.com/ranker-worker/ranker-worker/stream/broker"
)

// TestWithoutStepsTheOrderIsLeftOpen: rankings without headers, as a mirror may copy them, do not show
// the order of records. Nothing is guessed then, and values that do not depend on the order are compared.
func TestWithoutStepsTheOrderIsLeftOpen(t *testing.T) {
	t.Parallel()
	v := newVictim(t)
	v.live(t)
	requireExact(t, v.check(t))
	all := v.rankings(t)
	cfg := *v.cfg
	cfg.Kafka.Topics.Rankings = v.group + "-mirror"
	v.cfg = &cfg
	b, err := app.NewBroker(v.cfg)
	require.NoError(t, err)
	defer b.Close()
	_, err = b.Create(t.Context(), broker.Spec{Partitions: 1, Replication: 1})
	require.NoError(t, err)
	for _, rec := range all {
		v.raw(t, string(rec.Key), rec.Value, nil)
	}
	v.set(t, v.key(0, "meta"), "rankings", "0")
	v.set(t, v.key(0, "meta"), "witness.rankings", "-1:0:0")
	r := v.check(t)
	requireClean(t, r)
	require.Contains(t, strings.Join(r.Unchecked, "\n"), "records is not in the log")
	for _, c := range corruptions {
		switch c.law {
		case accountSum, accountRead, entriesReadable, entriesPhantom, entriesDecision, index, delayFlights, qpmdHold, boldOutstanding:
			undo := c.do(t, v)
			r := v.check(t)
			undo()
			requireBroken(t, r, c.law)
		}
	}
}

// TestRankingsOfNobodyDoNotCount: whoever may write to the rankings can name the group; none of its producers has.
func TestRankingsOfNobodyDoNotCount(t *testing.T) {
	t.Parallel()
	v := newVictim(t)
	v.live(t)
	first := v.rankings(t)[0]
	v.send(t, [3]string{"rankings", string(first.Key), string(first.Value)},
		[3]string{"rankings", "far", `{"decision":{"group":"` + v.group + `","offset":1000000000}}`})
	r := v.check(t)
	requireExact(t, r)
	require.Contains(t, strings.Join(r.Unchecked, "\n"), "2 rankings name this group")
}

func TestSteps_AreReadStrictly(t *testing.T) {
	from, all, err := parseSteps([]byte{5, 0<<5 | 2, 3<<5 | 1, 7, 7<<5 | 1, 3, 7<<5 | 2, 1<<5 | 3, 2<<5 | 1, 7<<5 | 3, 1, 2, 3, 20})
	require.NoError(t, err)
	require.EqualValues(t, 5, from)
	require.Equal(t, []step{{topic: 1, n: 2}, {kind: stepAdvance, by: 7}, {topic: 2, n: 1, timed: true, crowded: true, by: -2},
		{topic: 2, n: 2}, {topic: 0, n: 1}, {kind: stepRead, offsets: [3]int64{1, 2, 3}, watermark: 20}}, all)
	for name, header := range map[string][]byte{"empty": {}, "a run of none": {0, 0}, "an unknown kind": {0, 4<<5 | 1}, "cut off": {0, 3<<5 | 1},
		"of no record": {0, 7<<5 | 2}, "of no single record": {0, 7<<5 | 2, 3<<5 | 1, 1}, "unknown": {0, 7<<5 | 9},
		"too large": {0, 3<<5 | 1, 255, 255, 255, 255, 255, 255, 255, 255, 255, 1}} {
		_, _, err := parseSteps(header)
		require.ErrorIs(t, err, errSteps, name)
	}
}

func FuzzSteps(f *testing.F) {
	f.Add([]byte{5, 2, 97, 7, 225, 3, 226, 35, 65, 227, 1, 2, 3, 20})
	f.Fuzz(func(t *testing.T, header []byte) {
		from, all, err := parseSteps(header)
		if err != nil {
			return
		}
		require.GreaterOrEqual(t, from, int64(0))
		for _, s := range all {
			require.True(t, s.kind != stepTake || s.n > 0)
		}
	})
}
