package docs_test

import (
	"io/fs"
	"maps"
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
)

// index is the page from which a reader finds all others.
const index = "README.md"

// here lists the pages below docs/.
func here(t *testing.T) (paths []string) {
	t.Helper()
	require.NoError(t, filepath.WalkDir(".", func(path string, _ fs.DirEntry, err error) error {
		if filepath.Ext(path) == ".md" {
			paths = append(paths, path)
		}
		return err
	}))
	require.Contains(t, paths, index)
	return paths
}

// pages lists the pages below docs/ and those elsewhere that users read.
func pages(t *testing.T) []string {
	t.Helper()
	return append(here(t), "../README.md", "../deploy/README.md", "../CHANGELOG.md", "../tools/examples/movielens/README.md",
		"../llms.txt")
}

// links lists the files that a page links to, relative to docs/, with their anchors. Those of the web are left out.
func links(t *testing.T, page string) (all [][2]string) {
	t.Helper()
	for _, m := range regexp.MustCompile(`\]\(([^)\s]+)\)`).FindAllStringSubmatch(read(t, page), -1) {
		if strings.Contains(m[1], "://") {
			continue
		}
		path, anchor, _ := strings.Cut(m[1], "#")
		target := page
		if path != "" {
			target = filepath.Join(filepath.Dir(page), path)
		}
		all = append(all, [2]string{target, anchor})
	}
	return all
}

// TestLinksLead to files that exist and headings that stand there.
func TestLinksLead(t *testing.T) {
	for _, page := range pages(t) {
		for _, link := range links(t, page) {
			_, err := os.Stat(link[0])
			if assert.NoError(t, err, "%s links to %s", page, link[0]) && link[1] != "" {
				assert.Contains(t, anchors(read(t, link[0])), link[1], "%s links to %s", page, link[0])
			}
		}
	}
}

// TestTheIndexLeadsToEachPage below docs/, and so does llms.txt. README.md leads to the index.
func TestTheIndexLeadsToEachPage(t *testing.T) {
	targets := func(page string) (all []string) {
		for _, link := range links(t, page) {
			all = append(all, link[0])
		}
		return all
	}
	linked, listed := targets(index), targets("../llms.txt")
	for _, page := range here(t) {
		if page != index {
			assert.Contains(t, linked, page, "no reader finds the page")
		}
		assert.Contains(t, listed, "../docs/"+page, "llms.txt")
	}
	assert.Contains(t, targets("../README.md"), "../docs/"+index)
}

// TestWordsOfUsersLead from the index to a page: each word is in the first column of its table, beside a link.
func TestWordsOfUsersLead(t *testing.T) {
	var words strings.Builder
	for _, row := range table(t, read(t, index), "## Words that you may search for", "word") {
		require.Len(t, row, 2, row)
		words.WriteString(row[0] + "\n")
		assert.True(t, strings.Contains(row[1], "]("), "%s leads nowhere", row[0])
	}
	for _, word := range []string{"A/B test", "backfill", "canary", "click", "cold start", "contextual bandit", "position bias", "reward",
		"sample size", "warm start"} {
		assert.Contains(t, words.String(), word)
	}
}

// TestPagesAreSmall: README.md has at most 7 KB and other pages 30, half of them at most 6. One is longer: it is generated.
func TestPagesAreSmall(t *testing.T) {
	const kB = 1 << 10
	assert.LessOrEqual(t, len(read(t, "../README.md")), 7*kB)
	var sizes []int
	for _, page := range here(t) {
		size := len(read(t, page))
		sizes = append(sizes, size)
		if page != "reference/commands.md" {
			assert.LessOrEqual(t, size, 30*kB, page)
		}
	}
	slices.Sort(sizes)
	assert.LessOrEqual(t, sizes[len(sizes)/2], 6*kB, "median")
}

