package checker

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestDeltasBeforeAReload: a value published before a reload need not be the stored one; otherwise it must be.
func TestDeltasBeforeAReload(t *testing.T) {
	entry := func(id, previous string, more ...any) any {
		return []any{id, append([]any{"token", "t", "previous", "t", "previous_seq", previous}, more...)}
	}
	old := "\x06a:item\x01f\x041.5" // field f of hash a:item to 1.5
	f := &fold{out: newFindings(0, 10), state: &state{seq: 3, hashes: map[string]map[string]string{"a:item": {"f": "2"}}}}
	f.state.deltas = []any{entry("1-0", "0", "changes", old), entry("2-0", "1", "reload", "1"), entry("3-0", "2", "changes", "")}
	f.checkDeltas("t")
	require.Empty(t, f.out.list)

	f = &fold{out: newFindings(0, 10), state: f.state}
	f.state.deltas[1] = entry("2-0", "1", "changes", "")
	f.checkDeltas("t")
	require.Len(t, f.out.list, 1, "what was published first is not what is stored")
}
