package partition

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/ranker-worker/ranker-worker/policy"
	"github.com/ranker-worker/ranker-worker/state"
	"github.com/ranker-worker/ranker-worker/stream/event"
)

// TestNamesPage: a written page decodes to the same items. A prefix is refused, or has fewer items.
func TestNamesPage(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		page := rapid.Int32Range(0, 1<<20).Draw(t, "page")
		until := rapid.Custom(func(t *rapid.T) event.Millis { return rapid.Int64Range(0, 1<<42).Draw(t, "until") })
		var items []namedItem
		for k := range policy.Item(namesInPage) {
			if rapid.Bool().Draw(t, "there") {
				items = append(items, namedItem{[]byte(rapid.StringN(1, 20, 60).Draw(t, "name")), page*namesInPage + k, until.Draw(t, "until")})
			}
		}
		field, value := []byte(fmt.Sprint(page)), appendNames(nil, items)
		if len(items) == 0 {
			require.Empty(t, value)
			return
		}
		got, err := parseNames(nil, field, value)
		require.NoError(t, err)
		require.Equal(t, items, got)
		fewer, err := parseNames(nil, field, value[:rapid.IntRange(0, len(value)-1).Draw(t, "cut")])
		require.True(t, err != nil || len(fewer) < len(items))
	})
}

func FuzzNamesPage(f *testing.F) {
	f.Add([]byte("3"), appendNames(nil, []namedItem{{[]byte("a"), 3 * namesInPage, 17}, {[]byte("b"), 3*namesInPage + 5, 18}}))
	f.Add([]byte("0"), []byte("\x00\x02a\x00"))
	f.Add([]byte("33554431"), []byte("\x00\x00\x02a\x00"))
	f.Fuzz(func(t *testing.T, field, value []byte) {
		items, err := parseNames(nil, field, value)
		if err != nil || len(items) == 0 {
			return
		}
		for _, it := range items {
			require.NotEmpty(t, it.name)
			require.GreaterOrEqual(t, it.number, policy.Item(0))
			require.GreaterOrEqual(t, it.until, event.Millis(0))
		}
		again, err := parseNames(nil, field, appendNames(nil, items))
		require.NoError(t, err)
		require.Equal(t, items, again)
	})
}

// TestNamesAndRowsDiffer: once it is said how many items there are, a row without a name is somebody else's.
func TestNamesAndRowsDiffer(t *testing.T) {
	w := newWorld(t, testConfig())
	require.NoError(t, w.read(event.Impressions, "i-1", impression("i-1", "a", "b"), day))
	w.save()
	w.store.fields["feed:items"] = map[string]string{"b": string(appendItem(nil, 0, policy.Sums{}, 0))}
	require.ErrorContains(t, w.tryStart(), "not among the names")
	rows, err := Rows("feed", []state.Field{{Hash: "feed:names", Field: []byte("0"), Value: []byte(w.store.fields["feed:names"]["0"])}})
	require.NoError(t, err)
	require.Equal(t, `{"no":1,"n":0,"sum":0,"sumsq":0}`, string(rows[1].Value))
	require.True(t, strings.HasPrefix(string(rows[0].Value), `{"no":0,`))
}

// TestRowsSayUntilWhenItemsAreKept: an export has no names beside the rows, which say so in the store.
func TestRowsSayUntilWhenItemsAreKept(t *testing.T) {
	rows, err := Rows("feed", []state.Field{
		{Hash: "feed:items", Field: []byte("a"), Value: appendItem(nil, 7, policy.Sums{N: 2, R: 0.5, Q: 0.25}, 0)},
		{Hash: "feed:names", Field: []byte("0"), Value: appendNames(nil, []namedItem{{[]byte("a"), 7, 1000}})},
	})
	require.NoError(t, err)
	require.Len(t, rows, 1)
	require.Equal(t, `{"no":7,"n":2,"sum":0.5,"sumsq":0.25,"until":1000}`, string(rows[0].Value))
}
