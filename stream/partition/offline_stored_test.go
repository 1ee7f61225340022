package partition

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ranker-worker/ranker-worker/delay"
	"github.com/ranker-worker/ranker-worker/policy"
	"github.com/ranker-worker/ranker-worker/state"
)

// reset resets a learner, and lets a worker start.
func (w *world) reset(name string) (was string) {
	var fields []state.Field
	for f, v := range w.store.fields[state.MetaHash] {
		fields = append(fields, state.Field{Hash: state.MetaHash, Field: []byte(f), Value: []byte(v)})
	}
	changes, drop, was, err := ResetLearner(fields, name)
	require.NoError(w.t, err)
	for _, hash := range drop {
		delete(w.store.fields, hash)
	}
	w.store.apply(&changes)
	w.start()
	w.walkKnown()
	w.save()
	return was
}

// Learners have other numbers after a reshard. A reset then keeps all that earlier ones have put aside.
func TestResetLearner_AfterAReshard(t *testing.T) {
	cfg := testConfig()
	cfg.Learners[0].New = func() delay.Learner { return delay.NewDirect(policy.NewGreedy(), delay.Silence{}) }
	other := cfg.Learners[0]
	cfg.Learners[0].Default, other.Name = true, "other"
	cfg.Learners = append(cfg.Learners, other)
	from := newWorld(t, cfg)
	from.ask("i-1")
	from.save()
	from.reset("feed")
	from.reset("other")

	to := newWorld(t, cfg)
	transfer := NewTransfer(&Offline{Machine: from.m}, &Offline{Machine: to.m}, delay.Portion{Additive: true, Of: 1})
	transfer.Account()
	require.NoError(t, transfer.Statistics())
	found := from.store.find(from.text("i-1"))
	require.NoError(t, transfer.Entry(from.text("i-1"), from.store.pages[found.Page].bucket, found.Value, Found{}))
	to.save()
	to.reset("feed")
	names := map[string]bool{}
	for _, l := range to.m.learners {
		names[l.name] = true
	}
	require.Len(t, names, 5, "two learners, and three names that resets have made")
	to.chosen("i-1", "a")
	require.Len(t, to.letters, 1)
	require.EqualValues(t, 1, to.m.ledger.now[selectionsRejected])
}
