package main

import (
	"bytes"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ranker-worker/ranker-worker/delay"
	"github.com/ranker-worker/ranker-worker/internal/admin"
)

func TestStateUsage(t *testing.T) {
	for _, args := range [][]string{
		{"inspect"}, {"inspect", "--config", "x", "--candidates", "a,,b"}, {"inspect", "--config", "x", "--candidates", "a:NaN"},
		{"inspect", "--config", "x", "--candidates", "a:1,a:2"}, {"inspect", "--config", "x", "--candidates", ":1"},
		{"inspect", "--config", "x", "--partition", "-2"},
	} {
		got := run(t, "", append([]string{"state"}, args...)...)
		assert.Equal(t, exitUsage, got.code, args)
		assert.Empty(t, got.out, args)
	}
	help := run(t, "", "state")
	assert.Equal(t, exitOK, help.code)
	assert.Contains(t, help.out, "inspect")
}

func TestParseCandidates_LastColonCounts(t *testing.T) {
	got, err := parseCandidates("urn:a:0.5,b:-1e3")
	require.NoError(t, err)
	require.Equal(t, []admin.Candidate{{Item: "urn:a", Utility: 0.5}, {Item: "b", Utility: -1000}}, got)
	got, err = parseCandidates("urn:a,b")
	require.NoError(t, err)
	require.Equal(t, []admin.Candidate{{Item: "urn:a", Plain: true}, {Item: "b", Plain: true}}, got)
}

// TestPrintReport as a person sees it.
func TestPrintReport(t *testing.T) {
	x := func(v float64) *float64 { return &v }
	r := &admin.Report{Group: "ranker", Partitions: []admin.PartitionReport{{Partition: 0, Sequence: 12,
		Watermark: "2026-11-21T10:00:00Z", Account: map[string]int64{"impressions.read": 5, "payoffs.applied": 3}}},
		Learners: []admin.LearnerReport{{Learner: "feed", Policy: "elimination", Delay: "qpmd", PayoffRange: [2]float64{0, 10},
			Payoffs: 3, Items: []admin.ItemReport{{Item: "a", Payoffs: 3, Mean: x(0.25), ItemInspection: delay.ItemInspection{InFlight: 9, Silent: 1.75}}, {Item: "b"}},
			Silence: admin.SilenceReport{Law: "ages", PaidShare: x(0.125), DelayP50: x(90), DelayP90: x(7200)},
			Parts:   []admin.PartReport{{Hold: &admin.HoldReport{Item: "b", Impression: 7}}},
			Ranking: &admin.Ranking{Rule: "the best leads", OnHold: "b", Candidates: []admin.RankedCandidate{
				{Item: "b", Utility: 1, Leads: true}, {Item: "a", BlockedBy: "b", Payoffs: 3, Mean: x(0.25), Lower: x(0.1), Upper: x(0.4)}}}}}}
	var out bytes.Buffer
	printReport(&out, r, 1)
	for _, want := range []string{"Group ranker", "2026-11-21T10:00:00Z", "2 items, 3 payoffs fed", "scaled from 0..10",
		`on hold: it waits for a payoff of "b"`, "and 1 more", "Rule: the best leads.", "frozen until", "−∞..∞", "0.1..0.4",
		"blocked by b", "1.75",
		"silence ages:", "0.1250 of selections are paid, half of those within 1m30s, nine tenths within 2h0m0s"} {
		assert.Contains(t, out.String(), want)
	}
	assert.NotContains(t, strings.ReplaceAll(out.String(), "NaN", "!"), "!")
}

// TestPrintLevel: without data, unchanged, and changed.
func TestPrintLevel(t *testing.T) {
	print := func(l *admin.LevelReport) string {
		var out bytes.Buffer
		r := &admin.Report{Learners: []admin.LearnerReport{{Level: l, Silence: admin.SilenceReport{Law: "waits"}}}}
		printReport(&out, r, 1)
		return out.String()
	}
	assert.NotContains(t, print(nil), "level")
	assert.Contains(t, print(&admin.LevelReport{}), "no payoff has come yet")
	then, minutes := "2026-11-21T10:00:00Z", 480.
	assert.Contains(t, print(&admin.LevelReport{AsOf: then, Level: 0.001}), then+": +0.0010 (in payoff ranges), which has not changed lately")
	assert.Contains(t, print(&admin.LevelReport{AsOf: then, Level: -0.25, HalfLife: &minutes}), "-0.2500 (in payoff ranges), which has changed lately: half-life 8m0s")
}

// TestPrintWindows: learned ones are not taken for given ones, before anything is learned either.
func TestPrintWindows(t *testing.T) {
	print := func(l admin.LearnerReport) string {
		var out bytes.Buffer
		l.Windows, l.Silence.Law = []float64{0.5, 0.5}, "waits"
		printReport(&out, &admin.Report{Learners: []admin.LearnerReport{l}}, 1)
		return out.String()
	}
	assert.Contains(t, print(admin.LearnerReport{}), "windows (given): 1: 0.500")
	assert.Contains(t, print(admin.LearnerReport{Learns: true}), "windows (to be learned")
	assert.Contains(t, print(admin.LearnerReport{Learns: true, LearnedFrom: 7}), "windows (learned from 7 selections)")
	assert.Contains(t, print(admin.LearnerReport{Learns: true, LearnedFrom: 7, Noise: 0.213}),
		"windows (learned from 7 selections; 21% of users select any item in theirs)")
}
