package config

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v4"
)

const referencePath = "../docs/configuration.md"

const referenceHead = `# Configuration

Every key of the one YAML file. Do not edit this page: ` + "`go test ./config -run TestReference -update`" + ` writes it from the tables in
` + "`config`" + `.

- ` + "`ranker-worker lint F`" + ` shows every fault of a file as ` + "`file:line: key: message`" + `; unknown keys are faults.
- ` + "`ranker-worker lint --print F`" + ` shows the file with all defaults.
- ` + "`ranker-worker lint --schema`" + ` prints a JSON Schema for editors. With a YAML language server, begin the file with
  ` + "`# yaml-language-server: $schema=ranker-worker.schema.json`" + `.

` + "`${VAR}` and `${VAR:default}`" + ` are taken from the environment; a literal ` + "`${` is `$${`" + `. Durations are
` + "`100ms`, `30m`, `720h`, `30d`; sizes are `1048576`, `512KiB`, `1MiB`" + `. Lists may also be one string with commas. A key of a
section or mapping is written below it: ` + "`kafka.group` is `kafka: {group: ranker}`" + `.
`

const referenceLearners = `
A learner's name has only a to z, digits, ` + "`.`, `_` and `-`" + `, at most 64, and is not %s. With several learners and no
` + "`default`" + `, a record that names none is a dead letter. A key that its policy does not read has no effect, and lint warns of it.
`

const referenceExperiments = `
An experiment has the name of a learner, for whose impressions it is: one of its arms, which are learners, ranks each. A learner can be in
one experiment. [Run an experiment](do/experiment.md) says how.

Arms have the same ` + "`payoff_range`, `payoff_horizon`, `on_expiry`, `aggregate` and `out_of_range`" + `, and all or
none ` + "`utilities: given`" + `; they should have the same ` + "`selection_timeout`" + `.
`

const referenceTail = `
## Fixed values

These are fixed: the group's session timeout (10 s) and rebalance timeout (30 s), the drain's limit (10 s), and the repetition of the
fence (6 h). So is the limit of unsaved changes: 64 MiB, of 256 MiB that all partitions of a worker share, and 60 s.
`

// TestReference: docs/configuration.md agrees with the tables of settings.
func TestReference(t *testing.T) {
	var b strings.Builder
	said := sayings{}
	b.WriteString(referenceHead)
	c := Defaults()
	for _, section := range settings {
		fmt.Fprintf(&b, "\n## %s\n\n| key | kind | default | range | meaning |\n|---|---|---|---|---|\n", section.key)
		rows(&b, said, section.key+".", section.parts, printAll(section.parts, &c), false)
	}
	taken := "`" + strings.Join(reservedNames, "`, `") + "`"
	fmt.Fprintf(&b, "\n## learners\n"+referenceLearners, strings.Replace(taken, ", `meta`", " or `meta`", 1))
	b.WriteString("\n| key | kind | default | range | meaning | for |\n|---|---|---|---|---|---|\n")
	l := DefaultLearner("", Adversarial)
	rows(&b, said, "learners.<name>.", learnerSettings, printAll(learnerSettings, &l), true)
	b.WriteString("\n## experiments\n" + referenceExperiments)
	b.WriteString("\n| key | kind | default | range | meaning |\n|---|---|---|---|---|\n")
	x := standardOf(experimentSettings)
	x.By, x.Guard.Fallback = ByUser, "control" // otherwise settings without effect are not shown
	shown := printAll(experimentSettings, &x)
	for i := range shown {
		if shown[i].Value == "by" {
			shown[i+1] = text(string(ByImpression))
		}
	}
	rows(&b, said, "experiments.<name>.", experimentSettings, shown, false)
	b.WriteString(referenceTail)
	if *update {
		require.NoError(t, os.WriteFile(referencePath, []byte(b.String()), 0o644))
	}
	page, err := os.ReadFile(referencePath)
	require.NoError(t, err)
	assert.Equal(t, string(page), b.String(), "docs/configuration.md is stale: go test ./config -run TestReference -update")
}

// sayings are the keys that have said a very long text, by the text. Further keys name the first one. Shorter texts stand in each row.
type sayings map[string]string

func (s sayings) once(key, text string) string {
	if first, ok := s[text]; ok {
		return "as `" + first + "`"
	}
	if len(text) > 120 && !strings.HasPrefix(text, "`") {
		s[text] = key
	}
	return text
}

// rows writes the reference's rows of some settings, with their printed defaults.
func rows[O any](b *strings.Builder, said sayings, prefix string, all []setting[O], standard mapping, forWhom bool) {
	for _, t := range all {
		parts, printed := mapping(nil), "—"
		for i := 0; i < len(standard); i += 2 {
			if n := standard[i+1]; standard[i].Value == t.key {
				out, _ := yaml.Dump(n)
				printed = "`" + strings.TrimSpace(string(out)) + "`"
				if n.Kind == yaml.MappingNode {
					parts = n.Content
				}
			}
		}
		if t.needed != "" {
			printed = "required"
		}
		if t.start != nil {
			fmt.Fprintf(b, "| `%s%s` | %s | %s | %s | %s |", prefix, t.key, t.kind, printed, said.once(prefix+t.key, t.span),
				said.once(prefix+t.key, t.about))
			if forWhom {
				policies := "all policies"
				if parent, _, nested := strings.Cut(strings.TrimPrefix(prefix, "learners.<name>."), "."); nested {
					policies = "as `" + parent + "`"
				} else if t.effect != nil {
					policies = "`" + strings.Join(t.policies(), "`, `") + "`"
				}
				fmt.Fprintf(b, " %s |", policies)
			}
			b.WriteString("\n")
		}
		rows(b, said, prefix+t.key+".", t.parts, parts, forWhom)
	}
}
