package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ranker-worker/ranker-worker/internal/admin"
)

// TestPrintOrder_MarksWhatIsNotCertain, and says how much more it takes.
func TestPrintOrder_MarksWhatIsNotCertain(t *testing.T) {
	o := &admin.OrderReport{Items: []admin.OrderedItem{{Item: "a"}, {Item: "b"}, {Item: "c", Undecided: true}}, UndecidedPairs: 1, Expected: 3}
	var b strings.Builder
	printOrder(&b, o, 20)
	require.Equal(t, "  order of utilities (1 pair undecided; selections needed: about 3): a < b ? c\n", b.String())
	b.Reset()
	o.Items[2].Undecided, o.UndecidedPairs = false, 0
	printOrder(&b, o, 2)
	require.Equal(t, "  order of utilities (certain): a < b … and 1 more\n", b.String())
}
