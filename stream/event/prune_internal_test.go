package event

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// drawJSON draws any JSON value, of which many are nearly records.
func drawJSON(t *rapid.T, depth int) string {
	names := []string{"impression_id", "candidates", "item", "utility", "time", "payoff", "x", "", `c\u0061ndidates`, `\u0069tem`, `a\"b`}
	space := rapid.SampledFrom([]string{"", "", " ", "\n\t"}).Draw(t, "space")
	kind := rapid.IntRange(0, 9).Draw(t, "kind")
	if depth == 0 {
		kind = 7
	}
	var parts []string
	switch {
	case kind > 6 && depth > 0:
		return space + rapid.SampledFrom([]string{`"i"`, `"a"`, `"b\n"`, "1", "0.5", "-2e3", "null", "true", `"2026-11-21T10:00:00Z"`, "[]", "{}"}).Draw(t, "scalar") + space
	case kind > 2 && depth < 4:
		for range rapid.IntRange(0, 6).Draw(t, "members") {
			parts = append(parts, fmt.Sprintf(`%s"%s"%s:%s`, space, rapid.SampledFrom(names).Draw(t, "name"), space, drawJSON(t, depth+1)))
		}
		return space + "{" + strings.Join(parts, ",") + space + "}" + space
	case depth < 4:
		for range rapid.IntRange(0, 5).Draw(t, "elements") {
			parts = append(parts, drawJSON(t, depth+1))
		}
		return space + "[" + strings.Join(parts, ",") + space + "]" + space
	}
	return "0"
}

// TestPrune_LeavesWhatIsRead: a pruned record is read as the whole one would be, or refused where that is; and what it holds is
// what is read.
func TestPrune_LeavesWhatIsRead(t *testing.T) {
	limits := Limits{MaxCandidates: 3}
	rapid.Check(t, func(t *rapid.T) {
		value := []byte(drawJSON(t, 0))
		require.True(t, json.Valid(value), string(value))
		pruned, f := prune(nil, value, impressionFields, "candidates", candidateFields, limits.MaxCandidates)
		var whole, left Impression
		err := NewDecoder(limits).Impression(&whole, []byte("i"), value)
		if f != nil {
			require.Error(t, err, string(value))
			return
		}
		require.True(t, json.Valid(pruned), "%s became %s", value, pruned)
		require.LessOrEqual(t, len(pruned), len(value))
		values, _, _ := scan(pruned)
		require.LessOrEqual(t, values, 1+len(impressionFields)+3*limits.MaxCandidates, string(pruned))
		again := NewDecoder(limits).Impression(&left, []byte("i"), pruned)
		require.Equal(t, err, again, "%s became %s", value, pruned)
		if err == nil {
			require.Equal(t, whole, left)
		}
	})
}
