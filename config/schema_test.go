package config

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"math/big"
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

// refusals are where a schema refuses a file: the paths of the values.
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

// TestSchemaTakesFilesWithoutFaults of testdata/faults.txt.
func TestSchemaTakesFilesWithoutFaults(t *testing.T) {
	s, files := compiled(t), 0
	faultCases(t, func(name, _, file string, env Env, _ string) {
		if _, _, err := Load("w.yaml", []byte(file), env); err == nil {
			v, err := instance(file)
			require.NoError(t, err, name)
			assert.Empty(t, refusals(s, v), name)
			files++
		}
	})
	require.Positive(t, files)
}

// TestSchemaRequiresKeys: the keys that every file needs, at the mapping where they are missing.
func TestSchemaRequiresKeys(t *testing.T) {
	s := compiled(t)
	for file, at := range map[string][]string{
		"{}":                   {""},
		"kafka: {}":            {"", "kafka"},
		"kafka: {brokers: []}": {"", "kafka.brokers"},
		"learners: {}":         {"", "learners"},
		"learners: {a: {prior: {}, on_expiry: {}, windows: , context: {user: [{}]}}}": {"", "learners.a.prior", "learners.a.on_expiry",
			"learners.a.windows", "learners.a.context.user.0"},
		"experiments: {a: {}}": {"", "experiments.a"},
		"kafkas: {}":           {""},
		"log: {levels: info}":  {"", "log"},
	} {
		v, err := instance(file)
		require.NoError(t, err)
		require.Subset(t, refusals(s, v), at, file)
		_, _, err = Load("w.yaml", []byte(file), noEnv)
		require.Error(t, err)
	}
}

// TestSchemaRefusesWhatIsNotRead: for each key with a type, a range or words of its own, the schema refuses the same values as Load.
func TestSchemaRefusesWhatIsNotRead(t *testing.T) {
	s := compiled(t)
	refusesLike(t, s, "", settings)
	refusesLike(t, s, "learners.feed.", learnerSettings)
	refusesLike(t, s, "experiments.feed.", experimentSettings)
}

func refusesLike[O any](t *testing.T, s *jsonschema.Schema, prefix string, all []setting[O]) {
	of := map[string]bool{"word": true, "true or false": true, "whole number": true, "number": true, "number or auto": true}
	for _, x := range all {
		key := prefix + x.key
		refusesLike(t, s, key+".", x.parts)
		if x.read == nil || !of[x.kind] || strings.Contains(key, ".windows.") { // windows are checked together
			continue
		}
		taken, refused := 0, 0
		for _, text := range append(strings.Fields("-1 0 1 0.5 -0.5 x true false auto"), around(x.editor, x.kind == "whole number")...) {
			v, err := instance(treeWith(key, &yaml.Node{Kind: yaml.ScalarNode, Value: text}))
			require.NoError(t, err)
			d := &decoder{places: map[string]place{}, bad: map[string]bool{}, sections: map[string]*section{}}
			var one mapping
			one.add(x.key, plain(text))
			o := standardOf(all)
			x.read(d.open("", place{}, one.node(false)), &o)
			require.Equal(t, len(d.faults) > 0, slices.Contains(refusals(s, v), key), "%s: %s %v", key, text, d.faults)
			if len(d.faults) > 0 {
				refused++
			} else {
				taken++
			}
		}
		require.True(t, taken > 0 && refused > 0, key)
	}
}

// around are the words and the limits in a schema, and numbers just above and below each limit.
func around(editor schema, whole bool) (texts []string) {
	for key, value := range editor {
		if options, some := value.([]schema); some {
			for _, o := range options {
				texts = append(texts, around(o, whole)...)
			}
		}
		if key == "enum" {
			texts = append(texts, strings.Fields(strings.Trim(fmt.Sprint(value), "[]"))...)
		}
		if !strings.HasSuffix(strings.ToLower(key), "minimum") && !strings.HasSuffix(strings.ToLower(key), "maximum") {
			continue
		}
		limit, ok := new(big.Rat).SetString(fmt.Sprint(value))
		if !ok {
			panic(fmt.Sprintf("a limit that is no number: %v", value))
		}
		near := big.NewRat(1, 1)
		if !whole {
			near = big.NewRat(1, 1_000_000_000_000)
		}
		for _, x := range []*big.Rat{limit, new(big.Rat).Add(limit, near), new(big.Rat).Sub(limit, near)} {
			texts = append(texts, strings.TrimSuffix(strings.TrimRight(x.FloatString(15), "0"), "."))
		}
	}
	return texts
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
		file := treeWith(key, &yaml.Node{Kind: yaml.ScalarNode, Value: text, Style: style})
		if _, _, err := Load("w.yaml", []byte(file), envOf(map[string]string{"A": "7"})); err != nil {
			return
		}
		loaded[key] = true
		v, err := instance(file)
		require.NoError(t, err)
		require.NoError(t, s.Validate(v), file)
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

// treeWith is a file that has a value at a key, and the keys that every file needs.
func treeWith(key string, value *yaml.Node) string {
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
	node[words[len(words)-1]] = value
	file, err := yaml.Marshal(tree)
	if err != nil {
		panic(err)
	}
	return string(file)
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
