package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ranker-worker/ranker-worker/config"
	"github.com/ranker-worker/ranker-worker/stream/experiment"
)

// final is the regret in a row of a table.
var final = regexp.MustCompile(`(?m)^\| \w[^|]* \| (-?\d+) \|`)

// Every study has its place in the page and its picture, with the figures of its table at line ends, and can be played; the page
// has no others.
func TestStudiesAreThoseOfThePage(t *testing.T) {
	root := filepath.Join("..", "..")
	page, err := os.ReadFile(filepath.Join(root, page))
	require.NoError(t, err)
	for _, s := range studies() {
		require.Contains(t, string(page), begin(s.name))
		require.Contains(t, string(page), end(s.name))
		require.Contains(t, string(page), "](laboratory/"+s.name+".svg)")
		picture, err := os.ReadFile(filepath.Join(root, pictures, s.name+".svg"))
		require.NoError(t, err)
		_, table, _ := strings.Cut(string(page), begin(s.name))
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
	require.Contains(t, string(page), begin(liftStudy))
	require.Contains(t, string(page), begin(coverageStudy))
	require.Equal(t, 2*len(studies())+4, strings.Count(string(page), "<!-- laboratory: "))
}

// The study of experiments can be played, and in the page bounds are wrong as seldom as they may be, and standard errors are not.
func TestLifts(t *testing.T) {
	var table bytes.Buffer
	require.NoError(t, lifts(context.Background(), &table, liftSize{runs: 2, impressions: 1000, bounded: 1, finding: 1, longest: 1000}))
	page, err := os.ReadFile(filepath.Join("..", "..", page))
	require.NoError(t, err)
	_, shown, _ := strings.Cut(string(page), begin(liftStudy))
	shown, _, _ = strings.Cut(shown, end(liftStudy))
	require.Equal(t, strings.Count(table.String(), "\n"), strings.Count(shown, "\n"))
	rows := regexp.MustCompile(`(?m)^\| [^|]*[a-z][^|]* \| ([0-9.]+) % \|`).FindAllStringSubmatch(shown, -1)
	require.Len(t, rows, 4)
	for k, holds := range []bool{true, false, false, true} {
		wrong, err := strconv.ParseFloat(rows[k][1], 64)
		require.NoError(t, err)
		require.Equal(t, holds, wrong < 100*experiment.Alpha, rows[k][0])
	}
}

// The study of evaluate's intervals can be played, and in the page those of dr are wrong about as often as they may be, and the bounds more seldom.
func TestCoverage(t *testing.T) {
	var table bytes.Buffer
	require.NoError(t, coverage(context.Background(), &table, coverageSize{logs: 1, impressions: 3000, looks: 3}))
	page, err := os.ReadFile(filepath.Join("..", "..", page))
	require.NoError(t, err)
	_, shown, _ := strings.Cut(string(page), begin(coverageStudy))
	shown, _, _ = strings.Cut(shown, end(coverageStudy))
	require.Equal(t, strings.Count(table.String(), "\n"), strings.Count(shown, "\n"))
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
