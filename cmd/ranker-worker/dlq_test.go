package main

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ranker-worker/ranker-worker/config"
)

// TestDLQ: records that a worker refuses are logged, and can be counted, shown and sent again. Those refused a second
// time are recognised.
func TestDLQ(t *testing.T) {
	w := startWorker(t, "")
	w.says("partition running")
	cfg, _, err := config.LoadFile("worker.yaml", os.LookupEnv)
	require.NoError(t, err)
	to := kafka.Writer{Addr: kafka.TCP(cfg.Kafka.Brokers...), Topic: "payoffs", Balancer: kafka.BalancerFunc(func(kafka.Message, ...int) int { return 1 })}
	defer to.Close()
	require.NoError(t, to.WriteMessages(t.Context(), kafka.Message{Key: []byte("i-1"), Value: []byte("\x00\x00\x00\x00\x07\x02x")}))
	w.says("records are refused, and become dead letters")
	assert.Contains(t, w.errOut.String(), "topic=payoffs reason=malformed_json records=1 partition=1 offset=0")

	dlq := func(args ...string) ran {
		return run(t, "", append([]string{"dlq", args[0], "--config", "worker.yaml"}, args[1:]...)...)
	}
	require.Eventually(t, func() bool {
		return strings.Contains(dlq("tail", "--once").out, "payoffs/1/0  malformed_json  key \"i-1\"")
	}, 45*time.Second, 10*time.Millisecond)
	shown := dlq("show", "payoffs/1/0")
	require.Equal(t, exitOK, shown.code, shown)
	for _, want := range []string{"reason   malformed_json", "hint     the value begins with 0", "(7)", "original is in its topic", "header   __streams.errors.topic: \"payoffs\"",
		"value    7 bytes\n\"\\x00\\x00\\x00\\x00\\a\\x02x\"\n"} {
		assert.Contains(t, shown.out, want)
	}
	assert.Contains(t, dlq("show", "payoffs/1/0", "--json").out, `"reason": "malformed_json"`)
	assert.Equal(t, "1 record would be sent again; use --yes\n  malformed_json           1\n", dlq("replay").out)
	assert.Equal(t, "1 record sent again\n  malformed_json           1\n", dlq("replay", "--yes").out)
	require.Eventually(t, func() bool {
		return dlq("replay", "--yes").out == "0 records sent again\nleft out: 1 were sent again before\n"+
			"left out: 1 were refused a second time: --again includes them\n"
	}, 45*time.Second, 10*time.Millisecond)
	assert.Contains(t, dlq("show", "payoffs/1/1").out, "it had been sent again from dead letter payoffs.dlq/1/")

	for _, c := range [][]string{{"show", "payoffs/1"}, {"show", "payoffs/x/1"}, {"replay", "--offsets", "5-1"}, {"replay", "--from", "soon"},
		{"replay", "--reason", "none"}, {"tail", "--last", "-1"}} {
		assert.Equal(t, exitUsage, dlq(c...).code, c)
	}
	assert.Equal(t, exitFault, dlq("show", "payoffs/0/0").code)
}

func TestPrintable(t *testing.T) {
	for text, want := range map[string]string{"{\n\t\"ü\": 1}": "{\n\t\"ü\": 1}", "\x1b[2J": `"\x1b[2J"`, "a\rb": `"a\rb"`, "\xff": `"\xff"`, "\u202e": `"\u202e"`} {
		assert.Equal(t, want, printable(text))
	}
}
