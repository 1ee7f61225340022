package partition

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ranker-worker/ranker-worker/delay"
	"github.com/ranker-worker/ranker-worker/policy"
	"github.com/ranker-worker/ranker-worker/policy/features"
	"github.com/ranker-worker/ranker-worker/state"
	"github.com/ranker-worker/ranker-worker/stream/event"
)

// outcomeLog is a learner that notes how impressions ended.
type outcomeLog struct {
	delay.Learner
	expired, unselected, paid []delay.Feedback
}

func (d *outcomeLog) Paid(fb delay.Feedback) { d.paid = append(d.paid, fb) }

func (d *outcomeLog) Expired(fb delay.Feedback)    { d.expired = append(d.expired, fb) }
func (d *outcomeLog) Unselected(fb delay.Feedback) { d.unselected = append(d.unselected, fb) }

// TestAbsences_MissedOutcomesAreFedOnce: the end of an impression is stored while its learner is gone, then fed and deleted.
func TestAbsences_MissedOutcomesAreFedOnce(t *testing.T) {
	var a unconfigured
	a.miss("feed", nil, &entry{offset: 12, items: []policy.Item{3, 1}, selected: 1, instance: 5, began: 77, payoffDeadline: 99})
	a.miss("feed", nil, &entry{offset: 13, items: []policy.Item{3, 1}, selected: 0, instance: -1, began: 80, payoffDeadline: 90, partialSum: partialSum{inParts: true, sum: 2.5, count: 1}})
	a.miss("feed", nil, &entry{offset: 14, items: []policy.Item{3, 1}, selected: 0, instance: -1, began: 81, payoffDeadline: 82, expected: []int64{-250000}})
	a.miss("feed", nil, &entry{offset: 15, items: []policy.Item{3}, selected: 0, alone: true, instance: -1, began: 82, payoffDeadline: 83,
		keptContext: keptContext{hasContext: true, ofUser: 1, context: []int8{-127, 64}}, expected: []int64{5}})
	a.miss("feed", nil, &entry{offset: 9, items: []policy.Item{3, 1}, selected: -1, instance: -1})
	a.miss("feed", nil, &entry{offset: 8, selected: -1})
	var c state.Changes
	a.seal(&c)
	require.Len(t, c.Writes, 5, "one whose items are not known was never fed")

	var fields []state.Field
	for _, w := range c.Writes {
		fields = append(fields, state.Field{Hash: w.Hash, Field: w.Field, Value: w.Value})
	}
	d := &outcomeLog{}
	space, err := features.New(features.Declaration{User: []features.Feature{{Name: "a", Low: 0, High: 1}},
		Item: []features.Feature{{Name: "b", Low: 0, High: 1}}, Cross: [][2]string{{"a", "b"}}})
	require.NoError(t, err)
	l := &learner{storedLearner: storedLearner{name: "feed"}, delay: d, cfg: &LearnerConfig{PayoffMax: 10}}
	l.items = newItemIndex(NewNameTable())
	for i := range int32(4) {
		l.items.intern(i)
	}
	var j joiner
	require.NoError(t, j.deliver(l, fields))
	require.Equal(t, []delay.Feedback{{Ref: 12, Item: 1, Instance: 5, Began: 77, Horizon: 22, Candidates: []policy.Item{3, 1}},
		{Ref: 14, Item: 3, Instance: -1, Began: 81, Horizon: 1, Expected: -0.25, HasExpected: true},
		{Ref: 15, Item: 3, Instance: -1, Began: 82, Horizon: 1, Expected: 5e-6, HasExpected: true}}, d.expired)
	require.Equal(t, []delay.Feedback{{Ref: 9, Instance: -1}}, d.unselected)
	require.Equal(t, []delay.Feedback{{Ref: 13, Item: 3, Instance: -1, Began: 80, Horizon: 10, InParts: true, Before: 0.25, Payoff: 0.25, Age: 10}}, d.paid)

	c = state.Changes{}
	j.unconfigured.seal(&c)
	j.unconfigured.seal(&c)
	require.Equal(t, []state.Write{{Hash: "feed:missed", Field: []byte("9")}, {Hash: "feed:missed", Field: []byte("12")},
		{Hash: "feed:missed", Field: []byte("13")}, {Hash: "feed:missed", Field: []byte("14")}, {Hash: "feed:missed", Field: []byte("15")}}, c.Writes)

	none := 5.0
	d.paid, l.cfg.Context, l.cfg.ExpiryDefault = nil, NewContext(space, false), &none
	require.NoError(t, j.deliver(l, fields))
	require.Len(t, d.paid, 4)
	first := d.paid[0]
	require.Equal(t, []any{0.5, int64(22), true}, []any{first.Payoff, first.Age, first.Defaulted})
	require.False(t, d.paid[1].Defaulted)
	require.Equal(t, []int8{127, -127, 64, -64}, d.paid[3].X)
	require.Empty(t, d.paid[2].X)
	l.cfg.Context = nil

	whole := string(fields[0].Value)
	for _, bad := range [][2]string{{"x", whole}, {"-1", whole}, {"1", ""}, {"1", whole[:len(whole)-1]}, {"1", whole + "0"},
		{"1", string(appendEntry(nil, &entry{kind: tombstone, unit: unit{arm: noArm}}))}} {
		require.Error(t, j.deliver(l, []state.Field{{Field: []byte(bad[0]), Value: []byte(bad[1])}}), bad)
	}
	l.items = newItemIndex(NewNameTable())
	require.Error(t, j.deliver(l, fields), "an item that the learner does not have")
}

// restart saves, and goes on with other learners.
func (w *world) restart(with []LearnerConfig) {
	w.save()
	w.cfg.Learners = with
	w.start()
	w.walkKnown()
}

