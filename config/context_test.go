package config

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// What a learner looks at is part of its fingerprint, and of no other's.
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
	require.Equal(t, ` segments="new","25-34 old"`, of(`{segments: [new, 25-34 old]}`))
	require.Equal(t, " categories", of("{categories: true}"))
	require.Equal(t, ` item=predicted:0..1 segments="new" categories`, of(`{segments: [new], categories: true, item: [predicted]}`))
	require.NotEqual(t, of(`{segments: [a, b]}`), of(`{segments: [b, a]}`), "numbers go by the order")
}
