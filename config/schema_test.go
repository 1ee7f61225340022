package config

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v4"
	"pgregory.net/rapid"
)

// compiled is the schema, by a validator that others keep.
func compiled(t *testing.T) *jsonschema.Schema {
	t.Helper()
	var b bytes.Buffer
	require.NoError(t, WriteSchema(&b))
	doc, err := jsonschema.UnmarshalJSON(&b)
	require.NoError(t, err)
	c := jsonschema.NewCompiler()
	require.NoError(t, c.AddResource("schema.json", doc))
	s, err := c.Compile("schema.json")
	require.NoError(t, err)
	return s
}

// instance is a file as an editor's validator is given it.
func instance(file string) (any, error) {
	var v any
	if err := yaml.Unmarshal([]byte(file), &v); err != nil {
		return nil, err
	}
	return plainJSON(v), nil
}

func plainJSON(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for k := range v {
			v[k] = plainJSON(v[k])
		}
	case map[any]any:
		out := map[string]any{}
		for k := range v {
			out[fmt.Sprint(k)] = plainJSON(v[k])
		}
		return out
	case []any:
		for i := range v {
			v[i] = plainJSON(v[i])
		}
	case float64:
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return fmt.Sprint(v) // JSON has no such numbers
		}
	}
	return v
}

// refusals are where a schema refuses a file: the paths of the values, and whether something is missing there.
func refusals(s *jsonschema.Schema, v any) (paths []string) {
	var walk func(e *jsonschema.ValidationError)
	walk = func(e *jsonschema.ValidationError) {
		if len(e.Causes) == 0 {
			paths = append(paths, strings.Join(e.InstanceLocation, "."))
		}
		for _, c := range e.Causes {
			walk(c)
		}
	}
	var e *jsonschema.ValidationError
	if errors.As(s.Validate(v), &e) {
		walk(e)
	}
	return paths
}

// refuses reports whether a fault is among the schema's refusals. A refusal may be of its key, of a key below, or of
// the mapping that should or should not hold it; for a missing key, of any mapping around.
func refuses(paths []string, f Fault) bool {
	key := regexp.MustCompile(`\[\d+\]`).ReplaceAllString(f.Key, "")
	parent := key[:max(0, strings.LastIndexByte(key, '.'))]
	missing := strings.Contains(f.Message, "needed")
	return slices.ContainsFunc(paths, func(p string) bool {
		around := p == "" || strings.HasPrefix(key, p+".")
		return p == key || p == parent || strings.HasPrefix(p, key+".") || missing && around
	})
}

