package main

import (
	"io"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ranker-worker/ranker-worker/internal/admin"
)

// TestTable: numbers, intervals and missing ones stand to the right, texts to the left, and no line ends with spaces.
func TestTable(t *testing.T) {
	var rows table
	rows.row("item\tµ ± σ\tbounds\tstate\tnone")
	rows.row("%s\t%d\t%s\t%s\t", "film-1", 12_000, "[-0.5, 1]", "leads")
	rows.row("7\t–\t-\tblocked by 7")
	rows.row("é\t+0.25")
	var b strings.Builder
	rows.write(&b, "  ")
	assert.Equal(t, `  item    µ ± σ     bounds  state         none
  film-1  12000  [-0.5, 1]  leads
  7           –          -  blocked by 7
  é       +0.25
`, b.String())
	b.Reset()
	new(table).write(&b, "  ")
	assert.Empty(t, b.String())
}

// TestShow_NamesControlNoTerminal: names are those that producers have sent. In a report they neither control the terminal nor begin a row.
func TestShow_NamesControlNoTerminal(t *testing.T) {
	r := &admin.Report{Group: "g", Learners: []admin.LearnerReport{{Learner: "feed", Items: []admin.ItemReport{{Item: "a\x1b]0;b\ac\u009b\u202ed\ne"}, {Item: "über\u00a0café"}}}}}
	var out strings.Builder
	c := &call{cmd: &cobra.Command{}}
	c.cmd.SetOut(&out)
	require.NoError(t, c.show(r, func(w io.Writer) { printReport(w, r, 20) }))
	assert.Contains(t, out.String(), `  a\x1b]0;b\ac\u009b\u202ed\ne  `)
	assert.Contains(t, out.String(), "  über\u00a0café  ")
}
