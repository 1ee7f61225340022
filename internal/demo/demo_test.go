package demo

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/ranker-worker/ranker-worker/internal/serve"
	"github.com/ranker-worker/ranker-worker/stream"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestDemo_AccountsForEverythingAndLearns, as the summary promises.
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
	require.Equal(t, "robust", s.Learners["front-page"].Policy)
}

// TestDemo_Serves: when all is played the worker goes on, is asked over HTTP, and shows the items and payoffs of all learners as before.
func TestDemo_Serves(t *testing.T) {
	ctx, stop := context.WithTimeout(t.Context(), 2*time.Minute)
	defer stop()
	var answer, page string
	type figures struct {
		Account  map[string]int
		Learners []struct{ Items, Fed int }
	}
	var played, live figures
	s, err := Run(ctx, Options{Impressions: 200, Seed: 3, Logger: slog.New(slog.DiscardHandler), Listen: "127.0.0.1:0",
		Page: func(address string) { page = "http://" + address + "/page/live.json" },
		Serve: func(ctx context.Context, s *Summary, d *serve.Service) error {
			server, err := serve.Listen(d, stream.ServerConfig{Registry: prometheus.NewRegistry(), Unready: d.Unready})
			require.NoError(t, err)
			ended, drain := context.WithCancel(ctx)
			served := make(chan error)
			go func() { served <- server.Run(ended, context.Background()) }()
			client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
			look := func(into *figures, impressions int) {
				require.Eventually(t, func() bool {
					res, err := client.Get(page)
					require.NoError(t, err)
					defer res.Body.Close()
					require.NoError(t, json.NewDecoder(res.Body).Decode(into))
					return into.Account["impressions.read"] >= impressions
				}, time.Minute, 100*time.Millisecond)
			}
			look(&played, 200)
			require.Eventually(t, func() bool {
				res, err := client.Post("http://"+server.Addr()+"/v1/rank", "application/json", strings.NewReader(
					`{"impression_id":"mine","learner":"feed","candidates":[{"item":"item-01","utility":1},{"item":"item-02","utility":2}]}`))
				require.NoError(t, err)
				defer res.Body.Close()
				body, err := io.ReadAll(res.Body)
				require.NoError(t, err)
				answer = string(body)
				return strings.Contains(answer, `"substitute":false`)
			}, time.Minute, 10*time.Millisecond)
			look(&live, 201)
			drain()
			return <-served
		}})
	require.NoError(t, err)
	require.Equal(t, 200, s.Rankings)
	require.Contains(t, answer, `"policy":"moss"`)
	require.Len(t, live.Learners, 2)
	for i, l := range live.Learners {
		require.Greater(t, l.Items, 2, "more than the impression's")
		require.Greater(t, played.Learners[i].Fed, 50)
		require.GreaterOrEqual(t, l.Fed, played.Learners[i].Fed, "no payoff is forgotten")
	}
}
