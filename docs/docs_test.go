// Package docs_test holds the pages against the code they describe.
package docs_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v4"

	"github.com/ranker-worker/ranker-worker/config"
	"github.com/ranker-worker/ranker-worker/delay"
	"github.com/ranker-worker/ranker-worker/internal/lab"
	"github.com/ranker-worker/ranker-worker/internal/test/metricslist"
	"github.com/ranker-worker/ranker-worker/policy"
	"github.com/ranker-worker/ranker-worker/stream/event"
)

func read(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	return string(data)
}

// table is the first table below a heading whose header begins with the given cell: its rows' cells, the header apart.
func table(t *testing.T, page, heading, first string) [][]string {
	t.Helper()
	_, section, found := strings.Cut(page, "\n"+heading+"\n")
	require.True(t, found, "no heading %q", heading)
	_, section, found = strings.Cut(section, "\n| "+first+" |")
	require.True(t, found, "no table of %q below %q", first, heading)
	return rows(t, section)
}

// tables are the rows of all tables of a page whose header begins with the given cell.
func tables(t *testing.T, page, first string) (all [][]string) {
	t.Helper()
	for _, section := range strings.Split(page, "\n| "+first+" |")[1:] {
		all = append(all, rows(t, section)...)
	}
	require.NotEmpty(t, all, "no table of %q", first)
	return all
}

// rows are the cells of a table's rows. The text begins within the line of its header.
func rows(t *testing.T, text string) (all [][]string) {
	t.Helper()
	for _, line := range strings.Split(text, "\n")[2:] {
		if !strings.HasPrefix(line, "|") {
			break
		}
		cells := strings.Split(strings.Trim(line, "|"), "|")
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		all = append(all, cells)
	}
	require.NotEmpty(t, all)
	return all
}

// code are the words in backquotes of a cell.
func code(cell string) []string {
	var words []string
	for _, m := range quoted.FindAllStringSubmatch(cell, -1) {
		words = append(words, m[1])
	}
	return words
}

var quoted = regexp.MustCompile("`([^`]+)`")

func TestMetricsAreThoseRegistered(t *testing.T) {
	registered, err := metricslist.Metrics()
	require.NoError(t, err)
	listed := map[string]metricslist.Metric{}
	for _, row := range tables(t, read(t, "reference/metrics.md"), "metric") {
		require.Len(t, row, 4, row)
		m := metricslist.Metric{Name: strings.Trim(row[0], "`"), Type: row[1], Help: registered[strings.Trim(row[0], "`")].Help}
		if row[2] != "" {
			m.Labels = strings.Split(row[2], ", ")
		}
		require.NotContains(t, listed, m.Name)
		require.NotEmpty(t, row[3])
		listed[m.Name] = m
	}
	assert.Equal(t, registered, listed)
	for _, path := range pages(t) {
		for _, name := range regexp.MustCompile(`\branker_[a-z_]+`).FindAllString(read(t, path), -1) {
			assert.Contains(t, registered, name, path)
		}
	}
}

func TestReasonsOfDeadLettersAreAllListed(t *testing.T) {
	var listed []event.Reason
	for _, row := range tables(t, read(t, "reference/dead-letters.md"), "reason") {
		listed = append(listed, event.Reason(strings.Trim(row[0], "`")))
	}
	assert.Equal(t, event.Reasons(), listed, "in the same order, so that what is new is easily found")
}

