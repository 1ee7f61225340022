package demo

import (
	"context"
	"log/slog"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestDemo_AccountsForEverythingAndLearns: what the summary promises.
func TestDemo_AccountsForEverythingAndLearns(t *testing.T) {
	log := slog.New(slog.DiscardHandler)
	if testing.Verbose() {
		log = slog.New(slog.NewTextHandler(os.Stderr, nil))
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	const impressions = 3000
	s, err := Run(ctx, Options{Impressions: impressions, Seed: 3, Logger: log})
	require.NoError(t, err)
	require.Equal(t, impressions, s.Impressions)
	require.Equal(t, impressions, s.Rankings)
	p := s.Payoffs
	require.Equal(t, int64(s.Sent), p.Applied+p.Duplicate+p.Late+p.Orphan+p.Rejected+p.Parked)
	require.Positive(t, p.Applied)
	require.Positive(t, p.Late)
	require.Zero(t, s.Pending)
	require.Equal(t, [3]int64{}, s.Account.Unaccounted())
	l := s.Learners["feed"]
	require.Less(t, l.Regret, l.RegretUtilityOrder)
	require.Positive(t, l.Misalignment)
}
