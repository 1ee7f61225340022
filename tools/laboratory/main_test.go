package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ranker-worker/ranker-worker/config"
	"github.com/ranker-worker/ranker-worker/stream/experiment"
)

// final is the regret in a row of a table.
var final = regexp.MustCompile(`(?m)^\| \w[^|]* \| (-?\d+) \|`)

var root = filepath.Join("..", "..")

// pages returns the text of all pages of the laboratory.
func pages(t *testing.T) string {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(root, directory, "*.md"))
	require.NoError(t, err)
	var all strings.Builder
	for _, path := range paths {
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		all.Write(text)
	}
	return all.String()
}

// inPages returns a study's table in the pages, which has as many lines as one that was just played.
func inPages(t *testing.T, study string, played *bytes.Buffer) string {
	t.Helper()
	_, shown, _ := strings.Cut(pages(t), begin(study))
	shown, _, _ = strings.Cut(shown, end(study))
	require.Equal(t, strings.Count(played.String(), "\n"), strings.Count(shown, "\n"))
	return shown
}

// TestStudiesAreThoseOfThePages: every study has its place and its plot, with the figures of its table at line ends, and can be played.
// The pages have no others.
func TestStudiesAreThoseOfThePages(t *testing.T) {
	text := pages(t)
	for _, s := range studies() {
		require.Contains(t, text, begin(s.name))
		require.Contains(t, text, end(s.name))
		require.Contains(t, text, "]("+s.name+".svg)")
		picture, err := os.ReadFile(filepath.Join(root, directory, s.name+".svg"))
		require.NoError(t, err)
		_, table, _ := strings.Cut(text, begin(s.name))
		table, _, _ = strings.Cut(table, end(s.name))
		finals := final.FindAllStringSubmatch(table, -1)
		require.Greater(t, len(finals), 1)
		for _, m := range finals {
			regret, err := strconv.Atoi(m[1])
			require.NoError(t, err)
			require.Contains(t, string(picture), ">"+strings.Replace(config.Grouped(regret), "-", "−", 1)+"</text>", s.name)
		}
		s.experiment.Horizon, s.experiment.Runs = 50, 2
		results, err := s.play(context.Background())
		require.NoError(t, err, s.name)
		require.Greater(t, len(results), 1)
	}
	require.Contains(t, text, begin(liftStudy))
	require.Contains(t, text, begin(coverageStudy))
	require.Contains(t, text, begin(shareStudy))
	require.Contains(t, text, begin(outlookStudy))
	require.Contains(t, text, begin(groupStudy))
	require.Equal(t, 2*len(studies())+10, strings.Count(text, "<!-- laboratory: "))
}

// The study of experiments can be played, and in the page bounds are wrong as seldom as they may be, and standard errors are not.
func TestLifts(t *testing.T) {
	var table bytes.Buffer
	require.NoError(t, lifts(context.Background(), &table, liftSize{runs: 2, impressions: 1000, bounded: 1, finding: 1, longest: 1000}))
	shown := inPages(t, liftStudy, &table)
	rows := regexp.MustCompile(`(?m)^\| [^|]*[a-z][^|]* \| ([0-9.]+) % \|`).FindAllStringSubmatch(shown, -1)
	require.Len(t, rows, 4)
	for k, holds := range []bool{true, false, false, true} {
		wrong, err := strconv.ParseFloat(rows[k][1], 64)
		require.NoError(t, err)
		require.Equal(t, holds, wrong < 100*experiment.Alpha, rows[k][0])
	}
	explained, err := os.ReadFile(filepath.Join(root, "docs", "understand", "experiments.md")) // repeats a sample size
	require.NoError(t, err)
	size := regexp.MustCompile(`(?m)^\| 0\.04 \| (\S+) \((\S+)\) \|`).FindStringSubmatch(shown)
	require.Len(t, size, 3)
	for _, impressions := range size[1:] {
		require.Contains(t, string(explained), impressions)
	}
}