func withoutFirst(all []LearnerConfig) []LearnerConfig {
	others := slices.Clone(all[1:])
	others[0].Default = true
	return others
}

// TestAbsences_UnpaidSelectionsCount: a learner that was left out for longer than a horizon has the statistics of one that was not.
func TestAbsences_UnpaidSelectionsCount(t *testing.T) {
	var sums []policy.Sums
	for _, leaves := range []bool{false, true} {
		w := newWorld(t, trialConfig(t, nil))
		w.cfg.Experiments = nil
		w.start()
		w.walkKnown()
		for i := range 20 {
			id := fmt.Sprint("i-", i)
			w.ranked(id, "", day)
			w.worth(id, float64(min(i%4, 1)-1)*2+1, day) // three of four are paid
		}
		all := w.cfg.Learners
		if leaves {
			w.restart(withoutFirst(all))
		}
		w.pass(day + settled)
		w.restart(all)
		sums = append(sums, w.m.learners[0].delay.Sums(0))
	}
	require.Equal(t, policy.Sums{N: 20, R: 15, Q: 15}, sums[0])
	require.Equal(t, sums[0], sums[1])
}

// A payoff that is refused while its learner is left out is no missing one: its selection teaches nothing. The learner returns before the
// deadline or after it. A late payoff changes nothing.
func TestAbsences_SelectionsPaidMeanwhileTeachNothing(t *testing.T) {
	for _, c := range []struct {
		sum         bool
		paid, back  event.Millis // after the selections
		part, learn int64
	}{{back: settled}, {back: 0}, {sum: true, back: settled}, {sum: true, back: 0}, {sum: true, part: 1, back: settled}, {paid: settled / 2, back: settled, learn: 20}} {
		w := newWorld(t, trialConfig(t, nil))
		w.cfg.Experiments = nil
		w.cfg.Learners[0].AggregateSum = c.sum
		w.cfg.Learners[0].PayoffHorizon = settled / 4
		w.start()
		w.walkKnown()
		pay := func(id string, at event.Millis) {
			w.now = max(w.now, at)
			require.NoError(t, w.read(event.Payoffs, id, event.AppendPayoff(nil, &event.Payoff{ID: []byte(id), Payoff: 1, HasTime: true, Time: at}), at))
		}
		for i := range 20 {
			id := fmt.Sprint("i-", i)
			w.ranked(id, "", day)
			w.worth(id, -1, day)
			if c.part > 0 {
				pay(id, day)
			}
		}
		all := w.cfg.Learners
		w.restart(withoutFirst(all))
		for i := range 20 {
			pay(fmt.Sprint("i-", i), day+c.paid)
		}
		w.pass(day + c.back)
		w.restart(all)
		w.pass(day + settled)
		require.Equal(t, policy.Sums{N: c.learn}, w.m.learners[0].delay.Sums(0), "%+v", c)
		require.Zero(t, w.m.learners[0].observer.drops.all.expired, "%+v", c)
		require.Zero(t, w.m.ledger.now[impressionsPending])
	}
}

// TestAbsences_SelectionsRefusedMeanwhile: a selection that is refused while its learner is left out is no missing one. A payoff shows one
// too. If the selection is sent again, it is unpaid like any other.
func TestAbsences_SelectionsRefusedMeanwhile(t *testing.T) {
	for _, c := range []struct{ payoff, again bool }{{}, {again: true}, {payoff: true}} {
		w := newWorld(t, trialConfig(t, nil))
		w.cfg.Experiments = nil
		for i := range w.cfg.Learners {
			w.cfg.Learners[i].New = func() delay.Learner {
				d := delay.NewDirect(policy.NewGreedy(), delay.Silence{})
				d.LearnAttraction(0)
				return d
			}
		}
		w.start()
		w.walkKnown()
		w.ranked("i", "", day)
		all := w.cfg.Learners
		w.restart(withoutFirst(all))
		if c.payoff {
			require.NoError(t, w.read(event.Payoffs, "i", event.AppendPayoff(nil, &event.Payoff{ID: []byte("i"), Payoff: 1}), day))
		} else {
			w.worth("i", -1, day)
		}
		require.Len(t, w.letters, 1)
		w.restart(all)
		if c.again {
			w.worth("i", -1, day)
		}
		w.pass(day + settled)
		require.Zero(t, w.m.ledger.now[impressionsPending])
		l := w.m.learners[0].delay
		n := int64(0)
		if c.again {
			n = 1
		}
		require.Equal(t, policy.Sums{N: n}, l.Sums(0), "%+v", c)
		require.Equal(t, n, l.Status().Attraction.Impressions, "%+v", c)
	}
}

// TestAbsences_UnselectedFreeTheirInstance: an impression ends without a selection while its learner is left out. On its return bold's
// instance waits no longer.
func TestAbsences_UnselectedFreeTheirInstance(t *testing.T) {
	w := newWorld(t, trialConfig(t, nil))
	w.cfg.Experiments = nil
	base, err := policy.NewFTRL(1, true)
	require.NoError(t, err)
	w.cfg.Learners[0].New = func() delay.Learner {
		d, err := delay.NewBOLD(delay.BOLDConfig{Base: base})
		require.NoError(t, err)
		return d
	}
	w.start()
	w.walkKnown()
	w.ranked("i", "", day)
	all := w.cfg.Learners
	w.restart(withoutFirst(all))
	require.NotEmpty(t, w.store.fields["feed:instances"])
	w.pass(day + settled)
	w.restart(all)
	w.save()
	require.Empty(t, w.store.fields["feed:instances"])
	require.Zero(t, w.m.learners[0].delay.Status().Flights)
}
