package partition

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ranker-worker/ranker-worker/delay"
	"github.com/ranker-worker/ranker-worker/policy"
	"github.com/ranker-worker/ranker-worker/policy/features"
	"github.com/ranker-worker/ranker-worker/stream/event"
)

// TestTransfer_CarriesWhatWasExpected: the learner of the receiving partition is
// fed the expected payoff of a carried impression, before and after its selection.
func TestTransfer_CarriesWhatWasExpected(t *testing.T) {
	var calls []string
	expected := 0.25
	cfg := testConfig()
	cfg.Learners[0].New = func() delay.Learner {
		return &tally{changed: map[policy.Item]bool{}, calls: &calls, expects: func(policy.Sums) float64 { return expected }}
	}
	from := newWorld(t, cfg)
	for _, id := range []string{"i-1", "i-2"} {
		from.ask(id)
		expected += 0.5
	}
	from.chosen("i-1", "a")
	from.save()

	expected = -1
	to := newWorld(t, cfg)
	calls = nil
	transfer := NewTransfer(&Offline{Machine: from.m}, &Offline{Machine: to.m}, delay.Portion{})
	for _, id := range []string{"i-1", "i-2"} {
		found := from.store.find(from.text(id))
		require.NoError(t, transfer.Entry(from.text(id), from.store.pages[found.Page].bucket, found.Value, Found{}))
	}
	to.save()
	to.unsaved = nil
	to.crash()
	to.chosen("i-2", "b")
	for _, id := range []string{"i-1", "i-2"} {
		require.NoError(t, to.read(event.Payoffs, id, event.AppendPayoff(nil, &event.Payoff{ID: []byte(id), Payoff: 1}), day))
	}
	require.Equal(t, []string{ // of i-1 only the item selected is known, and so it is item 0 there
		"carry item 0, selected: true expected 0.25",
		"carry item 0, selected: false expected nothing",
		"selected 2305843009213693954 item 1 expected 0.75",
		"paid 2305843009213693953 item 0 payoff 1 expected 0.25",
		"paid 2305843009213693954 item 1 payoff 1 expected 0.75",
	}, calls)
}

// ask reads an impression of two items.
func (w *world) ask(id string) {
	imp := event.Impression{ID: []byte(id), HasUtilities: true, Candidates: []event.Candidate{{Item: []byte("a")}, {Item: []byte("b"), Utility: 1}}}
	require.NoError(w.t, w.read(event.Impressions, id, event.AppendImpression(nil, &imp), day))
}

// chosen reads a selection.
func (w *world) chosen(id, item string) {
	s := event.Selection{ID: []byte(id), Item: []byte(item)}
	require.NoError(w.t, w.read(event.Selections, id, event.AppendSelection(nil, &s), day))
}

// TestTransfer_OfOneLearner: statistics of one learner are carried over beside another that is not configured any more. All are not, since
// that one's would be lost.
func TestTransfer_OfOneLearner(t *testing.T) {
	cfg := testConfig()
	old := cfg.Learners[0]
	old.Name = "old"
	for i := range cfg.Learners {
		cfg.Learners[i].New = func() delay.Learner { return delay.NewDirect(policy.NewGreedy(), delay.Silence{}) }
	}
	old.New = cfg.Learners[0].New
	both := cfg
	both.Learners = append([]LearnerConfig{cfg.Learners[0]}, old)
	from := newWorld(t, both)
	from.ask("i-1")
	from.save()
	from.cfg = cfg
	from.start()
	to := newWorld(t, cfg)
	transfer := NewTransfer(&Offline{Machine: from.m}, &Offline{Machine: to.m}, delay.Portion{Additive: true, Of: 1})
	require.NoError(t, transfer.Learner("feed"))
	require.ErrorIs(t, transfer.Statistics(), ErrTransfer)
	require.ErrorContains(t, transfer.Statistics(), `"old"`)
}

// TestTransfer_CarriesAges: a new partition that takes over no sums knows when items were first met.
func TestTransfer_CarriesAges(t *testing.T) {
	space, err := features.New(features.Declaration{Age: true})
	require.NoError(t, err)
	cfg := testConfig()
	cfg.Learners[0].New = func() delay.Learner {
		l, err := delay.NewContextual(policy.NewGreedy(), delay.ContextualConfig{Space: space, Silence: delay.Silence{Law: delay.SilenceAtOnce},
			Belief: policy.Belief{Sigma: 0.5, Prior: policy.EmpiricalPrior}})
		require.NoError(t, err)
		return l
	}
	cfg.Learners[0].Context = NewContext(space, true)
	from, to := newWorld(t, cfg), newWorld(t, cfg)
	from.ask("i-1")
	transfer := NewTransfer(&Offline{Machine: from.m}, &Offline{Machine: to.m}, delay.Portion{})
	require.NoError(t, transfer.Statistics())
	to.save()
	require.Equal(t, map[string]string{"0": "1", "1": "1"}, to.store.fields["feed:met"])
}
