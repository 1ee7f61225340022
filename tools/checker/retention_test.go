package checker

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestItemsEnd: of impressions of eleven hours most items end, some of them more than once, in the real worker as in the naive reckoning,
// with payoffs fed, awaited and silent; and what is left of an item that has ended is found.
func TestItemsEnd(t *testing.T) {
	const impressions, step = 4000, 10 * time.Second
	for name, further := range map[string]string{
		"ages":    "policy: moss",
		"default": "policy: moss, on_expiry: {default: 0.3}, drift: 0.5",
		"sums":    "policy: moss, aggregate: sum",
		"waits":   "policy: greedy, on_expiry: drop",
		"robust":  "policy: robust",
	} {
		t.Run(name, func(t *testing.T) {
			payoffs := "stochastic"
			if name == "robust" {
				payoffs = "adversarial"
			}
			v, worker := longAgo(t, fmt.Sprintf("  feed: {payoffs: %s, %s, item_retention: 15m, payoff_horizon: 10m, selection_timeout: 2m}",
				payoffs, further), impressions, step)
			worker.stop(t)
			r := v.check(t)
			requireExact(t, r)
			items, err := v.redis.HGetAll(t.Context(), v.key(0, "feed:items")).Result()
			require.NoError(t, err)
			var line struct{ Next, Kept int }
			require.NoError(t, json.Unmarshal([]byte(v.field(t, "meta", "learner.feed")), &line))
			require.Greater(t, line.Next, len(items)+1000, "many have ended, and come again with other numbers")
			require.Less(t, len(items), 1000)
			for n := range 1010 {
				item := fmt.Sprint("item-", n)
				if _, there := items[item]; there {
					continue
				}
				undo := v.set(t, v.key(0, "feed:items"), item, `{"no":0,"n":1,"sum":0.5,"sumsq":0.25}`)
				if name == "ages" || name == "default" || name == "sums" {
					requireBroken(t, v.check(t), itemsKept)
				} else {
					requireBroken(t, v.check(t), itemsSums)
				}
				undo()
				break
			}
			for item := range items {
				undo := v.unset(t, v.key(0, "feed:items"), item)
				requireBroken(t, v.check(t), itemsCatalogue)
				undo()
				break
			}
		})
	}
}