// everything are configurations that together set every key; keys that exclude each other need several.
var everything = []string{`
kafka:
  brokers: ["k:9092"]
  sasl: {mechanism: oauthbearer, token_url: "https://i/t", token_ca_file: a, username: u, password: "${P}", scope: s, extensions: a=b}
redis: {url: "redis://r:6379/0"}
learners: {x: {payoffs: adversarial, policy: robust, on_expiry: {default: 0}}}
`, `
kafka:
  brokers: [k:9092]
  group: ranker
  start: latest
  topics: {impressions: i, selections: s, payoffs: p, rankings: r, dlq_suffix: .dlq}
  tls: {enabled: true, ca_file: a, cert_file: b, key_file: c, server_name: d}
  sasl: {mechanism: plain, username: u, password: "${P}"}
  schema_registry: {url: "http://r", token_file: f}
redis:
  url: redis://r:6379/0
  username: u
  password: ${P}
  wait_replicas: 0
http: {listen: "127.0.0.1:9108", page: true, pprof: false}
serve: {listen: "127.0.0.1:8081", cert_file: a, key_file: b, tokens_file: c, timeout: 200ms, remember: 64MiB, max_body_bytes: 4MiB,
  concurrency: 4000, rate: 10000}
log: {level: info, format: text}
join: {parking_time: 1h, max_parked: 1}
limits: {max_candidates: 1, max_record_bytes: 1MiB, checkpoint_interval: 100ms}
learners:
  x: {default: true, payoffs: stochastic, policy: elimination, delay: qpmd, radius: paper, sigma: 1, delta: 0.1,
      payoff_range: [0, 1], payoff_horizon: 1h, selection_timeout: 1m, on_expiry: {default: 0}, aggregate: first,
      utilities: given, seed: 1}
`, `
kafka:
  brokers: [k:9092]
  sasl: {mechanism: plain, username: u, password_file: f}
  formats: {impressions: avro, selections: protobuf, payoffs: json}
  schema_registry: {url: "https://r", username: u, password: "${P}", tls: {enabled: true, ca_file: a, cert_file: b, key_file: c, server_name: d}}
redis:
  addresses: [r:6379]
  cluster: false
  username: u
  password_file: f
  db: 0
  tls: {enabled: true, ca_file: a, cert_file: b, key_file: c, server_name: d}
learners:
  x: {payoffs: stochastic}
`, `
kafka:
  brokers: [k:9092]
  schema_registry: {url: "https://r", username: u, password_file: f}
redis: {url: "redis://r:6379/0"}
learners: {x: {payoffs: stochastic}}
`, adversarial("{geometric: 0.7, max: 100}"), adversarial("{list: [1]}"), adversarial("{zipf: 1}"),
	adversarial("{learned: true}"), `
kafka: {brokers: ["k:9092"], sasl: {mechanism: oauthbearer, token_file: f}}
redis: {url: "redis://r:6379/0"}
learners: {x: {payoffs: stochastic, policy: moss, prior: {mean: 0.5, sd: 0.2}}}
`, `
kafka: {brokers: ["k:9092"]}
redis: {url: "redis://r:6379/0"}
learners: {x: {payoffs: stochastic, context: {user: [a], item: [predicted], cross: [[a, predicted]], missing: zero, segments: [new], categories: true, clock: [hour], time_zone: UTC, age: true}, caps: [{most: 1, first: 2}]}}
`}

// adversarial is a file whose learner sets the keys of adversarial ones.
func adversarial(windows string) string {
	return `
kafka: {brokers: ["k:9092"], sasl: {mechanism: aws-msk-iam, region: eu-west-1}}
redis: {url: "redis://r:6379/0"}
learners:
  x: {payoffs: adversarial, policy: ftrl, delay: bold, max_instances: 1, loss_index: item, eta: auto, windows: ` + windows + `}
`
}

// minimal are files that leave all they can at its default. The last one shows the keys of both kinds of learners.
var minimal = []string{`
kafka: {brokers: ["k:9092"]}
redis: {url: "redis://r:6379/0"}
learners: {x: {payoffs: stochastic, policy: elimination}}
`, `
kafka: {brokers: ["k:9092"]}
redis: {url: "redis://r:6379/0"}
learners: {x: {payoffs: stochastic, policy: moss}}
`, `
kafka: {brokers: ["k:9092"]}
redis: {url: "redis://r:6379/0"}
learners: {x: {payoffs: adversarial, policy: robust, on_expiry: {default: 0}}}
`, `
kafka: {brokers: ["k:9092"]}
redis: {url: "redis://r:6379/0"}
learners: {x: {payoffs: adversarial, delay: bold}}
`, `
kafka: {brokers: ["k:9092"]}
redis: {url: "redis://r:6379/0"}
learners: {x: {}}
`}

func load(t *testing.T, text string) *config.Config {
	t.Helper()
	cfg, _, err := config.Load("test.yaml", []byte(text), func(string) (string, bool) { return "secret", true })
	require.NoError(t, err)
	return cfg
}

// keys adds the paths of all keys of a YAML document's mappings, leaves, on_expiry, prior and windows only, with their values.
func keys(t *testing.T, text string, into map[string]any) {
	t.Helper()
	var tree map[string]any
	require.NoError(t, yaml.Unmarshal([]byte(text), &tree))
	var walk func(prefix string, v any)
	walk = func(prefix string, v any) {
		m, isMap := v.(map[string]any)
		if !isMap || strings.HasSuffix(prefix, ".on_expiry") || strings.HasSuffix(prefix, ".prior") || strings.HasSuffix(prefix, ".windows") || strings.HasSuffix(prefix, ".context") {
			into[prefix] = v
		}
		for k, child := range m {
			path := k
			if prefix != "" {
				path = prefix + "." + k
			}
			walk(strings.Replace(path, "learners.x", "learners.<name>", 1), child)
		}
	}
	walk("", tree)
}