// TestPerformanceRepeatsBenchmarks: each figure of one worker stands on the page of benchmarks, too.
func TestPerformanceRepeatsBenchmarks(t *testing.T) {
	measured := read(t, "contribute/benchmarks.md")
	_, summary, _ := strings.Cut(read(t, "understand/scale.md"), "\n## One worker\n")
	summary, _, _ = strings.Cut(summary, "\n## ")
	for _, figure := range found(t, summary, `\b(\d{1,3}(?:,\d{3})+|\d+\.\d+)\b`, 15) {
		assert.Contains(t, measured, figure)
	}
}

// commands lists the program's commands and their subcommands.
func commands(t *testing.T, source string) []string {
	t.Helper()
	return found(t, source, `\bUse:\s+"([a-z]+)[ "]`, 20)
}

// TestCommandsAreAllListed, those of `state` and `dlq` too, and each row's command exists.
func TestCommandsAreAllListed(t *testing.T) {
	exist := commands(t, sources(t, "../cmd/ranker-worker"))
	var listed []string
	page := read(t, "commands.md")
	for _, heading := range []string{"## Run it", "## Try it", "## Is it better, and why?", "## Look into it and repair it"} {
		_, section, _ := strings.Cut(page, heading)
		section, _, _ = strings.Cut(section, "\n## ")
		for _, m := range regexp.MustCompile("(?m)^\\| `([a-z]+) ?([a-z|\\\\]*)").FindAllStringSubmatch(section, -1) {
			listed = append(append(listed, m[1]), strings.FieldsFunc(m[2], func(r rune) bool { return r == '|' || r == '\\' })...)
		}
	}
	slices.Sort(listed)
	assert.Equal(t, exist, slices.Compact(listed))
}

// anchors are the link targets of a page's headings.
func anchors(page string) []string {
	var all []string
	for _, m := range regexp.MustCompile(`(?m)^#+ (.+)$`).FindAllStringSubmatch(page, -1) {
		text := regexp.MustCompile(`[^\p{L}\p{N} _-]`).ReplaceAllString(strings.ToLower(m[1]), "")
		all = append(all, strings.ReplaceAll(text, " ", "-"))
	}
	return all
}

// TestDecisionsStayShort: a decision that no longer holds is replaced, and the pages do not become a diary.
func TestDecisionsStayShort(t *testing.T) {
	bytes := 0
	for _, page := range pages(t) {
		if strings.HasPrefix(page, "decisions") {
			bytes += len(read(t, page))
		}
	}
	assert.LessOrEqual(t, bytes, 40_000, "bytes of the decisions' pages together")
}

// TestTestsAndFilesThatPagesNameExist.
func TestTestsAndFilesThatPagesNameExist(t *testing.T) {
	var tests strings.Builder
	require.NoError(t, filepath.WalkDir("..", func(path string, entry fs.DirEntry, err error) error {
		if err == nil && strings.HasSuffix(path, "_test.go") {
			tests.WriteString(read(t, path))
		}
		if err == nil && entry.IsDir() && strings.HasPrefix(entry.Name(), ".") && len(entry.Name()) > 2 {
			return fs.SkipDir // .git, .cache
		}
		return err
	}))
	for _, page := range here(t) {
		for _, word := range code(read(t, page)) {
			switch {
			case regexp.MustCompile(`^(?:Test|Fuzz|Benchmark)\w+$`).MatchString(word):
				assert.True(t, strings.Contains(tests.String(), "func "+word+"("), "%s names %s", page, word)
			case regexp.MustCompile(`^[\w/-]+/[\w-]+\.go$`).MatchString(word):
				assert.FileExists(t, filepath.Join("..", word), page)
			case regexp.MustCompile(`^\w[\w/-]*/$`).MatchString(word):
				assert.DirExists(t, filepath.Join("..", word), page)
			}
		}
	}
}

// fences are the texts between fences of a page.
func fences(t *testing.T, page string) (all []string) {
	t.Helper()
	for _, m := range regexp.MustCompile("(?ms)^ *```[a-z]*\n(.*?)^ *```$").FindAllStringSubmatch(read(t, page), -1) {
		all = append(all, m[1])
	}
	return all
}

