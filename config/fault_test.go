package config

import (
	"flag"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "rewrite the expected results in testdata")

// needed are the sections without which no file is valid; none of them gives a warning.
var needed = map[string]string{
	"kafka":    "kafka: {brokers: ['127.0.0.1:9092'], group: g}\n",
	"redis":    "redis: {url: 'redis://127.0.0.1'}\n",
	"learners": "learners: {feed: {payoffs: stochastic, on_expiry: {default: 0}}}\n",
}

func complete(file string) string {
	if file != "" && !strings.HasSuffix(file, "\n") {
		file += "\n"
	}
	for _, key := range []string{"kafka", "redis", "learners"} {
		if !strings.Contains("\n"+file, "\n"+key+":") {
			file += needed[key]
		}
	}
	return file
}

// said returns lint's output for a file: faults, else warnings, one to a line.
func said(file string, env Env) string {
	_, warnings, err := Load("w.yaml", []byte(file), env)
	var b strings.Builder
	if err != nil {
		b.WriteString(err.Error() + "\n")
	}
	for _, w := range warnings {
		b.WriteString(w.String() + "\n")
	}
	return b.String()
}

// noEnv is an environment without variables.
func noEnv(string) (string, bool) { return "", false }

// envOf is the environment of a map.
func envOf(m map[string]string) Env {
	return func(name string) (string, bool) { v, ok := m[name]; return v, ok }
}

// faultCases calls do for each case of testdata/faults.txt, with its name, text, the file made of it, and the
// expected output.
func faultCases(t testing.TB, do func(name, text, file string, env Env, want string)) (head string) {
	data, err := os.ReadFile(faultsPath)
	require.NoError(t, err)
	parts := strings.Split(string(data), "\n=== ")
	for _, part := range parts[1:] {
		name, rest, _ := strings.Cut(part, "\n")
		cut := strings.LastIndex("\n"+rest, "\n---\n") // a case may hold documents of its own
		require.GreaterOrEqual(t, cut, 0, name)
		text, want := rest[:cut], strings.Trim(rest[cut:], "-\n")
		env, bare, body := map[string]string{}, false, text
		for {
			line, more, _ := strings.Cut(body, "\n")
			if assignment, ok := strings.CutPrefix(line, "env "); ok {
				k, v, _ := strings.Cut(assignment, "=")
				env[k] = v
			} else if line == "bare" {
				bare = true
			} else {
				break
			}
			body = more
		}
		if !bare {
			body = complete(body)
		}
		do(name, text, body, envOf(env), want)
	}
	return parts[0]
}

const faultsPath = "testdata/faults.txt"

func TestFaults(t *testing.T) {
	out := ""
	head := faultCases(t, func(name, text, file string, env Env, want string) {
		got := withoutLists(said(file, env))
		out += "\n=== " + name + "\n" + text + "---\n" + got
		if !*update {
			t.Run(name, func(t *testing.T) {
				assert.Equal(t, want, strings.Trim(got, "\n"))
			})
		}
	})
	if *update {
		require.NoError(t, os.WriteFile(faultsPath, []byte(head+out), 0o644))
	}
}

// withoutLists puts a word in the place of lists of policies, so that another policy changes nothing here.
func withoutLists(messages string) string {
	var all []string
	for _, p := range Policies() {
		all = append(all, string(p))
	}
	last := len(all) - 1
	messages = strings.ReplaceAll(messages, strings.Join(all[:last], ", ")+" and "+all[last], "{policies}")
	for _, d := range Delays() {
		var with []string
		for _, p := range Policies() {
			if Together(p, d) == nil {
				with = append(with, string(p))
			}
		}
		messages = strings.ReplaceAll(messages, "with "+strings.Join(with, ", "), "with {those of "+string(d)+"}")
	}
	return messages
}

// TestReferencesBetweenBrackets: YAML takes the brace of an unquoted ${VAR} between brackets for one of its own, and
// says something that nobody would connect with it.
func TestReferencesBetweenBrackets(t *testing.T) {
	env := func(string) (string, bool) { return "x", true }
	const hint = "has to stand in quotes"
	sasl := "kafka: {brokers: ['127.0.0.1:9092'], group: g, sasl: {mechanism: plain, username: u, password: %s}}\n"
	assert.Contains(t, said(complete(strings.Replace(sasl, "%s", "${P}", 1)), env), hint)
	assert.Contains(t, said(complete("kafka:\n  group: g\n  brokers: [${B}]\n"), env), hint)
	assert.NotContains(t, said(complete(strings.Replace(sasl, "%s", `"${P}"`, 1)), env), "YAML")
	assert.NotContains(t, said("kafka: {group: ]", env), hint)
}
