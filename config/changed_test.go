package config

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestChanged: a default is named that is another than it was, for each learner by itself, unless the file writes the key or
// what is in force is what was.
func TestChanged(t *testing.T) {
	const head = "kafka: {brokers: ['127.0.0.1:9092']%s}\nredis: {url: 'redis://127.0.0.1:6379/0'}\nlearners:\n"
	of := func(further string, learners ...string) []Changed {
		return load(t, strings.Replace(head, "%s", further, 1)+"  "+strings.Join(learners, "\n  ")+"\n", noEnv).Changed()
	}
	rangeOf := func(name string) Changed { return Changed{"learners." + name + ".out_of_range", "clamp", "refuse"} }
	keepsOf := func(name string) Changed { return Changed{"learners." + name + ".item_retention", "1440h", "0"} }
	expiryOf := func(name string) Changed { return Changed{"learners." + name + ".on_expiry", "{default: 0}", "drop"} }
	silenceOf := func(name string) Changed { return Changed{"learners." + name + ".silence", "ages", "waits"} }
	remembers := Changed{"join.remember", "24h", "horizon"}
	const asBefore = "}\njoin: {remember: horizon"
	assert.Equal(t, []Changed{remembers, rangeOf("a"), keepsOf("a"), expiryOf("a"), silenceOf("a")}, of("", "a: {payoffs: stochastic}"))
	policyOf := Changed{"learners.a.policy", "robust", "ftrl"}
	assert.Equal(t, []Changed{policyOf, rangeOf("a"), keepsOf("a"), expiryOf("a"), silenceOf("a")}, of(asBefore, "a: {payoffs: adversarial}"))
	assert.Equal(t, []Changed{rangeOf("a"), expiryOf("a")}, of(asBefore, "a: {payoffs: adversarial, delay: bold}"), "ftrl, as it was")
	assert.Equal(t, []Changed{rangeOf("a"), expiryOf("a"), keepsOf("b"), silenceOf("b")}, of(asBefore,
		"a: {payoffs: adversarial, policy: ftrl, default: true}", // where silence still waits
		"b: {payoffs: stochastic, aggregate: sum, on_expiry: {default: 0.5}}"))
	assert.Equal(t, []Changed{rangeOf("a"), keepsOf("a"), expiryOf("a")}, of(asBefore, "a: {payoffs: stochastic, silence: ages}"))
	assert.Empty(t, of(asBefore, "a: {payoffs: stochastic, on_expiry: drop, out_of_range: refuse, item_retention: 0}"), "as it was")
	assert.Equal(t, []Changed{rangeOf("a"), keepsOf("a")}, of(", topics: {selections: ''}"+asBefore, "a: {payoffs: stochastic}"), "nothing expires there")
	c := load(t, strings.Replace(head, "%s", "", 1)+"  a: {payoffs: stochastic}\n", noEnv)
	assert.Empty(t, load(t, printed(t, c), noEnv).Changed(), "all is written")
	assert.Equal(t, "learners.a.silence is ages, and was waits", silenceOf("a").String())
}

// TestChanged_WasCanBeWritten: what is said to have been is what a file may say.
func TestChanged_WasCanBeWritten(t *testing.T) {
	n := 0
	for _, s := range learnerSettings {
		if s.was == nil {
			continue
		}
		l := Learner{Payoffs: Stochastic}
		if s.was(&l) == "" {
			l = Learner{Payoffs: Adversarial, Policy: Robust}
		}
		n++
		file := "kafka: {brokers: ['127.0.0.1:9092']}\nredis: {url: 'redis://127.0.0.1:6379/0'}\nlearners: {a: {payoffs: " +
			string(l.Payoffs) + ", " + s.key + ": " + s.was(&l) + "}}\n"
		_, _, err := Load("w.yaml", []byte(file), noEnv)
		require.NoError(t, err, s.key)
	}
	require.NotZero(t, n)
}
