package main

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestMisuseIsSaidInOurWords: the fault, and the flag or command that was probably meant.
func TestMisuseIsSaidInOurWords(t *testing.T) {
	inFile(t, "worker.yaml", sound)
	for line, says := range map[string]string{
		"simulate --confg x":           "--confg is no flag of ranker-worker simulate; did you mean --config?",
		"run --nothing-like-it":        "--nothing-like-it is no flag of ranker-worker run",
		"simulate --runs many":         `--runs: must be a whole number, not "many"`,
		"simulate --noise x":           `--noise: must be a number, not "x"`,
		"topics --create=perhaps":      `--create: must be true or false, not "perhaps"`,
		"topics --retention soon":      `--retention: must be a duration, such as 30s, 2h or 7d, not "soon"`,
		"simulate --max-instances 1,x": `--max-instances: must be whole numbers, with commas between, not "1,x"`,
		"topics --config":              "--config: a value has to follow it",
		"explain":                      "ranker-worker explain takes one argument, an impression's id, and has 0",
		"dlq show a b":                 "ranker-worker dlq show takes one argument, a dead letter, and has 2",
		"state inspct":                 `"inspct" is no command of ranker-worker state; did you mean inspect?`,
		"version extra":                `"extra": ranker-worker version takes no argument here`,
		"simulate --config worker.yaml --conversion 3% --delay 2d --candidates 40 --impressions-per-day 5000": "--delay: does not go with --config, " +
			"which has the learner; how late payoffs come is --payoff-delay",
	} {
		got := run(t, "", strings.Fields(line)...)
		assert.Equal(t, exitUsage, got.code, line)
		said, _, _ := strings.Cut(got.errOut, "\n")
		assert.Equal(t, "ranker-worker: "+says, said, line)
	}
	assert.Contains(t, run(t, "", "topics", "--retention", "30d", "--timeout", "1ms").errOut, "ranker-worker: ", "days are durations")
}

// TestValuesAreCompleted: words, also in lists, and the names of the configuration.
func TestValuesAreCompleted(t *testing.T) {
	inFile(t, "worker.yaml", strings.Replace(sound, "{feed:", "{shelf: {payoffs: stochastic}, feed:", 1))
	require.NoError(t, os.WriteFile("other.yaml", []byte(strings.Replace(sound, "{feed:", "{wall:", 1)), 0o600))
	for line, has := range map[string]string{
		"simulate --policy":                         "osmd",
		"simulate --delay":                          "qpmd",
		"simulate --scenario":                       "churn",
		"simulate --silence":                        "ages",
		"size --policy":                             "robust",
		"lift --unit":                               "user",
		"evaluate --per":                            "impression",
		"dlq replay --reason":                       "unknown_learner",
		"state inspect --learner":                   "shelf",
		"state reset --config other.yaml --learner": "wall",
	} {
		got := run(t, "", append(append([]string{"__complete"}, strings.Fields(line)...), "")...)
		assert.Contains(t, strings.Split(got.out, "\n"), has, line)
		assert.Contains(t, got.out, ":4\n", "%s: no files besides", line)
	}
	assert.Contains(t, run(t, "", "__complete", "simulate", "--policy", "moss,").out, "\nmoss,osmd\n")
	assert.NotContains(t, run(t, "", "__complete", "evaluate", "--payoffs", "").out, "adversarial", "that one is a file")
}

// TestTheNullDeviceIsNoTerminal: init takes its defaults there.
func TestTheNullDeviceIsNoTerminal(t *testing.T) {
	null, err := os.Open(os.DevNull)
	require.NoError(t, err)
	defer null.Close()
	assert.False(t, isTerminal(null))
}

// TestErrorsAreSaidInOurWords: servers that are not there, by their settings, and files.
func TestErrorsAreSaidInOurWords(t *testing.T) {
	inFile(t, "worker.yaml", strings.NewReplacer("127.0.0.1:9092", "127.0.0.1:1", "127.0.0.1:6379", "127.0.0.1:2").Replace(sound))
	for line, says := range map[string]string{
		"topics":                              "nothing listens at 127.0.0.1:1: is the broker running, and are host and port in kafka.brokers",
		"state inspect":                       "nothing listens at 127.0.0.1:2: is the Redis running, and are host and port in redis.url",
		"evaluate --flat no-file":             "ranker-worker: no-file cannot be opened: no such file or directory",
		"state warm --from no-file":           "ranker-worker: no-file cannot be opened: no such file or directory",
		"health --config worker.yaml --live":  "no worker listens at http://",
		"health --config worker.yaml --serve": "no server listens at http://",
	} {
		got := run(t, "", strings.Fields(line)...)
		assert.Equal(t, exitFault, got.code, line)
		assert.Contains(t, got.errOut, says, line)
	}
}
