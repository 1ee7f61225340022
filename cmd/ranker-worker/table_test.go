package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
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