// TestConfigurationKeysAreThoseThatExist: the tables have the keys that the worker takes and no others, each key that
// `lint --print` shows among them, with the default that it shows.
func TestConfigurationKeysAreThoseThatExist(t *testing.T) {
	taken, printed := map[string]any{}, map[string]any{}
	for _, text := range everything {
		cfg := load(t, text) // an unknown key would be a fault
		keys(t, text, taken)
		var out strings.Builder
		require.NoError(t, cfg.Print(&out))
		keys(t, out.String(), taken)
	}
	minimalKeys := map[string]any{}
	for _, text := range minimal {
		keys(t, text, minimalKeys)
		var out strings.Builder
		require.NoError(t, load(t, text).Print(&out))
		keys(t, out.String(), printed)
	}
	delete(taken, "kafka.tls") // an empty mapping, where nothing is set
	delete(taken, "redis.tls")
	delete(taken, "kafka.schema_registry.tls")
	var listed []string
	page := read(t, "configuration.md")
	var rows [][]string
	for _, heading := range []string{"kafka", "redis", "http", "serve", "traces", "log", "join", "limits", "learners"} {
		rows = append(rows, table(t, page, "## "+heading, "key")...)
	}
	for _, row := range rows {
		require.GreaterOrEqual(t, len(row), 5, row)
		key := strings.Trim(row[0], "`")
		listed = append(listed, key)
		text, shown := strings.Trim(row[2], "`"), printed[key]
		switch {
		case text == "required":
			_, has := minimalKeys[key]
			assert.True(t, has || strings.Contains(key, ".prior.") || strings.Contains(key, ".on_expiry."), key)
		case text == "—":
			assert.Nil(t, shown, key)
		case key == "learners.<name>.default": // an only learner's is always true
		default:
			var want any
			require.NoError(t, yaml.Unmarshal([]byte(text), &want), key)
			assert.Equal(t, want, shown, key)
		}
	}
	var want []string
	for key := range taken {
		want = append(want, key)
	}
	assert.ElementsMatch(t, want, listed)
}

// sources are the Go files of a directory, its tests apart.
func sources(t *testing.T, dir string) string {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(dir, "*.go"))
	require.NoError(t, err)
	var all strings.Builder
	for _, path := range paths {
		if !strings.HasSuffix(path, "_test.go") {
			all.WriteString(read(t, path))
		}
	}
	require.NotZero(t, all.Len(), dir)
	return all.String()
}

// joined are sources with strings in one piece that go over several lines.
func joined(text string) string { return regexp.MustCompile(`" ?\+\s+"`).ReplaceAllString(text, "") }

// found are the matches of a pattern's first group in a text, at least least times: or the pattern is out of date.
func found(t *testing.T, text, pattern string, least int) []string {
	t.Helper()
	var all []string
	for _, m := range regexp.MustCompile(pattern).FindAllStringSubmatch(text, -1) {
		all = append(all, m[1])
	}
	require.GreaterOrEqual(t, len(all), least, pattern)
	slices.Sort(all)
	return slices.Compact(all)
}

// TestStopReasonsHaveRunbooks: each has a section, and its errors are words that the code says.
func TestStopReasonsHaveRunbooks(t *testing.T) {
	said := sources(t, "../stream/task") + sources(t, "../stream/partition") + sources(t, "../state")
	reasons := found(t, said, `Stop\w+\s+StopReason = "(\w+)"`, 10)
	page := read(t, "runbooks/stopped.md")
	var listed, errors []string
	for _, section := range strings.Split(page, "\n## ")[1:] {
		reason, text, _ := strings.Cut(section, "\n\n")
		listed = append(listed, reason)
		if strings.HasPrefix(text, "`") { // one cause, without a table
			text, _, _ = strings.Cut(text, ":")
			errors = append(errors, code(text)...)
		}
	}
	for _, row := range tables(t, page, "error contains") {
		require.Len(t, row, 3, row)
		errors = append(errors, code(row[0])...)
		assert.NotEmpty(t, row[2], row)
	}
	for _, words := range errors {
		assert.True(t, strings.Contains(joined(said), words), "nothing in the code says %q", words)
	}
	stops := found(t, said, `stop\(StopTopic, fmt\.Errorf\("(?:%\w:? )+([^"]+)"`, 3)
	for _, words := range append(stops, found(t, said, `errRecordsMissing = errors\.New\("([^"]+)"`, 1)...) {
		assert.True(t, slices.ContainsFunc(errors, func(e string) bool { return strings.Contains(words, e) }), "no runbook has %q", words)
	}
	for _, words := range found(t, page, "- .*`(it [^`]+)`", 2) {
		assert.Contains(t, sources(t, "../stream"), words)
	}
	slices.Sort(listed)
	assert.Equal(t, reasons, listed)
}