// TestCommandsOfPagesExist: each `ranker-worker COMMAND --flag` between fences names a command, and flags that some command has.
func TestCommandsOfPagesExist(t *testing.T) {
	source := sources(t, "../cmd/ranker-worker")
	exist := commands(t, source)
	seen := 0
	for _, page := range pages(t) {
		for _, text := range fences(t, page) {
			text = strings.ReplaceAll(text, "\\\n", " ")
			for _, m := range regexp.MustCompile(`(?m)^ *(?:\$ )?(?:\./)?(?:ranker-worker|go run \./cmd/ranker-worker) ([a-z]+)(.*)$`).FindAllStringSubmatch(text, -1) {
				seen++
				assert.Contains(t, exist, m[1], "%s: %s", page, m[0])
				for _, flag := range regexp.MustCompile(`(?:^| )--([a-z-]+)`).FindAllStringSubmatch(m[2], -1) {
					assert.Contains(t, source, `"`+flag[1]+`"`, "%s: %s", page, m[0])
				}
			}
		}
	}
	assert.Greater(t, seen, 10)
}

// TestConfigurationsOfREADMELoad without a warning: the file of README.md, with each line of its section on policies, and with each row of the page on policies.
func TestConfigurationsOfREADMELoad(t *testing.T) {
	blocks := fences(t, "../README.md")
	file := slices.IndexFunc(blocks, func(text string) bool { return strings.HasPrefix(text, "kafka:") })
	require.GreaterOrEqual(t, file, 0)
	_, section, _ := strings.Cut(read(t, "../README.md"), "\n## Which policy?\n")
	section, _, _ = strings.Cut(section, "\n## ")
	lines := strings.Split(section, "\n- ")
	for _, row := range table(t, read(t, "choose-a-policy.md"), "## By how payoffs behave", "payoffs (rewards)") {
		lines = append(lines, row[1])
	}
	tried := 0
	for _, line := range lines {
		text := blocks[file]
		for _, word := range code(line) {
			switch key, _, _ := strings.Cut(word, ":"); key {
			case "payoffs", "context":
				text += "    " + word + "\n"
			default:
				t.Fatalf("%q is no setting that this test knows", word)
			}
			tried++
		}
		_, warnings, err := config.Load("worker.yaml", []byte(text), func(string) (string, bool) { return "", false })
		require.NoError(t, err, text)
		assert.Empty(t, warnings, text)
	}
	assert.Equal(t, 7, tried)
}

// TestHowTosBeginWithTheCommand, or with the file to write: a page of docs/do has it below its title.
func TestHowTosBeginWithTheCommand(t *testing.T) {
	for _, page := range here(t) {
		if strings.HasPrefix(page, "do/") {
			assert.Regexp(t, "\\A# .+\n\n```", read(t, page), page)
		}
	}
}

// TestConfigurationsOfPagesLoad: those between fences of the pages for operators, completed by the sections that a page leaves out.
func TestConfigurationsOfPagesLoad(t *testing.T) {
	needed := map[string]string{
		"kafka":    "kafka: {brokers: [\"k:9092\"]}\n",
		"redis":    "redis: {url: \"redis://r:6379/0\"}\n",
		"learners": "learners: {feed: {payoffs: stochastic}}\n",
	}
	sections := []string{"kafka", "redis", "http", "serve", "traces", "log", "join", "limits", "learners", "experiments"}
	loaded := 0
	for _, page := range here(t) {
		if !strings.HasPrefix(page, "do/") {
			continue
		}
		for _, text := range fences(t, page) {
			var keys map[string]any
			if yaml.Unmarshal([]byte(text), &keys) != nil || len(keys) == 0 {
				continue // commands and their output
			}
			if slices.ContainsFunc(slices.Collect(maps.Keys(keys)), func(k string) bool { return !slices.Contains(sections, k) }) {
				continue // files of other programs
			}
			for section, file := range needed {
				if keys[section] == nil {
					text += file
				}
			}
			_, _, err := config.Load(page, []byte(text), func(string) (string, bool) { return "", false })
			assert.NoError(t, err, text)
			loaded++
		}
	}
	assert.GreaterOrEqual(t, loaded, 8)
}
