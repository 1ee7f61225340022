package config

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A wide range is warned of unless its steps are even by the logarithm; predicted has the scale of payoffs.
func TestScale(t *testing.T) {
	of := func(item string) (*Config, []Fault, error) {
		return Load("w.yaml", []byte("kafka: {brokers: localhost:9092, group: g, topics: {impressions: i, selections: s, payoffs: p, rankings: r}}\n"+
			"redis: {url: redis://localhost:6379}\nlearners: {feed: {payoffs: stochastic, context: {item: ["+item+"]}}}\n"), nil)
	}
	_, warnings, err := of("{name: views, range: [0, 10000]}")
	require.NoError(t, err)
	require.Len(t, warnings, 1)
	require.Contains(t, warnings[0].String(), "a step of views is 39.4 wide")
	c, warnings, err := of("{name: views, range: [0, 10000], scale: log}, {name: price, range: [0, 500]}")
	require.NoError(t, err)
	require.Empty(t, warnings)
	declared := c.Learners[0].Features()
	require.True(t, declared.Item[0].Log)
	require.False(t, declared.Item[1].Log)
	_, _, err = of("{name: predicted, scale: log}")
	require.ErrorContains(t, err, "its scale linear")
}

// A learner's declaration is part of its fingerprint, and of no other learner's.
func TestContextFingerprint(t *testing.T) {
	of := func(context string) string {
		file := "kafka: {brokers: localhost:9092, group: g, topics: {impressions: i, selections: s, payoffs: p, rankings: r}}\nredis: {url: redis://localhost:6379}\n" +
			"learners: {feed: {payoffs: stochastic, context: " + context + "}}\n"
		c, _, err := Load("w.yaml", []byte(file), nil)
		require.NoError(t, err)
		return c.Learners[0].contextFingerprint()
	}
	require.Empty(t, of("{}"))
	require.Empty(t, of("{segments: [], categories: false}"))
	require.Equal(t, ` segments=[new, 25-34 old]`, of(`{segments: [new, 25-34 old]}`))
	require.Equal(t, " categories=true", of("{categories: true}"))
	require.Equal(t, ` item=[predicted] segments=[new] categories=true`, of(`{segments: [new], categories: true, item: [predicted]}`))
	require.Equal(t, " item=[{name: price, range: [0, 500], scale: log}]", of(`{item: [{name: price, range: [0, 500], scale: log}]}`))
	require.Equal(t, of("{clock: [hour]}"), of("{clock: [hour], missing: zero}"))
	require.Equal(t, of("{age: true}"), of("{age: true, time_zone: Europe/Berlin}"), "no clock is in that zone")
	require.Equal(t, of("{clock: [hour, weekday]}"), of("{clock: [weekday, hour], time_zone: UTC}"))
	require.NotEqual(t, of("{clock: [hour]}"), of("{clock: [hour], time_zone: Europe/Berlin}"))
	var many []string
	for i := range 20 {
		many = append(many, fmt.Sprintf("feature-%d", i))
	}
	require.Equal(t, " item=["+strings.Join(many, ", ")+"]", of("{item: ["+strings.Join(many, ", ")+"]}"), "one line")
	require.NotEqual(t, of(`{segments: [a, b]}`), of(`{segments: [b, a]}`), "numbers go by the order")
}