// TestWaitsHaveRunbooks: each request that a task may wait with has a section, and nothing else has. The errors of sections are words that
// the code says.
func TestWaitsHaveRunbooks(t *testing.T) {
	said := sources(t, "../stream/task")
	doing := found(t, said, `\b(?:ask\(t, |deliver\(|failed\()"([^"]+)"`, 10)
	doing = append(doing, found(t, said, `doing :?= (?:fmt\.Sprintf\()?"([^"]+)"`, 3)...)
	doing = append(doing, found(t, said, `reading\[topic\] = fmt\.Sprintf\("([^"]+)"`, 1)...)
	doing = append(doing, found(t, said, `const \w*ing(?:[A-Z]\w*)? = "([^"]+)"`, 5)...)
	for i := range doing {
		doing[i] = strings.Replace(doing[i], "%s[%d]", "<topic>[<partition>]", 1)
		if strings.HasSuffix(doing[i], " of ") {
			doing[i] += "<topic>"
		}
	}
	page := read(t, "runbooks/waiting.md")
	said = joined(said + sources(t, "../stream/partition") + sources(t, "../stream/broker") + sources(t, "../state/redisstore") + sources(t, "../state"))
	for _, row := range tables(t, page, "error contains") {
		for _, words := range code(row[0]) {
			if strings.Contains(words, " ") && !strings.Contains(words, "…") {
				assert.Contains(t, said, words)
			}
		}
	}
	var listed []string
	for _, m := range regexp.MustCompile("(?m)^### `?([^`\n]+)").FindAllStringSubmatch(page, -1) {
		listed = append(listed, m[1])
	}
	slices.Sort(doing)
	assert.ElementsMatch(t, slices.Compact(doing), listed)
}

// TestAlertsHaveRunbooks: the link of each leads to the section of its name.
func TestAlertsHaveRunbooks(t *testing.T) {
	var file struct {
		Groups []struct {
			Rules []struct {
				Alert       string            `yaml:"alert"`
				Annotations map[string]string `yaml:"annotations"`
			} `yaml:"rules"`
		} `yaml:"groups"`
	}
	require.NoError(t, yaml.Unmarshal([]byte(read(t, "../deploy/chart/files/alerts.yaml")), &file))
	require.Len(t, file.Groups, 1)
	var want, have []string
	for _, rule := range file.Groups[0].Rules {
		want = append(want, rule.Alert)
		path, anchor, _ := strings.Cut(rule.Annotations["runbook_url"], "#")
		assert.Equal(t, strings.ToLower(rule.Alert), anchor)
		assert.Contains(t, anchors(read(t, filepath.Join("..", path))), anchor, path)
	}
	for _, page := range here(t) {
		for _, m := range regexp.MustCompile(`(?m)^## (Ranker\w+)$`).FindAllStringSubmatch(read(t, page), -1) {
			have = append(have, m[1])
		}
	}
	require.NotEmpty(t, want)
	assert.ElementsMatch(t, want, have)
}

// TestLogMessagesAreAllListed, those of level debug apart.
func TestLogMessagesAreAllListed(t *testing.T) {
	said := joined(sources(t, "../stream") + sources(t, "../cmd/ranker-worker") + sources(t, "../internal/serve") + sources(t, "../internal/tracing") +
		sources(t, "../internal/dashboard"))
	messages := found(t, said, `\.(?:Info|Warn|Error)\("([^"]+)"[,)]`, 8)
	messages = append(messages, found(t, said, `&waitKind\{"([^"]+)"`, 5)...)
	said = sources(t, "../stream/task")
	phases := found(t, said, `return \[\.\.\.\]string\{"(acquiring[^}]+)"\}\[p\]`, 1)
	var listed []string
	for _, row := range table(t, read(t, "reference/errors.md"), "## Messages of the log", "message") {
		for _, message := range code(row[0]) {
			if phase, ok := strings.CutPrefix(message, "partition "); ok && message != "partition stopped" {
				assert.Contains(t, phases[0], phase)
				continue
			}
			listed = append(listed, message)
		}
	}
	assert.ElementsMatch(t, messages, listed)
}

