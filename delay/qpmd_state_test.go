package delay

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ranker-worker/ranker-worker/policy"
)

func TestQPMD_HarvestGivesOnlyWhatChanged(t *testing.T) {
	q := NewQPMD(policy.NewUtility())
	q.Grow(3)
	s := newStore(q)
	require.Empty(t, s.harvest())
	q.Selected(Feedback{Ref: 40, Item: 2})
	q.Selected(Feedback{Ref: 41, Item: 1})
	require.Equal(t, []string{`flights 2 = "1" (false)`, `flights 1 = "1" (false)`, `learner hold = "2 40" (false)`}, s.harvest())
	require.Empty(t, s.harvest())
	q.Paid(Feedback{Ref: 41, Item: 1, Payoff: 0.1})
	require.Equal(t, []string{`queue 1:0 = "0.1" (false)`, `flights 1 = "" (true)`}, s.harvest())
	q.Paid(Feedback{Ref: 40, Item: 2, Payoff: 0x1p-30})
	q.Selected(Feedback{Ref: 42, Item: 1})
	require.Equal(t, []string{
		`queue 1:0 = "" (true)`,
		`2 {1 9.313225746154785e-10 8.673617379884035e-19}`, `1 {1 0.1 0.010000000000000002}`,
		`flights 2 = "" (true)`, `flights 1 = "1" (false)`, `learner hold = "" (true)`,
	}, s.harvest())
	// A selection that begins and ends between two harvests was never written, and need not be deleted.
	q.Paid(Feedback{Ref: 42, Item: 1, Payoff: 1})
	q.Selected(Feedback{Ref: 43, Item: 1})
	require.Equal(t, []string{`1 {2 1.1 1.01}`}, s.harvest())
	// A waiting payoff is written once.
	q.Selected(Feedback{Ref: 44, Item: 2})
	for payoff := range 3 {
		q.Paid(Feedback{Ref: int64(45 + payoff), Item: 1, Payoff: float64(payoff)})
		s.harvest()
	}
	require.Equal(t, []string{`queue 1:2 = "2" (false)`}, s.log)
}
