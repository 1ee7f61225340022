package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ranker-worker/ranker-worker/delay"
	"github.com/ranker-worker/ranker-worker/internal/admin"
)

func TestPrintAdds_NamesWhatAddsTheMost(t *testing.T) {
	c := admin.RankedCandidate{Item: "a", Adds: []delay.Contribution{
		{Cause: delay.OfFeatures, Feature: "intercept", Adds: 0.5}, {Cause: delay.OfFeatures, Feature: "price", Adds: -0.25}, {Cause: delay.OfItem, Adds: 0.0625}}}
	var b strings.Builder
	printAdds(&b, &c)
	require.Equal(t, "  expected of a: 0.3125, from intercept +0.5000, price -0.2500, its item +0.0625\n", b.String())
	for range mostAdds {
		c.Adds = append(c.Adds, delay.Contribution{Cause: delay.OfFeatures, Feature: "x", Adds: 1})
	}
	b.Reset()
	printAdds(&b, &c)
	require.Contains(t, b.String(), "x +1.0000 and 3 more +0.3125\n")
	b.Reset()
	printDeviations(&b, []delay.Deviation{{Level: "payoff", SD: 0.25}, {Level: "features", SD: 0.125}, {Level: "item", SD: 0.5}})
	require.Equal(t, "  payoffs differ (in standard deviations, in payoff ranges): by chance 0.2500, by features 0.1250, by item 0.5000\n", b.String())
}