// TestRecordsHaveTheFieldsThereAre: the tables of records have the fields and types of the schemas, which are those of the decoder, and
// reasons that there are.
func TestRecordsHaveTheFieldsThereAre(t *testing.T) {
	page := read(t, "records.md")
	for heading, name := range map[string]string{"## Impressions": "impression", "## Selections": "selection", "## Payoffs": "payoff",
		"## Rankings": "ranking"} {
		var schema map[string]any
		require.NoError(t, json.Unmarshal([]byte(read(t, "schemas/"+name+".json")), &schema))
		listed, want := map[string]string{}, map[string]string{}
		for _, row := range table(t, page, heading, "field") {
			listed[strings.Trim(row[0], "`")] = row[1]
			for _, reason := range code(row[len(row)-1]) {
				if strings.Contains(reason, "_") && name != "ranking" {
					assert.Contains(t, event.Reasons(), event.Reason(reason), row)
				}
			}
		}
		properties("", schema, want)
		assert.Equal(t, want, listed, name)
	}
}

// properties adds the paths of all fields of a schema's object, each with its type in the words of the pages.
func properties(prefix string, schema map[string]any, into map[string]string) {
	fields, _ := schema["properties"].(map[string]any)
	for name, field := range fields {
		of := field.(map[string]any)
		switch typ := of["type"].(type) {
		case string:
			into[prefix+name] = typ
		case []any:
			into[prefix+name] = typ[0].(string)
		default:
			into[prefix+name] = "string" // of few values
		}
		if into[prefix+name] == "integer" {
			into[prefix+name] = "number"
		}
		properties(prefix+name+".", of, into)
		if items, ok := of["items"].(map[string]any); ok {
			properties(prefix+name+"[].", items, into)
		}
	}
}

// TestHashesOfLearnersAreAllListed among the keys in Redis.
func TestHashesOfLearnersAreAllListed(t *testing.T) {
	page := read(t, "contribute/redis-keys.md")
	for _, hash := range delay.EveryHash() {
		assert.True(t, strings.Contains(page, ":"+hash+"`"), hash)
	}
}

// TestRetentionIsTheSameEverywhere: the compose file and the chart make topics as the page says.
func TestRetentionIsTheSameEverywhere(t *testing.T) {
	retention := func(path string) []string { return found(t, read(t, path), `\bretention(?:", "|: | )(\d+h)`, 1) }
	want := retention("do/kafka.md")
	for _, path := range []string{"../deploy/compose.yaml", "../deploy/chart/values.yaml"} {
		assert.Equal(t, want, retention(path), path)
	}
}

// TestLivesAreLedThere: each function that the two lives name stands in its file, and each life has ten steps.
func TestLivesAreLedThere(t *testing.T) {
	page := read(t, "contribute/lives.md")
	for _, heading := range []string{"\n## An impression's life\n", "\n## A payoff's life\n"} {
		_, section, found := strings.Cut(page, heading)
		require.True(t, found, heading)
		section, _, _ = strings.Cut(section, "\n## ")
		assert.Len(t, regexp.MustCompile(`(?m)^\d+\. `).FindAllString(section, -1), 10)
		places := regexp.MustCompile("`([\\w/]+\\.go): (\\w+)`").FindAllStringSubmatch(section, -1)
		require.NotEmpty(t, places)
		for _, place := range places {
			file := read(t, filepath.Join("..", place[1]))
			assert.Regexp(t, `(?m)^func (\([^)]*\) )?`+place[2]+`(\[[^]]*\])?\(`, file, "%s has no %s", place[1], place[2])
		}
	}
}

// TestPoliciesHaveASection: each policy has one below understand/, under its name or with another.
func TestPoliciesHaveASection(t *testing.T) {
	var text strings.Builder
	for _, page := range here(t) {
		if strings.HasPrefix(page, "understand/") {
			text.WriteString(read(t, page))
		}
	}
	for _, k := range policy.Specs {
		assert.Regexp(t, `(?m)^#+ (\w+ and )?`+k.Name+`( and \w+)?$`, text.String())
	}
}

func TestScenariosAreThoseOfTheLaboratory(t *testing.T) {
	var listed []lab.Scenario
	for _, row := range table(t, read(t, "laboratory/scenarios.md"), "## Scenarios", "scenario") {
		listed = append(listed, lab.Scenario(strings.Trim(row[0], "`")))
	}
	assert.Equal(t, lab.Scenarios(), listed)
}