// beyondSchemas are the faults that no schema can express, "case of faults.txt: key", grouped by their reason.
var beyondSchemas = map[string][]string{
	"no YAML that reaches a schema: syntax, anchors, duplicate keys, tags": {
		"not YAML", "not YAML: a tab", "not YAML: an unknown alias", "keys that are not words", "duplicate keys", "tags: log",
		"aliases and merged mappings", "mappings that merge themselves",
	},
	"what variables hold, or whether they are set": {
		"the environment: log.format", "the environment: http.pprof", "a value cannot inject YAML: log.level",
		"brokers as one value: kafka.brokers", "redis: the URL: redis.url",
	},
	"how long a duration or how large a size is, with its unit": {
		"guards: experiments.g.period", "join and limits: limits.max_record_bytes", "join and limits: limits.checkpoint_interval", "durations: join.parking_time", "forgotten while something waits: join.remember",
		"numbers: limits.max_record_bytes", "records that Kafka and Redis could not hold: limits.max_record_bytes",
	},
	"how YAML writes a number: to JSON, 1e3 is 1000": {"numbers: limits.max_candidates"},
	"two values against each other": {
		"everything at once: learners.feed.payoff_range", "topics that are the same: kafka.topics.dlq_suffix",
		"topics that are the same: kafka.topics.payoffs", "topics that Kafka takes for the same: kafka.topics.payoffs",
		"a topic too long for its dead letters: kafka.topics.payoffs", "payoff_range: learners.b.payoff_range",
		"on_expiry: learners.d.on_expiry", "on_expiry: learners.k.on_expiry", "what silence means: learners.a.on_expiry",
		"what silence means: learners.b.on_expiry", "silence: learners.a.silence", "silence: learners.b.silence",
		"silence: learners.c.silence", "drift: learners.b.drift", "drift: learners.c.drift", "silence, and no selections: learners.a.silence", "timeouts that cross: learners.feed.selection_timeout",
		"two defaults: learners.b.default",
	},
	"whether learners are there, and what these are like": {
		"arms that are nobody, twice, or do not add up: experiments.feed.arms.controll",
		"arms that are nobody, twice, or do not add up: experiments.control.control", "arms that are nobody, twice, or do not add up: experiments.elsewhere",
		"arms that are nobody, twice, or do not add up: experiments.elsewhere.arms.control", "arms that are nobody, twice, or do not add up: experiments.control.arms.feed",
		"arms that are nobody, twice, or do not add up: experiments.elsewhere.arms.other",
		"arms that cannot be compared: experiments.a.arms.b", "arms that cannot be compared: experiments.a.arms.c",
		"arms that cannot be compared: experiments.a.arms.d", "arms that cannot be compared: experiments.a.arms.ee",
		"arms that cannot be compared: experiments.a.arms.f", "arms that cannot be compared: experiments.a.arms.g",
		"arms that cannot be compared: experiments.a.arms.h", "an experiment for impressions that do not suit its arms: experiments.a.arms",
		"what an experiment counts for what was never paid: experiments.a.unpaid", "what an experiment counts for what was never paid: experiments.c.unpaid",
		"what an experiment counts for what was never paid: experiments.ee.unpaid",
		"what cannot decide by what the control knows: experiments.a.arms.b", "what cannot decide by what the control knows: experiments.a.arms.c",
		"what cannot decide by what the control knows: experiments.a.arms.d", "what cannot decide by what the control knows: experiments.a.arms.ee",
		"what cannot decide by what the control knows: experiments.a.shadow.f", "what cannot decide by what the control knows: experiments.a.shadow.g",
		"what cannot decide by what the control knows: experiments.a.shadow.h", "what cannot decide by what the control knows: experiments.a.shadow.nobody",
		"shadows: experiments.a.shadow", "shadows: experiments.b.arms.a", "shadows: experiments.b.arms.b",
		"contexts: learners.a.context.user[2].name", "contexts: learners.a.context.item[0].range", "contexts: learners.b.context.cross[0]",
		"contexts: learners.b.context.cross[2]", "contexts: learners.c.context", "contexts: learners.d.context", "contexts: learners.ee.context",
		"contexts: learners.f.context", "contexts: learners.g.context", "contexts: learners.h.context.item[0].range",
		"contexts: learners.k.context.cross[0]", "contexts: learners.m.context",
		"contexts: learners.p.context", "contexts: learners.u.context", "clocks: learners.a.context.time_zone", "clocks: learners.c.context.segments[15]",
		"contexts that arms do not share: experiments.a.arms.c", "contexts that arms do not share: experiments.a.shadow.d",
		"guards: experiments.c.guard", "guards: experiments.c.guard.to", "guards: experiments.ee.guard.to",
	},
	"sums and differences": {
		"arms that are nobody, twice, or do not add up: experiments.control.arms",
		"windows: learners.k.windows", "windows that never let egreedy explore: learners.a.windows",
		"windows that never let egreedy explore: learners.b.windows", "windows that never let egreedy explore: learners.c.windows",
		"windows that never let egreedy explore: learners.k.windows", "payoff_range: learners.d.payoff_range",
		"payoffs that cannot be distinguished: learners.a.payoff_range", "payoffs that cannot be distinguished: learners.b.payoff_range",
		"payoffs that cannot be distinguished: learners.c.payoff_range",
		"payoffs that change: learners.l.silence", "payoffs that change: learners.h.drift",
		"items that end too early, or never: learners.a.item_retention", "items that end too early, or never: learners.b.item_retention",
		"items that end too early, or never: learners.c.item_retention", "items that end too early, or never: learners.d.item_retention",
	},
	"the tables of characters of RFC 4013": {
		"users and passwords that SASL cannot carry: kafka.sasl.username", "users and passwords that SASL cannot carry: kafka.sasl.password",
	},
}

// TestSchemaRefusesFaults: it refuses each fault of testdata/faults.txt that a schema can express, at the key where lint has
// it; and no file that has none.
func TestSchemaRefusesFaults(t *testing.T) {
	s := compiled(t)
	var unseen, beyond []string
	faultCases(t, func(name, _, file string, env Env, _ string) {
		_, _, err := Load("w.yaml", []byte(file), env)
		var faults Faults
		errors.As(err, &faults)
		v, notYAML := instance(file)
		if notYAML != nil {
			unseen = append(unseen, name)
			return
		}
		paths := refusals(s, v)
		if len(faults) == 0 {
			assert.Empty(t, paths, name)
		}
		for _, f := range faults {
			if !refuses(paths, f) {
				unseen = append(unseen, name+": "+f.Key)
			}
		}
	})
	for _, faults := range beyondSchemas {
		beyond = append(beyond, faults...)
	}
	assert.ElementsMatch(t, beyond, unseen)
}

// TestSchemaTakesWhatIsPrinted: every configuration there can be, in full.
func TestSchemaTakesWhatIsPrinted(t *testing.T) {
	s := compiled(t)
	rapid.Check(t, func(t *rapid.T) {
		file := printed(t, drawConfig(t))
		v, err := instance(file)
		require.NoError(t, err)
		require.NoError(t, s.Validate(v), file)
	})
}