// The study of shared learning can be played. In the page the lift of moss changes its sign with the share. It is refused in 95 of 100
// runs or more, and in 5 at most where both arms have one policy.
func TestShares(t *testing.T) {
	var table bytes.Buffer
	require.NoError(t, shares(context.Background(), &table, shareSize{runs: 2, impressions: 1000}))
	shown := inPages(t, shareStudy, &table)
	rows := regexp.MustCompile(`(?m)^\| .moss. \| \S+ \| (\S+) \| .* \| (\S+) \| .* \| (\d+) \|$`).FindAllStringSubmatch(shown, -1)
	require.Len(t, rows, 2)
	require.Equal(t, "-+", rows[0][1][:1]+rows[0][2][:1])
	for k, of := range rows {
		refused, err := strconv.Atoi(of[3])
		require.NoError(t, err)
		require.True(t, k == 0 && refused >= 95 || k == 1 && refused <= 5, of[0])
	}
}

// The study of outlooks can be played. In the page, better is said wrongly in at most 2 % of runs with a right history. Shortcuts are wrong in most
// where the arm is faster. Lifts are found by the days of the documentation.
func TestOutlooks(t *testing.T) {
	var table bytes.Buffer
	require.NoError(t, outlooks(context.Background(), &table, outlookSize{runs: 1, days: 33}))
	shown := inPages(t, outlookStudy, &table)
	rows := 0
	for _, line := range strings.Split(shown, "\n") {
		cells := strings.Split(line, "|")
		var wrong [rules]float64
		if len(cells) < 10 || !strings.Contains(cells[3], "%") {
			continue
		}
		rows++
		for rule := range wrong {
			_, err := fmt.Sscanf(strings.TrimSpace(cells[3+rule]), "%f %%", &wrong[rule])
			require.NoError(t, err, line)
		}
		most := 2.0
		if strings.Contains(line, "later than history") {
			most = 5
		}
		require.LessOrEqual(t, slices.Max(wrong[:ruleNaive]), most, line)
		if strings.Contains(line, "| the arm pays twice as fast |") {
			require.Greater(t, min(wrong[ruleNaive], wrong[ruleEqual]), 80.0, line)
		}
	}
	require.Equal(t, len(sites)*len(outlookWorlds()), rows)
	days := regexp.MustCompile(`(?m)^\| ([AB]): [^|]* \| (\d+) \(\d+\) \| (\d+) \(\d+\) \| (\d+) \(\d+\) \| (\d+) \(\d+\) \| (\d+) \(\d+\) \|`).FindAllStringSubmatch(shown, -1)
	require.Len(t, days, 2)
	for k, goals := range [][2]int{{26, 23}, {22, 21}} {
		for column, goal := range map[int]int{4: goals[0], 6: goals[1]} { // without and with a covariate
			found, err := strconv.Atoi(days[k][column])
			require.NoError(t, err)
			require.LessOrEqual(t, found, goal, days[k][0])
		}
	}
	explained, err := os.ReadFile(filepath.Join(root, "docs", "understand", "experiments.md"))
	require.NoError(t, err)
	require.Contains(t, strings.ReplaceAll(string(explained), "\n", " "), "day "+days[0][4]+" in the median instead of "+days[0][2])
	require.Contains(t, strings.ReplaceAll(string(explained), "\n", " "), "day "+days[0][6]+" instead of "+days[0][4]+", by deadlines on day "+days[0][5])
}

// A faster arm is not called better, and shortcuts do call it so. If one run in 50 were wrong, more than 6 of 20 would be so with a probability of
// 1e-7. A shortcut that is wrong in 9 of 10 runs is wrong in 6 or fewer of 20 with one below 1e-9.
func TestFasterIsNotBetter(t *testing.T) {
	w := outlookWorld{arm: exponential(2.5), control: fiveDays}
	h := w.control.history()
	var wrong [rules]int
	for seed := range uint64(20) {
		run, err := w.play(&sites[0], 1e6+seed, 40, h)
		require.NoError(t, err)
		for rule, at := range run.better {
			wrong[rule] += one(at > 0)
		}
	}
	require.LessOrEqual(t, slices.Max(wrong[:ruleNaive]), 6, "%v", wrong)
	require.Greater(t, min(wrong[ruleNaive], wrong[ruleEqual]), 6, "%v", wrong)
}

