package delay

import (
	"errors"
	"fmt"
	"maps"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/ranker-worker/ranker-worker/policy"
)

// A learner that is loaded from what another has harvested behaves as that other ever after, and writes the same.
func TestQPMD_StateRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		base := basePolicy(t)
		w := newWorld(t, base)
		original := w.learners[0]
		stores := []*store{newStore(original)}
		harvest := func(t *rapid.T) {
			want := stores[0].harvest()
			for _, s := range stores[1:] {
				require.Equal(t, want, s.harvest())
				require.Equal(t, stores[0].hashes, s.hashes)
				require.Equal(t, stores[0].sums, s.sums)
			}
		}
		w.grow(9)
		for source := range int32(4) {
			for i := range policy.Item(9) {
				s := policy.Sums{N: 1, R: 0.5, Q: 0.25}
				w.oracle.imports(source, i, s)
				original.Import(source, i, s)
			}
		}
		actions := w.moreActions()
		actions["harvest"] = harvest
		actions["reload"] = func(t *rapid.T) {
			harvest(t)
			loaded := NewQPMD(base)
			s := newStore(loaded)
			stores[0].load(t, w.oracle.items, loaded)
			require.Empty(t, s.harvest(), "what was loaded needs no writing")
			// Other sources' sums come anew. Those that BASE is frozen with are not stored, but whatever comes first of a
			// source and item stands in for them.
			for at, sums := range w.oracle.frozen {
				loaded.Import(at[0], at[1], sums)
			}
			for at, sums := range w.oracle.newest {
				loaded.Import(at[0], at[1], sums)
			}
			s.sums, s.hashes = maps.Clone(stores[0].sums), map[string]map[string]string{}
			for h, fields := range stores[0].hashes {
				s.hashes[h] = maps.Clone(fields)
			}
			stores = []*store{stores[0], s}
			w.learners = []Learner{original, loaded}
		}
		t.Repeat(actions)
	})
}

func TestQPMD_HarvestGivesOnlyWhatChanged(t *testing.T) {
	q := NewQPMD(policy.NewUtility())
	q.Grow(3)
	s := newStore(q)
	require.Empty(t, s.harvest())
	q.Selected(Outcome{Ref: 40, Item: 2})
	q.Selected(Outcome{Ref: 41, Item: 1})
	require.Equal(t, []string{`flights 2 = "1" (false)`, `flights 1 = "1" (false)`, `learner hold = "2 40" (false)`}, s.harvest())
	require.Empty(t, s.harvest())
	q.Paid(Outcome{Ref: 41, Item: 1, Payoff: 0.1})
	require.Equal(t, []string{`queues 1 = "0 1" (false)`, `queue 1:0 = "0.1" (false)`, `flights 1 = "" (true)`}, s.harvest())
	q.Paid(Outcome{Ref: 40, Item: 2, Payoff: 0x1p-30})
	q.Selected(Outcome{Ref: 42, Item: 1})
	require.Equal(t, []string{
		`queues 1 = "1 1" (false)`, `queue 1:0 = "" (true)`,
		`2 {1 9.313225746154785e-10 8.673617379884035e-19}`, `flights 2 = "" (true)`,
		`1 {1 0.1 0.010000000000000002}`, `flights 1 = "1" (false)`, `learner hold = "" (true)`,
	}, s.harvest())
	// What came and went between two harvests was never written, and need not be deleted.
	q.Paid(Outcome{Ref: 42, Item: 1, Payoff: 1})
	q.Selected(Outcome{Ref: 43, Item: 1})
	require.Equal(t, []string{`queues 1 = "2 2" (false)`, `1 {2 1.1 1.01}`}, s.harvest())
	// What waits is written once.
	q.Selected(Outcome{Ref: 44, Item: 2})
	for payoff := range 3 {
		q.Paid(Outcome{Ref: int64(45 + payoff), Item: 1, Payoff: float64(payoff)})
		s.harvest()
	}
	require.Equal(t, []string{`queues 1 = "2 5" (false)`, `queue 1:4 = "2" (false)`}, s.log)
}

func TestQPMD_LoadRefusesWhatItCannotHaveWritten(t *testing.T) {
	type field struct{ hash, name, value string }
	for _, fields := range [][]field{
		{{"other", "1", "1"}},
		{{"queue", "1", "0.5"}},
		{{"queue", "3:0", "0.5"}},
		{{"queue", "-1:0", "0.5"}},
		{{"queue", "1:00", "0.5"}},
		{{"queue", "+1:0", "0.5"}},
		{{"queue", "1:", "0.5"}},
		{{"queue", "1:0", "NaN"}},
		{{"queue", "1:0", "Inf"}},
		{{"queue", "1:0", ""}},
		{{"queues", "1", "3 2"}},
		{{"queues", "1", "-1 2"}},
		{{"queues", "1", "1"}},
		{{"queues", "x", "0 1"}},
		{{"queues", "1", "0 99999999999999999999"}},
		{{"queues", "1", "0 1"}, {"queues", "1", "0 1"}},
		{{"queues", "1", "0 1"}, {"queue", "1:1", "0.5"}},
		{{"queue", "1:0", "0.5"}, {"queue", "1:2", "0.5"}, {"queues", "1", "0 2"}},
		{{"queue", "1:0", "0.5"}, {"queue", "1:1", "0.5"}, {"queues", "1", "0 1"}},
		{{"flights", "1", "-1"}},
		{{"flights", "1", "0"}},
		{{"flights", "1", "9223372036854775807"}},
		{{"flights", "3", "1"}},
		{{"learner", "other", "1 1"}},
		{{"learner", "hold", "1"}},
		{{"learner", "hold", "3 1"}},
		{{"learner", "hold", "1 "}},
		// Found in the end only: payoffs or their queue are missing.
		{{"queue", "1:0", "0.5"}},
		{{"queues", "1", "0 2"}, {"queue", "1:0", "0.5"}},
		{{"queues", "1", "0 4611686018427387904"}, {"queue", "1:0", "0.5"}},
		{{"queues", "1", "1 1"}, {"queue", "1:0", "0.5"}},
	} {
		q := NewQPMD(policy.NewUtility())
		q.Grow(3)
		var err error
		for _, f := range fields {
			err = errors.Join(err, q.LoadField(f.hash, []byte(f.name), []byte(f.value)))
		}
		err = errors.Join(err, q.Loaded())
		require.ErrorIs(t, err, ErrState, fmt.Sprint(fields))
	}
}

func FuzzQPMD_LoadField(f *testing.F) {
	f.Add("queue", "1:0", "0.5")
	f.Add("queues", "1", "0 1")
	f.Add("flights", "2", "3")
	f.Add("learner", "hold", "2 77")
	f.Fuzz(func(t *testing.T, hash, field, value string) {
		q := NewQPMD(policy.NewUtility())
		q.Grow(3)
		if q.LoadField(hash, []byte(field), []byte(value)) != nil || q.Loaded() != nil {
			return
		}
		// What is accepted can be gone on with.
		for k := range policy.Item(3) {
			q.Selected(Outcome{Ref: int64(k), Item: k})
			q.Paid(Outcome{Ref: int64(k), Item: k, Payoff: 1})
		}
		q.Harvest(newStore(q))
	})
}