// TestSchemaTakesWhatLoads: the schema accepts each value of a key that Load accepts, quoted or not.
func TestSchemaTakesWhatLoads(t *testing.T) {
	s, loaded := compiled(t), map[string]bool{}
	try := func(t require.TestingT, key, text string, style yaml.Style) {
		tree := map[string]any{"kafka": map[string]any{"brokers": "127.0.0.1:9092"}, "redis": map[string]any{"addresses": "127.0.0.1:1"},
			"learners": map[string]any{"feed": map[string]any{"payoffs": "stochastic"}}}
		if key == "redis.url" {
			tree["redis"] = map[string]any{}
		}
		node, words := tree, strings.Split(key, ".")
		for _, w := range words[:len(words)-1] {
			if node[w] == nil {
				node[w] = map[string]any{}
			}
			node = node[w].(map[string]any)
		}
		node[words[len(words)-1]] = &yaml.Node{Kind: yaml.ScalarNode, Value: text, Style: style}
		file, err := yaml.Marshal(tree)
		require.NoError(t, err)
		if _, _, err := Load("w.yaml", file, envOf(map[string]string{"A": "7"})); err != nil {
			return
		}
		loaded[key] = true
		v, err := instance(string(file))
		require.NoError(t, err)
		require.NoError(t, s.Validate(v), string(file))
	}
	keys := append(paths("", settings), paths("learners.feed.", learnerSettings)...)
	styles := []yaml.Style{0, yaml.SingleQuotedStyle}
	for _, key := range keys {
		for _, text := range strings.Split(texts, " ") {
			try(t, key, text, styles[0])
			try(t, key, strings.ReplaceAll(text, "_", " "), styles[1])
		}
	}
	for _, key := range keys {
		several := regexp.MustCompile(`^kafka$|^redis$|windows$|sasl\.|registry\.(username|password)$|redis\.(username|db)$|_file$|prior\.`) // mappings, and keys that need another
		require.True(t, loaded[key] || several.MatchString(key), "nothing that was tried is a value of %s", key)
	}
	rapid.Check(t, func(t *rapid.T) {
		try(t, rapid.SampledFrom(keys).Draw(t, "key"), rapid.StringMatching(`[a-zA-Z0-9._:,${}\[\]+@/-]{0,8}`).Draw(t, "text"),
			rapid.SampledFrom(styles).Draw(t, "style"))
	})
}

// texts are values of some keys, most of them at a limit. The underscore is a space, in quotes.
const texts = " 0 1 UTC -1 +1 01 0.5 .5 5. 1e-3 1E5 auto true FALSE True yes none drop clamp waits empirical paper rank sum sorted utility greedy klucb " +
	"qpmd direct earliest debug json plain stochastic given first item 1h 1.5h 1d12h +1h30m 0s +0 1500ms 500000us 9h0.5s 5000 64KiB " +
	"10_MiB 1024B +2048 x .. .x a:1 a:1,_b:02_,[::1]:3 [fe80::1%eth0]:1 a.b.:65535 1.2.3.4:5 1a:9 3-b:9 _x:9 :0 ::1 [::]:80 h-.x " +
	"http://h:1/x https://h redis://h rediss://u:p@h:1/2 redis://[::1]:1/ redis://:p@h:/0 redis://h//3 ${A} x${A:y} ${N:5} ${T:true} $${A} ${A 0,1 -1,_2 0.5,0.5 zero"

// TestSchemaTakesEveryExample of the repository: files, manifests, code blocks, and the programs' output.
func TestSchemaTakesEveryExample(t *testing.T) {
	s := compiled(t)
	var found []string
	require.NoError(t, filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if name := d.Name(); d.IsDir() && (name == "testdata" || strings.HasPrefix(name, ".") && name != "..") {
			return fs.SkipDir
		}
		ext := filepath.Ext(path)
		if d.IsDir() || ext != ".yaml" && ext != ".md" && (ext != ".go" || !strings.Contains(path, "/examples/")) {
			return nil
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for _, file := range configurations(string(data)) {
			found = append(found, path)
			v, err := instance(file)
			require.NoError(t, err, "%s\n%s", path, file)
			assert.NoError(t, s.Validate(v), "%s\n%s", path, file)
		}
		return nil
	}))
	slices.Sort(found)
	assert.Equal(t, []string{"../README.md", "../deploy/config.yaml", "../deploy/values.yaml", "../docs/learn/experiment.yaml",
		"../docs/learn/is-it-better.md", "../docs/learn/shop.yaml", "../docs/learn/your-own-events.md", "../tools/examples/movielens/worker.go"}, found)
}

// configurations are those in a text: from a line that is "kafka:" to the last line with as much indentation.
func configurations(text string) (all []string) {
	verb := regexp.MustCompile(`%(\[\d+\])?[sd]`)
	lines := strings.Split(verb.ReplaceAllString(strings.NewReplacer("%q", "k:1", "%[4]q", "h:1", "%[6]s", "moss", "%[7]d", "1").Replace(text), "x"), "\n")
	for i, line := range lines {
		body := strings.TrimLeft(line, " ")
		if body != "kafka:" {
			continue
		}
		indent, file := line[:len(line)-len(body)], ""
		for _, l := range lines[i:] {
			rest, inside := strings.CutPrefix(l, indent)
			if !inside && strings.TrimSpace(l) != "" || strings.HasPrefix(rest, "`") {
				break
			}
			file += rest + "\n"
		}
		if strings.Contains(file, "\nlearners:") {
			all = append(all, file)
		}
	}
	return all
}
