package checker

import (
	"encoding/json"
	"fmt"
	"maps"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestItemsEnd: over eleven hours of impressions most items end, some repeatedly, in the real worker as in the checker. Their payoffs are
// fed, awaited or missing. Leftovers of an ended item are found.
func TestItemsEnd(t *testing.T) {
	t.Parallel()
	const impressions, step = 4000, 10 * time.Second
	for name, further := range map[string]string{
		"ages":    "policy: moss",
		"default": "policy: moss, on_expiry: {default: 0.3}, drift: 0.5",
		"sums":    "policy: moss, aggregate: sum",
		"waits":   "policy: greedy, on_expiry: drop",
		"robust":  "policy: robust",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			payoffs := "stochastic"
			if name == "robust" {
				payoffs = "adversarial"
			}
			v, worker := longAgo(t, fmt.Sprintf("  feed: {payoffs: %s, %s, item_retention: 15m, payoff_horizon: 10m, selection_timeout: 2m}",
				payoffs, further), impressions, step)
			worker.stop(t)
			r := v.check(t)
			requireExact(t, r)
			items := v.items(t)
			var line struct{ Next, Kept int }
			require.NoError(t, json.Unmarshal([]byte(v.field(t, "meta", "learner.feed")), &line))
			require.Greater(t, line.Next, len(items)+1000, "many have ended, and come again with other numbers")
			require.Less(t, len(items), 1000)
			for n := range 1010 {
				item := fmt.Sprint("item-", n)
				if _, there := items[item]; there {
					continue
				}
				undo := v.putBack(t, item, line.Next)
				if name == "ages" || name == "default" || name == "sums" {
					requireBroken(t, v.check(t), itemsKept)
				} else {
					requireBroken(t, v.check(t), itemsSums)
				}
				undo()
				break
			}
			undo := v.unset(t, v.key(0, "feed:names"), v.anyField(t, "feed:names"))
			requireBroken(t, v.check(t), itemsCatalogue)
			undo()
		})
	}
}

// items are those that learner feed has, by name.
func (v *victim) items(t *testing.T) map[string]storedItem {
	t.Helper()
	pages, err := v.redis.HGetAll(t.Context(), v.key(0, "feed:names")).Result()
	require.NoError(t, err)
	all := map[string]storedItem{}
	for page, value := range pages {
		items, err := parseNamesPage(page, value)
		require.NoError(t, err)
		maps.Copy(all, items)
	}
	return all
}

// putBack stores an item that has ended, as if it had not, below the next number; with a payoff.
func (v *victim) putBack(t *testing.T, item string, next int) func() {
	t.Helper()
	pages, err := v.redis.HGetAll(t.Context(), v.key(0, "feed:names")).Result()
	require.NoError(t, err)
	page := 0
	for pages[strconv.Itoa(page)] != "" {
		page++
	}
	require.Less(t, page*namesInPage, next)
	count, err := strconv.Atoi(v.field(t, "feed:catalogue", "items"))
	require.NoError(t, err)
	return both(both(v.set(t, v.key(0, "feed:names"), strconv.Itoa(page), "\x00"+string(rune(len(item)+1))+item+"\x00"),
		v.set(t, v.key(0, "feed:catalogue"), "items", strconv.Itoa(count+1))),
		v.set(t, v.key(0, "feed:items"), item, fmt.Sprintf(`{"no":%d,"n":1,"sum":0.5,"sumsq":0.25}`, page*namesInPage)))
}
