package checker

import (
	"fmt"
	"testing"
	"time"

	"github.com/ranker-worker/ranker-worker/internal/test/testenv"
)

// TestAges_EarliestSelectionIsNotLearned: the stored earliest bucket is of a selection whose payoff was refused, and which counts nowhere else.
func TestAges_EarliestSelectionIsNotLearned(t *testing.T) {
	t.Parallel()
	v := &victim{world: newWorld(t, testenv.Embedded(t), 1, "  feed: {payoffs: stochastic, policy: moss, out_of_range: refuse}", ""), offsets: map[string]int64{}}
	v.clock.Store(start)
	w := v.start(t, v.now)
	for k := range 8 {
		id := fmt.Sprint("selected-", k)
		v.impression(t, id, "feed")
		v.put(t, "selections", id, `"item":"b"`)
		v.settle(t)
		v.clock.Add(time.Minute.Milliseconds())
	}
	v.put(t, "payoffs", "selected-0", `"payoff":2`)
	v.settle(t)
	w.stop(t)
	requireClean(t, v.check(t))
}