// The study of evaluate's intervals can be played, and in the page those of dr are wrong about as often as they may be, and the bounds more seldom.
func TestCoverage(t *testing.T) {
	var table bytes.Buffer
	require.NoError(t, coverage(context.Background(), &table, coverageSize{logs: 1, impressions: 3000, looks: 3}))
	shown := inPages(t, coverageStudy, &table)
	for _, row := range strings.Split(strings.TrimSpace(shown), "\n")[2:] {
		cells := strings.Split(row, "|")
		for column, most := range map[int]float64{6: 10, 7: 5} { // dr, and at any look
			var wrong float64
			_, err := fmt.Sscanf(strings.TrimSpace(cells[column]), "%f %%", &wrong)
			require.NoError(t, err, row)
			require.LessOrEqual(t, wrong, most, row)
		}
	}
}

// TestReplace: a table is written to the one page with both markers; other pages and other text stay.
func TestReplace(t *testing.T) {
	t.Chdir(t.TempDir())
	require.NoError(t, os.MkdirAll(directory, 0o755))
	page, other := filepath.Join(directory, "a.md"), filepath.Join(directory, "b.md")
	require.NoError(t, os.WriteFile(page, []byte("x\n"+begin("n")+"old\n"+end("n")+"y\n"), 0o600))
	require.NoError(t, os.WriteFile(other, []byte("z\n"), 0o600))
	require.NoError(t, replace("n", []byte("new\n")))
	for path, want := range map[string]string{page: "x\n" + begin("n") + "new\n" + end("n") + "y\n", other: "z\n"} {
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		require.Equal(t, want, string(text))
	}
	require.ErrorContains(t, replace("m", nil), "no page")
	require.NoError(t, os.WriteFile(other, []byte(begin("n")+end("n")), 0o600))
	require.ErrorContains(t, replace("n", nil), "both")
}

// The study of young groups can be played. In the page, better is said wrongly in at most 2 % of runs, and in more if impressions count as
// independent. Lifts are found before the deadlines.
func TestGroupOutlooks(t *testing.T) {
	var table bytes.Buffer
	require.NoError(t, groupOutlooks(context.Background(), &table, outlookSize{runs: 1, days: 33}))
	shown := inPages(t, groupStudy, &table)
	rows := regexp.MustCompile(`(?m)^\| [AB] \| [^|]* \| ([0-9.]+) % \| ([0-9.]+) % \| ([0-9.]+) % \| ([0-9.]+) % \| ([0-9.]+) % \|`).FindAllStringSubmatch(shown, -1)
	require.Len(t, rows, 6)
	for _, row := range rows {
		var wrong [5]float64
		for k := range wrong {
			var err error
			wrong[k], err = strconv.ParseFloat(row[1+k], 64)
			require.NoError(t, err)
		}
		require.LessOrEqual(t, slices.Max(wrong[:groupBlind]), 2.0, row[0])
		require.LessOrEqual(t, wrong[4], 2.0, "worse: %s", row[0])
		require.Greater(t, wrong[groupBlind], 100*experiment.Alpha, row[0])
	}
	days := regexp.MustCompile(`(?m)^\| [AB]: [^|]* \| (\d+) \(\d+\) \| (\d+) \(\d+\) \| (\d+) \(\d+\) \|`).FindAllStringSubmatch(shown, -1)
	require.Len(t, days, 2)
	for _, row := range days {
		found, err := strconv.Atoi(row[3])
		require.NoError(t, err)
		require.Less(t, found, 30, row[0])
	}
	explained, err := os.ReadFile(filepath.Join(root, "docs", "understand", "experiments.md"))
	require.NoError(t, err)
	require.Contains(t, strings.ReplaceAll(string(explained), "\n", " "), "day "+days[0][3]+" in the median, by deadlines on day "+days[0][1])
}
