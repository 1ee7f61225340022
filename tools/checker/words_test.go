package checker

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestStoredTexts_AreReadStrictly(t *testing.T) {
	for _, c := range []struct{ hash, field, good, bad string }{
		{"queue", "1:-2", "0.5", "1.5"},
		{"flights", "1", "2 10:3:1:-7 10:4:1", "2 10:3:1 9:7:1"},
		{"flights", "1", "2 10:3:1", "2 10:3:1:0"},
		{"settled", "1", "0 3", "0 -3"},
		{"settled", "1", "2 3 1 9", "2 3 0 9"},
		{"settled", "1", "2 3 1 9007199254740992", "9007199254740992 3"},
		{"ages", "below:10:3", "0:5 7:1", "0:5 0:1"},
		{"ages", "since", "-5 1 0 0", "5 5"},
		{"history", "pass", "9 8", "8 9"},
		{"history", "1", "10:3:1:-5:6", "10:3:0:5:6"},
		{"recent", "1", "10:3:1:5:6:7", "10:3:1:5:6"},
		{"levels", "10", "10:3:1:5", "11:3:1:5"},
		{"attraction", "1", "0 1", "0 0"},
		{"open", "1", "1 0 0", "0 0 0"},
		{"cells", "1|2", "1 5 -6 10:3:1:2:127 11:4:1:2:127", "1 5 10:3:1"},
		{"met", "1", "5", "0"},
		{"met", "1", "5", "+5"},
		{"linear", "3:-5", "1 -20", "1 0.5"},
		{"vectors", "1:3:0", strings.Repeat(" ", 36), strings.Repeat(" ", 35)}, // four numbers, none of which is cut at its blanks
		{"rounds", "1:2", "5", "5 "},
		{"preferences", "1:2", "0 5", "0 0"},
		{"preferences", "2:1", "5", "5 "},
		{"utilities", "1", "2 0.5 0.1", "2 0.5 -0.1"},
		{"learner", "windows", "1 2 0.5 0.25 0.75", "1 2 0.5 0.25 0.7"},
		{"learner", "silence", "9 8 0.5 0.5 1 1 0.7 1", "9 8 0.5 0.5 1 1 0.7 0.6 1"},
		{"learner", "silence", "9 8 0.5 0.5 1 1", "9 8 0.5 0.5 1"},
		{"learner", "below", "0.5 0", "0.5 -1"},
		{"learner", "falls", ":1:2:3:4:5:6:7:8", ":1:2:3:4:5:6:7"},
		{"learner", "levels", "1 2 3 4 5 6 7 10:3:5 10:4:5", "1 2 3 4 5 6 7"},
	} {
		require.NoError(t, (&storedLearner{}).load(c.hash, c.field, c.good), "%s %s", c.hash, c.field)
		for _, bad := range []string{c.bad, c.good + " x", ""} {
			require.Error(t, (&storedLearner{}).load(c.hash, c.field, bad), "%s %s: %q", c.hash, c.field, bad)
		}
	}
}
