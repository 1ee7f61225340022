package main

import (
	"bytes"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ranker-worker/ranker-worker/internal/demo"
	"github.com/ranker-worker/ranker-worker/internal/platform"
	"github.com/ranker-worker/ranker-worker/internal/plural"
	"github.com/ranker-worker/ranker-worker/internal/test/testenv/proc"
)

// TestDemoFits80Columns with the largest numbers that there can be, and a regret below 0 is not left without a reason.
func TestDemoFits80Columns(t *testing.T) {
	const many = maxDemoImpressions
	show := func(regret float64) string {
		var out bytes.Buffer
		fmt.Fprintf(&out, demoIntroduction, "127.0.0.1:65535", plural.N(many, "impression"))
		d := demoProgress{w: &out, live: true}
		d.update(demo.Progress{Progress: platform.Progress{Rankings: many}, Impressions: many, Day: 99999 * 24 * time.Hour,
			Learners: []demo.LearnerProgress{{Name: "feed", Regret: regret, ByUtility: many}, {Name: "front-page", Regret: many, ByUtility: many}}})
		d.end()
		s := &demo.Summary{Impressions: many, Rankings: many, Selections: many, Seconds: 999, Simulated: 99999 * time.Hour, Sent: many,
			Pending: many, Payoffs: demo.Payoffs{Applied: many, Duplicate: many, Late: many, Orphan: many, Rejected: many, Parked: many},
			Learners: map[string]*demo.Learner{"front-page": {Policy: "ftrl", Delay: "bold", Regret: regret, RegretUtilityOrder: many,
				PayoffsSent: many, Payoffs: demo.Payoffs{Applied: many, Duplicate: many, Late: many}}}}
		s.Account.Impressions.Paid, s.Account.Impressions.Expired, s.Account.Impressions.Unselected = many, many, many
		s.Account.Selections.Joined, s.Account.Selections.Duplicate, s.Account.Selections.Late = many, many, many
		printSummary(&out, s)
		return out.String()
	}
	for line := range strings.Lines(strings.ReplaceAll(show(-many), "\r", "")) {
		require.LessOrEqual(t, utf8.RuneCountInString(strings.TrimSuffix(line, "\n")), 80, line)
	}
	assert.True(t, strings.HasPrefix(show(1), "Live page, while this runs: http://127.0.0.1:65535/\n"), "the first line is the page's address")
	assert.Equal(t, 2, strings.Count(show(-1), "Negative regret"))
	assert.NotContains(t, show(-0.4), "Negative regret")
	assert.NotContains(t, show(-0.4), "-0")
	assert.Contains(t, show(1), "docs/understand/policies.md")
	assert.Contains(t, show(1), "docs/learn/your-own-events.md")
}

// TestDemo_EndsIfAPartCannotStart: serve's address is in use. The worker, which has started, ends with it.
func TestDemo_EndsIfAPartCannotStart(t *testing.T) {
	ports, err := proc.FreePorts(3)
	require.NoError(t, err)
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { _ = taken.Close() }()
	inFile(t, "worker.yaml", fmt.Sprintf(`kafka: {brokers: ['127.0.0.1:%d'], group: g}
redis: {url: 'redis://127.0.0.1:%d/0'}
learners: {feed: {payoffs: stochastic}}
http: {listen: '127.0.0.1:%d'}
serve: {listen: '%s'}
`, ports[0], ports[1], ports[2], taken.Addr()))
	ended := make(chan ran, 1)
	go func() { ended <- run(t, "", "demo", "--config", "worker.yaml") }()
	select {
	case r := <-ended:
		require.NotEqual(t, exitOK, r.code)
		require.Contains(t, r.errOut, "address already in use")
	case <-time.After(45 * time.Second):
		t.Fatal("it goes on without serve")
	}
}
