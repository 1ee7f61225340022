package deadlines

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// TestQueue_LikeSorting adds and takes at random; a stable sort is the oracle.
func TestQueue_LikeSorting(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		type event struct {
			at int64
			id int
		}
		var queue Queue[int]
		var waiting []event
		added := 0
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			if rapid.Bool().Draw(t, "add") {
				at := rapid.Int64Range(-5, 5).Draw(t, "at")
				queue.Add(at, added)
				waiting = append(waiting, event{at, added})
				added++
				continue
			}
			now := rapid.Int64Range(-6, 6).Draw(t, "now")
			slices.SortStableFunc(waiting, func(a, b event) int { return int(a.at - b.at) })
			next, some := queue.Next()
			id, at, ok := queue.Take(now)
			if some != (len(waiting) > 0) || some && next != waiting[0].at {
				t.Fatalf("next is %d, %v; waiting are %v", next, some, waiting)
			}
			if want := len(waiting) > 0 && waiting[0].at <= now; ok != want {
				t.Fatalf("took %v at %d, of %v", ok, now, waiting)
			}
			if ok {
				if (event{at, id}) != waiting[0] {
					t.Fatalf("took %d of %d, of %v", id, at, waiting)
				}
				waiting = waiting[1:]
			}
			if queue.Len() != len(waiting) {
				t.Fatalf("%d left, not %d", queue.Len(), len(waiting))
			}
		}
	})
}
