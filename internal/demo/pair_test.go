package demo

import (
	"fmt"
	"net"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ranker-worker/ranker-worker/config"
	"github.com/ranker-worker/ranker-worker/internal/test/testenv/proc"
)

// TestStartPair_RefusesServersThatItIsNot, and an address in use, each by the setting that names it.
func TestStartPair_RefusesServersThatItIsNot(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { require.NoError(t, taken.Close()) }()
	free, err := proc.FreePorts(1)
	require.NoError(t, err)
	for _, c := range []struct{ kafka, redis, want string }{
		{`brokers: ["127.0.0.1:9092"], tls: {enabled: true}`, `url: "redis://127.0.0.1:6379/0"`, "no TLS"},
		{`brokers: ["127.0.0.1:9092"]`, `url: "redis://:secret@127.0.0.1:6379/0"`, "no logins"},
		{`brokers: ["kafka.example.com:9092"]`, `url: "redis://127.0.0.1:6379/0"`, "kafka.brokers: kafka.example.com is not 127.0.0.1"},
		{`brokers: ["127.0.0.1:9092", "127.0.0.1:9093"]`, `url: "redis://127.0.0.1:6379/0"`, "one address each"},
		{fmt.Sprintf(`brokers: [%q]`, taken.Addr()), `url: "redis://127.0.0.1:6379/0"`, "kafka.brokers: starting the embedded broker"},
		{fmt.Sprintf(`brokers: ["127.0.0.1:%d"]`, free[0]), fmt.Sprintf(`url: "redis://%s/0"`, taken.Addr()), "in use"},
	} {
		file := fmt.Sprintf("kafka: {%s}\nredis: {%s}\nlearners: {x: {payoffs: stochastic}}\n", c.kafka, c.redis)
		cfg, _, err := config.Load("f.yaml", []byte(file), func(string) (string, bool) { return "", false })
		require.NoError(t, err, file)
		_, err = StartPair(cfg)
		require.ErrorContains(t, err, c.want)
	}
}
