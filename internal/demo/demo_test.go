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
	require.Len(t, s.Learners, 2)
	var made, sent, applied, duplicate, late int64
	for name, l := range s.Learners {
		require.Less(t, l.Regret, l.RegretUtilityOrder, name)
		require.Positive(t, l.Misalignment, name)
		require.Equal(t, l.Impressions, l.Rankings, name)
		require.Zero(t, l.Pending, name)
		require.Equal(t, int64(l.PayoffsSent), l.Payoffs.Applied+l.Payoffs.Duplicate+l.Payoffs.Late, name)
		made += int64(l.Impressions)
		sent += int64(l.PayoffsSent)
		applied += l.Payoffs.Applied
		duplicate += l.Payoffs.Duplicate
		late += l.Payoffs.Late
	}
	require.EqualValues(t, impressions, made)
	require.Equal(t, int64(s.Sent), sent+p.Orphan, "but for payoffs that are for nobody's impression")
	require.Equal(t, [3]int64{p.Applied, p.Duplicate, p.Late}, [3]int64{applied, duplicate, late})
	require.Equal(t, "ftrl", s.Learners["front-page"].Policy)
}
