package dashboard

import (
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ranker-worker/ranker-worker/internal/test/memstore"
	"github.com/ranker-worker/ranker-worker/stream"
)

// TestForgottenImpressionsAreNotShown: an impression leaves the page once payoff_horizon and join.remember are over.
func TestForgottenImpressionsAreNotShown(t *testing.T) {
	w := busy("w-1")
	w.learners[0].PayoffHorizon = 3000
	r := w.seen[1].Look.Learners[0].Ranking
	b := board(w, nil)
	for at, shown := range map[int64]int{1_000_000 - 63_000: 0, 1_000_001 - 63_000: 1} {
		r.Time = at
		b.tick(time.Now())
		require.Len(t, b.own.Rankings, shown)
		require.Len(t, find(t, b, "i-1").Rankings, shown)
		b.known.addRankings(nil, 1_000_001)
		require.Empty(t, b.known.rankings)
		require.Empty(t, b.known.sampled)
	}
	r.Time = 0
	b = New(Options{Source: w, Counters: counters{w}, Simulated: true, Logger: slog.New(slog.DiscardHandler)})
	b.tick(time.Now())
	require.Len(t, b.own.Rankings, 1, "of the demo, which is over")
}

// TestAnUnservedPage: its worker samples nothing, shows the others its figures without names, and keeps none of theirs.
func TestAnUnservedPage(t *testing.T) {
	store := memstore.New(func() string { return "0" })
	served := board(busy("w-1"), store)
	served.tick(time.Now())
	served.show(t.Context())

	own := served.opt.Source.(*worker).seen[1].Status
	own.Learners[0].OnHold, own.Learners[0].HoldItem = true, "ours"
	w := busy("w-2")
	s := w.seen[1].Status
	s.Learners[0].OnHold, s.Learners[0].HoldItem = true, "held"
	w.seen[1] = stream.Observed{Status: s} // as long as no look is asked for
	b := board(w, store)
	b.opt.Unserved = true
	b.tick(time.Now())
	b.show(t.Context())
	b.tick(time.Now())
	require.Zero(t, w.looks)
	require.Empty(t, b.others)
	require.Empty(t, b.known.rankings)
	served.tick(time.Now())
	served.show(t.Context())
	require.Len(t, served.others, 1)
	of := served.others[0]
	require.Equal(t, b.own.Account, of.Account)
	require.Empty(t, of.Rankings)
	require.Empty(t, of.DeadLetters)
	require.Equal(t, 1, of.Learners[0].OnHold)
	require.Empty(t, of.Learners[0].HoldItem)
	all := page(t, served).Learners[0]
	require.Equal(t, 2, all.OnHold)
	require.Equal(t, "ours", all.HoldItem)
}
